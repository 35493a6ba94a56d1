"""Messages, records and embedded bytes compared with kio and kafka-python."""
