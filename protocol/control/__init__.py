"""The control protocol between brokers and controllers, and the metadata log's records."""
