"""The upkeep of a broker: checkpoints, lag checks, retention, compaction, scrub, moves.

Owns the timing and the rates. Storage and partitions decide what is due in a log, and no request
waits for the upkeep.
"""
