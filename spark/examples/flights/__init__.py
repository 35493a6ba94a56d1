"""Delays of a year of flights, through a replicated topic whose leader is killed on the way.

    python -m minikafka.spark.examples.flights

`jobs` is the pipeline, in plain PySpark. The other modules prepare its input, kill and restart a
broker while it runs, and compare the results with the input read without the cluster.
"""
