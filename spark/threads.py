"""Makes a Spark session usable in threads of one's own.

Spark looks a Python data source up in the session that is active in the JVM's thread, and a new
Python thread gets a JVM thread where none is: writes and streams end with DATA_SOURCE_NOT_FOUND.
"""

from typing import Any

from pyspark.sql import SparkSession


def use_session(spark: SparkSession) -> None:
    """Make `spark` the active session of this thread; call it first in every thread of yours.

    Without effect on a session of Spark Connect, whose server does it.
    """
    jvm: Any = getattr(spark, "_jvm", None)
    if jvm is not None:
        jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(spark._jsparkSession)
