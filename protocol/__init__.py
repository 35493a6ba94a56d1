"""The formats on the wire and on disk. Pure: no I/O, clock, randomness or logging."""
