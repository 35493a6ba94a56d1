"""The broker daemon: partitions, replication, the Kafka API."""
