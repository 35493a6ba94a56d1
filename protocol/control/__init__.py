"""The protocol between brokers and controllers: messages, datagrams, metadata records."""
