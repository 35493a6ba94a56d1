"""`minikafka generate`: files for monitoring a cluster and for running it."""
