"""Dead letters: records that do not parse go to their own topic, with the reason.

    python -m minikafka.spark.examples.dead_letters [--bootstrap HOST:PORT]

One query writes both topics exactly once: each record goes to one of them, its bytes unchanged.
"""

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from ...client.records import ProducerRecord
from .harness import Run, command, finish

ORDER = "id long, customer string, cents long, broken string"
HEADERS = "array<struct<key: string, value: binary>>"
ADDED = {"dead-letter.reason": "why", "dead-letter.source": "place"}
"""The headers added to a dead letter after its own, and the columns that they come from."""

# -- the job


def sort_out(orders: DataFrame, good: str, dead: str) -> DataFrame:
    """Choose the topic of each record; add reason and origin to a dead letter's headers."""
    text = F.col("value").cast("string")
    order = F.from_json(text, ORDER, {"columnNameOfCorruptRecord": "broken"})
    why = (
        F.when(F.col("value").isNull(), "no value")
        .when(~F.is_valid_utf8(text), "not UTF-8")
        .when(order["broken"].isNotNull(), "not the JSON of an order")
        .when(order["id"].isNull() | order["customer"].isNull(), "no id or no customer")
        .when(order["cents"] <= 0, "not a positive amount")
    )
    place = F.concat_ws("/", "topic", "partition", "offset")
    told = F.array(*[F.struct(F.lit(k), F.col(v).cast("binary")) for k, v in ADDED.items()])
    own = F.col("headers").cast(HEADERS)  # null where a record has none
    dead_letters = F.when(own.isNull(), told.cast(HEADERS)).otherwise(
        F.concat(own, told.cast(HEADERS))
    )
    return orders.withColumns({"why": why, "place": place}).select(
        "key",
        "value",
        F.when(F.col("why").isNull(), good).otherwise(dead).alias("topic"),
        F.when(F.col("why").isNull(), own).otherwise(dead_letters).alias("headers"),
    )


def start(
    spark: SparkSession, bootstrap: str, topics: tuple[str, str, str], checkpoint: Path
) -> StreamingQuery:
    """Sort the records of the first topic into the other two: good ones and dead letters."""
    source, good, dead = topics
    orders = (
        spark.readStream.format("minikafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .option("includeHeaders", True)
        .load()
    )
    return (
        sort_out(orders, good, dead)
        .writeStream.format("minikafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("delivery", "exactly_once")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )


# -- the check

BROKEN = {
    b"\xff\xfe{}": b"not UTF-8",
    b'{"id":1,"customer":"c1"': b"not the JSON of an order",
    b"hello": b"not the JSON of an order",
    b'{"id":"one","customer":"c1","cents":5}': b"not the JSON of an order",
    b'{"customer":"c1","cents":5}': b"no id or no customer",
    b'{"id":7,"customer":"c1","cents":-5}': b"not a positive amount",
    None: b"no value",
}


def verify(run: Run) -> None:
    """Send good and broken orders; each must come out once, in its topic, byte for byte."""
    topics = run.topic("orders"), run.topic("good"), run.topic("dead")
    fine = [b'{"id":%d,"customer":"c%d","cents":%d}' % (n, n % 7, n + 1) for n in range(500)]
    values = [*fine[:200], *BROKEN, *fine[200:]]
    traces: list[list[tuple[str, bytes | None]]] = [[], [("trace", b"a"), ("trace", b"b")]]
    run.send(
        topics[0],
        [ProducerRecord(value, b"k%d" % n, traces[n % 2]) for n, value in enumerate(values)],
    )
    finish(start(run.spark, run.bootstrap, topics, run.folder / "checkpoint"))

    good, dead = run.records(topics[1]), run.records(topics[2])
    run.same("every good order came out once", [r.value for r in good], fine)
    why = [(r.value, dict(r.headers)["dead-letter.reason"]) for r in dead]
    run.same("every broken one is a dead letter with its reason", why, BROKEN.items())
    sent = {(r.value, f"{r.topic}/{r.partition}/{r.offset}") for r in run.records(topics[0])}
    where = {(r.value, (dict(r.headers)["dead-letter.source"] or b"").decode()) for r in dead}
    run.holds("a dead letter names the record it was", where < sent, where - sent)
    run.same(
        "each record kept the headers it had",
        [(r.value, tuple(r.headers)) for r in good]
        + [(r.value, tuple(r.headers)[: -len(ADDED)]) for r in dead],
        [(value, tuple(traces[n % 2])) for n, value in enumerate(values)],
    )


if __name__ == "__main__":
    command("dead_letters", verify)()
