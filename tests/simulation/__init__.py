"""A whole cluster in one process from one number (docs/simulation.md)."""
