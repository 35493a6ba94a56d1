"""Compaction: a log keeps the newest record of each key and drops the others.

This package decides which part of a log is due for compaction, compacts that part in steps (a
round), and replaces the old segments with the result so that a crash loses nothing. The broker
decides when a round runs and how fast.
"""
