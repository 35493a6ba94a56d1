"""Processes that use one client library each, and do what tests tell them."""
