"""Planted bugs: patches of the product that the simulator must catch. The test of the tests."""
