"""One partition on this broker: its log, its role, what it answers, and who waits for it.

Owns the order in which things happen to a log and its role. It never waits and opens no connection;
the rules of leading and following are those of `broker/replica`.
"""
