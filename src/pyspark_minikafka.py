"""Found by PySpark's data source lookup: `spark.read.format("minikafka")` works after install.

Spark imports every module named `pyspark_*` at a session's first lookup, so this one stays light.
"""

from minikafka.spark.data_source import MinikafkaDataSource as DefaultSource

__all__ = ["DefaultSource"]
