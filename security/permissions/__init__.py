"""Permissions: what each API asks of a principal, and how it is refused; pure.

The table (`table.py`) is the same for brokers and controllers.
"""
