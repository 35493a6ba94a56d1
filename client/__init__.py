"""Clients of a cluster: connections, cluster view, producer, consumer, admin, and the commands."""
