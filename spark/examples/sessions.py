"""Sessions: a custom state for each user, kept over micro-batches and restarts.

    python -m minikafka.spark.examples.sessions [--bootstrap HOST:PORT]

A session is a series of a user's clicks without a pause of half an hour. It is written once, with
the path that the user took, when the watermark shows that no click of it can follow.
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from ...client.records import ProducerRecord
from .harness import Run, command, finish

CLICK = "user string, page string, at timestamp"
SESSION = "user string, began timestamp, clicks int, path string"
STATE = "clicks string"
GAP_MS = 30 * 60_000
Click = list[Any]
"""Milliseconds since the epoch, and a page."""

# -- the job


def close_sessions(
    key: tuple[Any, ...], arrived: Iterable[pd.DataFrame], state: GroupState
) -> Iterator[pd.DataFrame]:
    """Yield a user's sessions that are over; the state keeps the clicks of the others.

    Called with the clicks of a micro-batch, and without any when the watermark passes the timeout.
    """
    # The state is JSON, because Spark 4.3 allows no array in it.
    clicks: list[Click] = json.loads(state.get[0]) if state.exists else []
    for frame in arrived:
        times = frame["at"].to_numpy().astype("datetime64[ms]").astype("int64")
        clicks += map(list, zip(times.tolist(), frame["page"], strict=True))
    now_ms = state.getCurrentWatermarkMs()
    still_open: list[Click] = []
    for session in split(sorted(clicks)):
        if session[-1][0] + GAP_MS <= now_ms:
            began = pd.Timestamp(session[0][0], unit="ms")
            path = " > ".join(page for _, page in session)
            columns = ("user", "began", "clicks", "path")
            yield pd.DataFrame([(key[0], began, len(session), path)], columns=columns)
        else:
            still_open += session
    if not still_open:
        state.remove()
        return
    state.update((json.dumps(still_open),))
    state.setTimeoutTimestamp(next(split(still_open))[-1][0] + GAP_MS)


def split(clicks: list[Click]) -> Iterator[list[Click]]:
    """Split clicks, sorted by time, at pauses of GAP_MS or more."""
    begin = 0
    for n in range(1, len(clicks) + 1):
        if n == len(clicks) or clicks[n][0] - clicks[n - 1][0] >= GAP_MS:
            yield clicks[begin:n]
            begin = n


def sessions_of(records: DataFrame) -> DataFrame:
    """Return records of the sessions that are over."""
    return (
        records.select(F.from_json(F.col("value").cast("string"), CLICK).alias("click"))
        .select("click.*")
        .withWatermark("at", "10 minutes")
        .groupBy("user")
        .applyInPandasWithState(
            close_sessions, SESSION, STATE, "append", GroupStateTimeout.EventTimeTimeout
        )
        .select(F.col("user").alias("key"), F.to_json(F.struct("*")).alias("value"))
    )


def start(
    spark: SparkSession, bootstrap: str, topics: tuple[str, str], checkpoint: Path
) -> StreamingQuery:
    """Read the first topic to its end, and write sessions that are over to the second."""
    clicks = (
        spark.readStream.format("minikafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topics[0])
        .option("startingOffsets", "earliest")
        .load()
    )
    return (
        sessions_of(clicks)
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

PATHS = {
    # user: (minutes after midnight, page), in the order of sending
    "ada": [(0, "home"), (25, "cart"), (50, "pay"), (100, "home")],
    "bob": [(40, "search"), (20, "home"), (69, "cart"), (99, "home"), (110, "help")],
    "eve": [(55, "home")],
}
EXPECTED = [
    ("ada", 0, 3, "home > cart > pay"),
    ("ada", 100, 1, "home"),
    ("bob", 20, 3, "home > search > cart"),
    ("bob", 99, 2, "home > help"),
    ("eve", 55, 1, "home"),
]


def verify(run: Run) -> None:
    """Send clicks in two rounds; sessions must survive the restart of the query in between."""
    topics = run.topic("clicks"), run.topic("sessions")
    clicks = sorted((at, user, page) for user, path in PATHS.items() for at, page in path)
    first = [click for click in clicks if click[0] < 45]
    second = [click for click in clicks if click[0] >= 45]
    second.append((300, "zoe", "home"))  # moves the watermark past the end of all others
    for sent in (first[::-1], second):
        run.send(topics[0], [_record(*click) for click in sent])
        finish(start(run.spark, run.bootstrap, topics, run.folder / "checkpoint"))

    found = [json.loads(record.value or b"") for record in run.records(topics[1])]
    run.same(
        "every session came out once, with its path",
        [(s["user"], _minutes(s["began"]), s["clicks"], s["path"]) for s in found],
        EXPECTED,
    )
    run.holds("a session that may go on did not come out", all(s["user"] != "zoe" for s in found))


def _minutes(began: str) -> int:
    return int((pd.Timestamp(began) - pd.Timestamp("2024-05-01", tz="UTC")).total_seconds() // 60)


def _record(at: int, user: str, page: str) -> ProducerRecord[bytes, bytes]:
    when = (pd.Timestamp("2024-05-01", tz="UTC") + pd.Timedelta(minutes=at)).isoformat()
    return ProducerRecord(
        json.dumps({"user": user, "page": page, "at": when}).encode(), user.encode()
    )


if __name__ == "__main__":
    command("sessions", verify)()
