"""Copies are kept alike: followers fetch from leaders, leaders propose ISRs, damage is repaired.

Owns the connections to leaders and what the controller is told of replicas. It never decides what a
fetch or an answer means: `broker/replica` does.
"""
