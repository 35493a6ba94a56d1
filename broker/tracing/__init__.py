"""Sampled trace points: what this broker saw of a batch, and when, written to a topic."""
