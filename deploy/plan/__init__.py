"""`minikafka plan`: what a change of replicas would do, before it is done, and the way back."""
