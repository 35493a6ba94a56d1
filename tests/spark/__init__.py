"""Tests of spark: most without Spark, over clusters in memory; the slow ones in a session."""
