"""Kafka's command-line tools."""
