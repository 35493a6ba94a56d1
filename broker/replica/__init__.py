"""A partition's replica: the pure rules of leading and following."""
