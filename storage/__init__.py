"""The segment log: append, read, truncate, recover, retain."""
