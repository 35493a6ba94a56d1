"""Windows: clicks are counted per five minutes of event time, late ones up to the watermark.

    python -m minikafka.spark.examples.windows [--bootstrap HOST:PORT]

A window is written once, when the watermark has passed its end. Clicks that come later are dropped,
and Spark counts them.
"""

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from ...client.records import ProducerRecord
from .harness import Run, command, finish

CLICK = "page string, at timestamp"

# -- the job


def count_clicks(records: DataFrame) -> DataFrame:
    """Count each page's clicks in windows of five minutes; clicks may be ten minutes late."""
    window = F.window("at", "5 minutes")
    return (
        records.select(F.from_json(F.col("value").cast("string"), CLICK).alias("click"))
        .select("click.*")
        .withWatermark("at", "10 minutes")
        .groupBy(window.alias("window"), "page")
        .agg(F.count("*").alias("clicks"))
        .select(
            F.col("page").alias("key"),
            F.to_json(
                F.struct(F.date_format("window.start", "HH:mm").alias("start"), "page", "clicks")
            ).alias("value"),
        )
    )


def start(
    spark: SparkSession, bootstrap: str, topics: tuple[str, str], checkpoint: Path
) -> StreamingQuery:
    """Count the clicks of the first topic; write windows that are over to the second."""
    clicks = (
        spark.readStream.format("minikafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topics[0])
        .option("startingOffsets", "earliest")
        .load()
    )
    return (
        count_clicks(clicks)
        .writeStream.format("minikafka")
        .outputMode("append")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", topics[1])
        .option("delivery", "exactly_once")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )


# -- the check

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
PAGES = ("cart", "home", "search")
Click = tuple[str, float]
"""A page, and the click's time in minutes after noon."""


def verify(run: Run) -> None:
    """Send clicks in two rounds, some late, and compare the windows with a plain count."""
    topics = run.topic("clicks"), run.topic("windows")
    on_time = [[(PAGES[n % 3], n / 6) for n in range(*between)] for between in ((120,), (120, 180))]
    late: list[Click] = [("home", 12.0), ("cart", 14.5)]  # the watermark is at 12:09:50
    too_late: list[Click] = [("home", 3.0), ("cart", 4.5)]
    closing: list[Click] = [("home", 60.0)]  # the next watermark, 12:50: all before is over
    dropped = 0
    for clicks in (on_time[0], on_time[1] + late + too_late + closing):
        run.send(topics[0], [_record(*click) for click in clicks])
        dropped += finish(start(run.spark, run.bootstrap, topics, run.folder / "checkpoint"))

    expected = Counter((_window(at), page) for page, at in [*on_time[0], *on_time[1], *late])
    found = [json.loads(record.value or b"") for record in run.records(topics[1])]
    run.same(
        "every window came out once, with its late clicks",
        [(each["start"], each["page"], each["clicks"]) for each in found],
        [(*where, clicks) for where, clicks in expected.items()],
    )
    run.holds("clicks that came too late were dropped and counted", dropped == 2, dropped)


def _window(minutes: float) -> str:
    return f"{NOON + timedelta(minutes=minutes // 5 * 5):%H:%M}"


def _record(page: str, minutes: float) -> ProducerRecord[bytes, bytes]:
    at = (NOON + timedelta(minutes=minutes)).isoformat()
    return ProducerRecord(json.dumps({"page": page, "at": at}).encode(), page.encode())


if __name__ == "__main__":
    command("windows", verify)()
