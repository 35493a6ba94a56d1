"""SASL: both ends of each mechanism, and the order of a login; pure state machines.

A mechanism takes and returns tokens. The connections carry the tokens, and delay answers if needed.
"""
