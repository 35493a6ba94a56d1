"""One module per Kafka API: the request above its response."""
