"""Pipelines to copy: each runs by one command and says what it checked."""
