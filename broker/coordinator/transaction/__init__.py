"""The transaction coordinator's machine: pure, one shard of `__transaction_state` at a time."""
