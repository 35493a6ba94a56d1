"""Limits of connections: how many may be open or not yet logged in, and how much memory they hold.

These modules know no sockets and no requests, only connections that hold a place or memory.
"""
