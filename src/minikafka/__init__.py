"""minikafka: a Kafka-compatible, replicated log cluster in Python."""
