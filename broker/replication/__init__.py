"""Copies are kept alike: followers fetch from leaders, leaders propose ISRs, damage is repaired.

Owns the connections to leaders and the reports on replicas to the controller. It never decides what
a fetch or an answer means: `broker/replica` does.
"""
