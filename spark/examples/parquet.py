"""Parquet: a topic is written to files, a folder per day, and the files to another topic.

    python -m minikafka.spark.examples.parquet [--bootstrap HOST:PORT]

A streaming query writes the files, each record once, with Spark's own file sink. A batch job writes
their records to another topic: each partition in its order, and all records or none.
"""

from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from ...client.records import ProducerRecord
from .harness import Record, Run, command, finish

# -- the jobs


def archive(
    spark: SparkSession, bootstrap: str, topic: str, files: Path, checkpoint: Path
) -> StreamingQuery:
    """Append the topic's new records to the files, with all columns."""
    records = (
        spark.readStream.format("minikafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("includeHeaders", True)
        .load()
    )
    return (
        records.withColumn("day", F.to_date("timestamp"))
        .writeStream.format("parquet")
        .partitionBy("day")
        .option("path", str(files))
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )


def replay(spark: SparkSession, bootstrap: str, files: Path, topic: str) -> None:
    """Write the files' records to a topic, each into the partition it came from, in order."""
    (
        spark.read.parquet(str(files))
        .repartitionByRange(2, "partition")
        .sortWithinPartitions("partition", "offset")
        .select("key", "value", "partition", F.coalesce("headers", F.array()).alias("headers"))
        .write.format("minikafka")
        .mode("append")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", topic)
        .option("delivery", "exactly_once")
        .save()
    )


# -- the check

MIDNIGHT_MS = 1_714_521_600_000
"""2024-05-01 00:00 UTC"""


def verify(run: Run) -> None:
    """Archive in two runs, replay, and compare the copy with the original."""
    original, copy = run.topic("orders", 3), run.topic("orders-again", 3)
    files = run.folder / "orders"
    for part in (range(3000), range(3000, 5000)):
        run.send(original, [_record(n) for n in part])
        finish(archive(run.spark, run.bootstrap, original, files, run.folder / "checkpoint"))
    replay(run.spark, run.bootstrap, files, copy)

    sent, found = run.records(original), run.records(copy)
    run.same(
        "every record is in the copy once, in its partition", map(_seen, found), map(_seen, sent)
    )
    run.holds("the copy is in the original's order", [*map(_seen, found)] == [*map(_seen, sent)])
    days = sorted(folder.name for folder in files.glob("day=*"))
    run.holds("a folder for each day", days == ["day=2024-05-01", "day=2024-05-02"], days)


def _seen(record: Record) -> tuple[object, ...]:
    return record.partition, record.key, record.value, tuple(record.headers)


def _record(n: int) -> ProducerRecord[bytes, bytes]:
    headers = [("n", b"%d" % n)] if n % 10 == 0 else []
    value = None if n % 100 == 99 else b"order %d" % n
    return ProducerRecord(value, b"customer %d" % (n % 50), headers, MIDNIGHT_MS + n * 30_000)


if __name__ == "__main__":
    command("parquet", verify)()
