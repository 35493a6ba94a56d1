"""Limits of connections: how many may be open or not yet logged in, and how much memory they hold.

These modules see a connection only by protocols such as `Guest`, not its socket or its requests.
"""
