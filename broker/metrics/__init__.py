"""The collectors of a broker: they read plain fields when somebody scrapes, one module per area.

They own no number: each is kept where the work happens, and read when a scrape asks for it. Names
are those of Kafka's JMX exporter rules and of kafka_exporter; `minikafka_` where neither has one.
"""
