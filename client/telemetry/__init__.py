"""A client's own metrics, pushed to a broker where the cluster asks for them (KIP-714)."""
