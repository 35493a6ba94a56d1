"""One connection, the pool, backoff: what brokers share with clients."""
