"""Metrics that clients push: subscriptions, rules for pushes, and the values shown (KIP-714)."""
