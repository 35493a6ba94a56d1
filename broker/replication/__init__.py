"""Replication: followers fetch from leaders, leaders propose ISRs, and damage is repaired.

This package owns the connections to leaders, and the reports about replicas to the controller. The
rules that decide what a fetch or an answer means are in `broker/replica`.
"""
