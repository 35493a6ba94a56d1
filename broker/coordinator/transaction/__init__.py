"""The pure rules of the transaction coordinator, for one shard of `__transaction_state`."""
