"""Places and memory of connections: who may be connected, and how much all may hold together.

Knows no socket and no request: a connection is a holder of a place, or of memory.
"""
