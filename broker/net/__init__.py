"""Listening sockets and the connection that serves requests as their bytes arrive."""
