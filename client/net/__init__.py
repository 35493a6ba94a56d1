"""Connections, their pool and backoff: the part of clients that brokers use, too."""
