"""Who may be connected to a broker, and how much memory all connections together may hold.

Knows no socket and no request: a connection is whoever holds a place, or memory.
"""
