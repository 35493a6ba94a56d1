"""Pipelines to copy: each runs by one command, checks its results and prints the checks."""
