"""Web: a cluster in the browser. It knows brokers as any client does."""
