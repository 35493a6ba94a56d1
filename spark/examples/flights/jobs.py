"""The pipeline: Spark jobs over two topics, exactly once. Broker failures need no code here.

Every write has `delivery=exactly_once` and every read `read_committed`, so no step has to remove
duplicates.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from .dataset import Delay, Delays

FLIGHTS_TOPIC = "flights"
DELAYS_TOPIC = "delays"
DELAYS_QUERY = "delays"
PROGRESS_GROUP = "flights-to-delays"
"""The consumer group to which the streaming job commits its progress, for tools to see."""
FLIGHT = "row long, year int, month int, day int, carrier string, dep_delay int"
CSV = (
    "row long, year int, month int, day int, carrier string, flight int, origin string, "
    "dest string, dep_delay int"
)
DELAY = "airline string, day string, departures long, delay_minutes long"
ROWS_PER_TRIGGER = 45_000


def session(log: Path) -> SparkSession:
    """Start Spark on this machine with this Python for its workers; its output goes to `log`."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = (
        SparkSession.builder.master("local[2]")
        .appName("flights")
        .config("spark.driver.memory", "2g")
        .config("spark.sql.shuffle.partitions", 2)
        .config("spark.ui.enabled", False)
        .config("spark.ui.showConsoleProgress", False)
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.log.level", "WARN")
    )
    with output_to(log):
        return builder.getOrCreate()


@contextmanager
def output_to(log: Path) -> Iterator[None]:
    """Send the output of the processes started in this block, such as the JVM, to a file."""
    log.parent.mkdir(parents=True, exist_ok=True)
    sys.stdout.flush()
    sys.stderr.flush()
    kept = os.dup(1), os.dup(2)
    try:
        with log.open("wb") as target:
            os.dup2(target.fileno(), 1)
            os.dup2(target.fileno(), 2)
        yield
    finally:
        for ours, number in zip(kept, (1, 2), strict=True):
            os.dup2(ours, number)
            os.close(ours)


def publish_flights(spark: SparkSession, flights_csv: Path, bootstrap: str) -> None:
    """Run a batch job that writes every flight to its topic, keyed by carrier; all or none."""
    flights = spark.read.csv(str(flights_csv), header=True, schema=CSV)
    value = F.to_json(F.struct("row", "year", "month", "day", "carrier", "dep_delay"))
    (
        flights.select(F.col("carrier").alias("key"), value.alias("value"))
        .write.format("minikafka")
        .mode("append")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", FLIGHTS_TOPIC)
        .option("delivery", "exactly_once")
        .save()
    )


def aggregate_delays(
    spark: SparkSession, airlines_csv: Path, bootstrap: str, checkpoint: Path
) -> StreamingQuery:
    """Start a streaming job that keeps each airline's delays per day in their own topic.

    In complete mode each micro-batch appends all delays, so a key's newest record counts.
    """
    airlines = spark.read.csv(str(airlines_csv), header=True, schema="carrier string, name string")
    flights = (
        spark.readStream.format("minikafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", FLIGHTS_TOPIC)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", ROWS_PER_TRIGGER)
        .option("kafka.isolation.level", "read_committed")
        .option("commitOffsetsGroup", PROGRESS_GROUP)
        .load()
        .select(F.from_json(F.col("value").cast("string"), FLIGHT).alias("flight"))
        .select("flight.*")
    )
    day = F.format_string("%d-%02d-%02d", "year", "month", "day")
    delays = (
        flights.where("dep_delay is not null")
        .join(F.broadcast(airlines), "carrier")
        .groupBy(F.col("name").alias("airline"), day.alias("day"))
        .agg(F.count("*").alias("departures"), F.sum("dep_delay").alias("delay_minutes"))
    )
    return (
        delays.select(
            F.concat_ws("|", "airline", "day").alias("key"),
            F.to_json(F.struct("airline", "day", "departures", "delay_minutes")).alias("value"),
        )
        .writeStream.format("minikafka")
        .queryName(DELAYS_QUERY)
        .outputMode("complete")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", DELAYS_TOPIC)
        .option("delivery", "exactly_once")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )


def newest_delays(spark: SparkSession, bootstrap: str) -> Delays:
    """Run a batch job that reads the delays: the newest value of each key, by offset."""
    newest = (
        _topic(spark, bootstrap, DELAYS_TOPIC)
        .groupBy("key")
        .agg(F.max_by(F.col("value").cast("string"), "offset").alias("value"))
        .select(F.from_json("value", DELAY).alias("delay"))
        .select("delay.*")
    )
    return {
        (row.airline, row.day): Delay(row.departures, row.delay_minutes) for row in newest.collect()
    }


def count_delays(spark: SparkSession, bootstrap: str) -> int:
    """Count all records of the delays topic, from every micro-batch."""
    return _topic(spark, bootstrap, DELAYS_TOPIC).count()


def published_rows(spark: SparkSession, bootstrap: str) -> list[int]:
    """Read the row numbers of all records of the flights topic, including duplicates."""
    rows = _topic(spark, bootstrap, FLIGHTS_TOPIC).select(
        F.from_json(F.col("value").cast("string"), FLIGHT).getField("row").alias("row")
    )
    found: list[int] = rows.toArrow().column("row").to_pylist()
    return found


def _topic(spark: SparkSession, bootstrap: str, topic: str) -> DataFrame:
    return (
        spark.read.format("minikafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("kafka.isolation.level", "read_committed")
        .load()
    )
