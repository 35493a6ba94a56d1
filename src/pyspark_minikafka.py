"""Found by PySpark's data source lookup: `spark.read.format("minikafka")` works after install."""
