"""Refused rows: what the target topic cannot take is a dead letter, and the query goes on.

    python -m minikafka.spark.examples.refused_rows [--bootstrap HOST:PORT]

The sink's option `dead_letters` writes rows that are too large for their topic, or name a partition
that is not there, to a topic of dead letters, in the transaction of the other rows. A task fails on
the way; each row is in one of the two topics all the same, once.
"""

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from ...client.consumer.retry_headers import letter_of
from ...client.records import ProducerRecord
from .faults import fail_once
from .harness import Run, command, finish

# -- the job


def parcels_of(spark: SparkSession, bootstrap: str, topic: str) -> DataFrame:
    """Read parcels; the first byte of a key says to which partition a parcel goes."""
    return (
        spark.readStream.format("minikafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
        .selectExpr("key", "value", "ascii(cast(key as string)) - ascii('0') as partition")
    )


def write(
    parcels: DataFrame, bootstrap: str, topics: tuple[str, str], checkpoint: Path
) -> StreamingQuery:
    """Write each parcel to the first topic, or to the second if that cannot be, exactly once."""
    target, dead = topics
    return (
        parcels.writeStream.format("minikafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", target)
        .option("dead_letters", dead)
        .option("delivery", "exactly_once")
        .option("kafka.batch.size", 16_384)  # no batch is larger than what the target takes
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )


# -- the check

PARCELS = 4_000
LARGE = b"x" * 30_000
LIMIT = "20000"


def verify(run: Run) -> None:
    """Send parcels, some too large, some to nowhere; each must come out once, in its topic."""
    source = run.topic("parcels")
    target, dead = run.topic("shipped", max_message_bytes=LIMIT), run.topic("dead")
    sent = [_parcel(n) for n in range(PARCELS)]
    run.send(source, sent)
    failed = run.folder / "a-task-failed"
    parcels = parcels_of(run.spark, run.bootstrap, source)
    failing = fail_once(parcels, failed, run.bootstrap, target)
    finish(write(failing, run.bootstrap, (target, dead), run.folder / "checkpoint"))

    refused = [n for n in range(PARCELS) if _is_refused(n)]
    shipped, letters = run.records(target), run.records(dead)
    fine = [each.key for n, each in enumerate(sent) if not _is_refused(n)]
    run.same("each parcel that the target takes is there once", [r.key for r in shipped], fine)
    run.same(
        "each other one is a dead letter, once, as it was",
        [(r.key, r.value) for r in letters],
        [(sent[n].key, sent[n].value) for n in refused],
    )
    told = [(r.key, letter_of(r.headers)) for r in letters]
    run.holds("a letter names its topic", all(each.topic == target for _, each in told))
    run.same(
        "a letter says why it was refused",
        [(key, "takes" in each.message, "partition 7" in each.message) for key, each in told],
        [(sent[n].key, n % 20 != 7, n % 20 == 7) for n in refused],
    )
    aborted = len(run.records(target, committed=False)) - len(shipped)
    what = f"a task failed; {aborted:,} records that it had written are invisible"
    run.holds(what, failed.exists() and aborted > 0)


def _is_refused(n: int) -> bool:
    return n % 20 in (3, 7)


def _parcel(n: int) -> ProducerRecord[bytes, bytes]:
    partition = 7 if n % 20 == 7 else n % 2
    return ProducerRecord(LARGE if n % 20 == 3 else b"parcel %d" % n, b"%d-%d" % (partition, n))


if __name__ == "__main__":
    command("refused_rows", verify)()
