"""The pure rules of a partition's replica: leading, following, moving, and being read from."""
