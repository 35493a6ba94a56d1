"""Consumer groups of the classic protocol, and committed offsets of any group. Pure."""
