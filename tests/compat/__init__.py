"""Foreign clients against real brokers, and an observer of what they ask (`make compat`)."""
