"""Compaction: a log keeps the newest record of each key and drops the others.

Owns what is due, the steps of a round, and how results take their place in a log, over crashes too.
It never chooses the time or the rate: the broker does.
"""
