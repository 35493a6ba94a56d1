"""Mutants: patches that plant bugs in the product, which the simulator or a test must catch."""
