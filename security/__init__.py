"""Security, as both ends of a connection share it: who a client is.

Owns principals. Opens no socket, reads no metadata, and knows no request handler.
"""
