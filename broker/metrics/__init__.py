"""The collectors of a broker's metrics, one module per area.

They keep no counts: each number is a plain field where the work happens, and is read at a scrape.
Names are those of Kafka's JMX exporter rules and of kafka_exporter; others begin with `minikafka_`.
"""
