"""The language between brokers and controllers: messages, datagrams, metadata records."""
