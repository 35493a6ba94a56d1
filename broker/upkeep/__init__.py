"""The upkeep of a broker: checkpoints, lag checks, retention, compaction, scrub, moves.

This package decides the timing and the rates. Storage and partitions decide what is due in a log.
No request waits for the upkeep.
"""
