"""Delays of a year of flights, through a replicated topic whose leader is killed on the way.

    python -m minikafka.spark.examples.flights

`jobs` is the pipeline, plain PySpark; the rest prepares its input, kills and restarts a broker
under it, and verifies what came out against the input read without the cluster.
"""
