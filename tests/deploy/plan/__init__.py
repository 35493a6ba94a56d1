"""`minikafka plan`: goals, what they may not do, and plans carried out."""
