"""Makes a Spark session usable in threads that a program starts itself.

Spark looks up a Python data source in the session that is active in the JVM's thread. A new Python
thread gets a JVM thread without one, so writes and streams fail with DATA_SOURCE_NOT_FOUND.
"""

from typing import Any

from pyspark.sql import SparkSession


def use_session(spark: SparkSession) -> None:
    """Make `spark` the active session of this thread; call it first in every thread you start.

    It does nothing for a session of Spark Connect, whose server does the same.
    """
    jvm: Any = getattr(spark, "_jvm", None)
    if jvm is not None:
        jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(spark._jsparkSession)
