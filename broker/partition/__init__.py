"""One partition on this broker: its log, its role, its answers, and the requests that wait for it.

Owns the order in which things happen to a log and its role. It never waits and opens no connection.
The rules of leading and following are in `broker/replica`.
"""
