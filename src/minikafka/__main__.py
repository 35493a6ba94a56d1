"""`python -m minikafka` is the command `minikafka`."""

from .deploy.cli import main

main()
