"""One partition on this broker: its log, its role, its answers, and the requests that wait for it.

This package decides the order in which a partition's log and role change. A `Partition` never
waits, and nothing in this package opens a connection. The rules of leading and following are in
`broker/replica`.
"""
