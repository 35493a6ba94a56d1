"""The upkeep of a broker: checkpoints, lag checks, retention, compaction, the scrub.

Owns the timing and the rates. It never decides what is due in a log, which storage and partitions
do, and no request waits for it.
"""
