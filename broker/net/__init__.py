"""Listening sockets, and the connections that serve requests as their bytes arrive."""
