"""A partition's replica: the pure rules of leading, following, moving, and being read from."""
