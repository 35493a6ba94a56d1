"""The REST proxy, in front of brokers in this process and of real ones."""
