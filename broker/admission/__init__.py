"""Limits of connections: how many may be open, and how much memory they may hold together.

These modules know no sockets and no requests, only connections that hold a place or memory.
"""
