"""SASL: both ends of each mechanism, and the order of a login; pure state machines.

A mechanism takes tokens and gives tokens. Where they come from, and what delays an answer, is the
business of the connections.
"""
