"""A client's own metrics, pushed to a broker if the cluster asks for them (KIP-714)."""
