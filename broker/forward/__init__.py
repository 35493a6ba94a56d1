"""The Forwarder: it moves each record of a delay topic to its target once it is due, exactly once.

The log of the source partition keeps everything that the Forwarder has decided, as control records
among the parked ones. Every replica folds its own copy of that log below the high watermark, so
that a new leader goes on where the old one ended. It knows nothing of sockets.
"""
