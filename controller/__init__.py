"""The cluster's metadata: liveness, elections, placement, the metadata log."""
