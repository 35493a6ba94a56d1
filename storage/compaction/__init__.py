"""Compaction: of each key the newest record is kept, and the rest of a log leaves it.

Owns what is due, the steps of a round, and how results take their place in a log, over crashes too.
It never chooses the time or the rate: the broker does.
"""
