"""Enrichment: orders joined with customers, exactly once, over a failed task and a killed broker.

    python -m minikafka.spark.examples.enrichment [--bootstrap HOST:PORT]

A task fails and a broker is killed on the way. With delivery=exactly_once the rows of a micro-batch
become visible in one atomic step: a reader of committed records sees each order once.
"""

import json
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from ...client.records import ProducerRecord
from .faults import batches_done, fail_once, kill_under
from .harness import Run, command, finish

ORDER = "id long, customer string, cents long, note string"
CUSTOMER = "name string, country string"

# -- the job


def customers_of(spark: SparkSession, bootstrap: str, topic: str) -> DataFrame:
    """Read the newest state of every customer; each micro-batch reads it anew."""
    return (
        spark.read.format("minikafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .load()
        .groupBy(F.col("key").cast("string").alias("customer"))
        .agg(F.max_by(F.col("value").cast("string"), F.struct("partition", "offset")).alias("last"))
        .select("customer", F.from_json("last", CUSTOMER).alias("c"))
        .select("customer", "c.*")
    )


def enrich(spark: SparkSession, bootstrap: str, orders: str, customers: str) -> DataFrame:
    """Join each order with its customer; an order of an unknown customer stays, without a name."""
    return (
        spark.readStream.format("minikafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", orders)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 24_000)
        .load()
        .select("key", F.from_json(F.col("value").cast("string"), ORDER).alias("o"))
        .select("key", "o.*")
        .join(F.broadcast(customers_of(spark, bootstrap, customers)), "customer", "left")
        .select("key", F.to_json(F.struct("id", "cents", "note", "name", "country")).alias("value"))
    )


def write(enriched: DataFrame, bootstrap: str, topic: str, checkpoint: Path) -> StreamingQuery:
    """Write the enriched orders to a topic, exactly once, and stop at the present end."""
    return (
        enriched.writeStream.format("minikafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", topic)
        .option("delivery", "exactly_once")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )


# -- the check

ORDERS = 72_000
NOTE = "ring twice, then leave it at the door; " * 4
"""The note of every order. It is long, so that a task writes more than its buffers hold."""
COUNTRIES = ("DE", "FR", "IT")


def verify(run: Run) -> None:
    """Run the job over a failing task and a killed broker; each order must come out once."""
    orders, target = run.topic("orders"), run.topic("enriched")
    customers = run.topic("customers", cleanup_policy="compact")
    run.send(customers, [_customer(n, "an old name") for n in range(50)])
    run.send(customers, [_customer(n, f"Customer {n}") for n in range(50)])
    run.send(orders, [_order(n) for n in range(ORDERS)])

    enriched = enrich(run.spark, run.bootstrap, orders, customers)
    failed = run.folder / "a-task-failed"
    failing = fail_once(enriched, failed, run.bootstrap, target)
    query = write(failing, run.bootstrap, target, run.folder / "checkpoint")
    if run.cluster is None:
        finish(query)
    else:
        killed, before = kill_under(query, run.cluster, target)
        finish(query)
        after = batches_done(query) - before
        run.cluster.restart(killed)
        what = f"broker {killed} was killed, {before} micro-batches before and {after} after it"
        run.holds(what, before > 0 and after > 0)

    committed, written = run.records(target), run.records(target, committed=False)
    run.same(
        "each order came out once, with its customer",
        [tuple(json.loads(record.value or b"").items()) for record in committed],
        [tuple(expected(n).items()) for n in range(ORDERS)],
    )
    aborted = len(written) - len(committed)
    what = f"a task failed; {aborted:,} records that it had written are invisible"
    run.holds(what, failed.exists() and aborted > 0)


def _order(n: int) -> ProducerRecord[bytes, bytes]:
    order = {"id": n, "customer": f"c{n % 60}", "cents": n * 7 % 1000, "note": NOTE}
    return ProducerRecord(json.dumps(order).encode(), b"%d" % n)


def _customer(n: int, name: str) -> ProducerRecord[bytes, bytes]:
    customer = {"name": name, "country": COUNTRIES[n % 3]}
    return ProducerRecord(json.dumps(customer).encode(), b"c%d" % n)


def expected(n: int) -> dict[str, object]:
    """Return the expected result for order n."""
    known = {"name": f"Customer {n % 60}", "country": COUNTRIES[n % 60 % 3]}
    return {"id": n, "cents": n * 7 % 1000, "note": NOTE, **(known if n % 60 < 50 else {})}


if __name__ == "__main__":
    command("enrichment", verify)()
