"""Places and memory of connections: who may be connected, and how much all may hold together.

Knows no socket and no request: a connection is whoever holds a place, or memory.
"""
