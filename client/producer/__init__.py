"""The producer: it partitions records, batches, sends and retries them, and runs transactions."""
