"""State machines and values under Hypothesis: what holds after every step."""
