"""A partition's replica: the pure rules of leading, following, and choosing one to read from."""
