"""`minikafka doctor`: connects as clients do, and names what is wrong, where, and what to do."""
