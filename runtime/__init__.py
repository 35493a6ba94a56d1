"""The seam to the world: clock, randomness, files, configuration, errors."""
