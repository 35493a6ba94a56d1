"""Connections, cluster view, producer, consumer, admin and the command line."""
