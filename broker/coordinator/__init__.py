"""The coordinators of groups and of transactions, whose state is the log of an internal topic.

A shard is one partition of such a topic, led by this broker. This package owns the shards. The pure
machines in `group/` and `transaction/` decide each request; the code here appends what they decide,
waits for the commit and answers.
"""
