"""The producer: accumulate, partition, send, retry."""
