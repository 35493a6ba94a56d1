"""Tests of the connectors that come with minikafka."""
