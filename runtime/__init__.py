"""The interface to the outside world: clock, randomness, files, configuration, logging, errors."""
