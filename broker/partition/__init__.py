"""One partition on this broker: its log, its role, its answers, and the requests that wait for it.

This package decides the order in which a partition's log and role change. Its code never waits for
the disk or the network, except where a docstring says so. The rules of leading and following are in
`broker/replica`.
"""
