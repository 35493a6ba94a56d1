"""`minikafka doctor`: its rules, and faults that are planted and found."""
