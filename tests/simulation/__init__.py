"""Simulates a whole cluster in one process, reproducibly from one seed (docs/simulation.md)."""
