"""The consumer: assignment, positions, fetching."""
