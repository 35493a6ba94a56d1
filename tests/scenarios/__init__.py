"""Scenarios by number (docs/scenarios.md): on the pure machines, and in simulated clusters."""
