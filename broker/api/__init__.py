"""The answers of a broker, one module per Kafka API."""
