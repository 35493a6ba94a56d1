"""The REST proxy: Confluent's v2 and v3 over HTTP, for programs without a Kafka client.

request -> app (login, errors) -> a handler of `routes` -> clients of that principal -> answer
"""
