"""Compaction: a log keeps the newest record of each key and drops the others.

This package decides which part of a log is due, runs a round in steps, and puts results in place so
that a crash loses nothing. The broker decides when a round runs and how fast.
"""
