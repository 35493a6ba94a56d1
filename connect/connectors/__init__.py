"""Connectors that come with minikafka: files, directories, HTTP, schedules, made-up data.

docs/connectors.md has a section for each.
"""
