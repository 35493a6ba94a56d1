"""Other clients against real brokers, and an observer of their requests (`make compat`)."""
