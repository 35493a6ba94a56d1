"""What a broker answers, one module per Kafka API."""
