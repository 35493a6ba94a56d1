"""The coordinators of groups and of transactions, whose state is the log of an internal topic.

Owns the shards led here and carries out what the pure machines in `group/` and `transaction/`
decide: it appends, waits for the commit, answers. It never decides a request itself.
"""
