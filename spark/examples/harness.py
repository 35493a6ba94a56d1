"""The common part of every example: a cluster, a Spark session, topics, and checks.

An example is a module with its job at the top and `verify(run)` below it, which feeds the job, runs
it and compares its results with the expected ones.
"""

import os
import secrets
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from ...client.admin.sync_admin import Admin
from ...client.admin.topic_types import NewTopic
from ...client.records import ConsumerRecord, ProducerRecord
from ...client.sync_consumer import Consumer
from ...client.sync_producer import Producer
from ...deploy.local_cluster import LocalCluster
from ...protocol.types import TopicPartition
from .flights.jobs import output_to

LOGS = Path("run")
SILENCE_SECONDS = 120.0
"""The time limit for reading records that the cluster reports."""
QUERY_SECONDS = 600
"""The time limit of a query, far above what any query of an example needs."""
TASK_ATTEMPTS = 3
CLUSTER_CONFIG = {"default.replication.factor": "3", "min.insync.replicas": "2"}

Record = ConsumerRecord[bytes, bytes]


@dataclass
class Run:
    """One run of an example: its session, cluster, topics, and the problems found."""

    spark: SparkSession
    bootstrap: str
    folder: Path
    """The folder of checkpoints and files; empty at the start."""
    cluster: LocalCluster | None = None
    """The cluster, if it was started here and its brokers may be killed; else None."""
    problems: list[str] = field(default_factory=list)
    checks: int = 0
    _topics: list[str] = field(default_factory=list)
    _suffix: str = field(default_factory=lambda: secrets.token_hex(3))

    def topic(self, name: str, partitions: int = 2, **configs: str) -> str:
        """Create a topic with a unique name; it is deleted at the end."""
        full = f"{name}-{self._suffix}"
        dotted = {key.replace("_", "."): value for key, value in configs.items()}
        with Admin(self.bootstrap) as admin:
            admin.create_topics([NewTopic(full, partitions, configs=dotted)])
        self._topics.append(full)
        return full

    def send(self, topic: str, records: Iterable[ProducerRecord[bytes, bytes]]) -> None:
        """Write records, and wait until they are acknowledged by every in-sync replica."""
        with Producer(self.bootstrap) as producer:
            producer.send_batch(topic, list(records)).result(60)

    def records(self, topic: str, *, committed: bool = True) -> list[Record]:
        """Read a whole topic without Spark; return its records by partition and offset.

        Raise TimeoutError if the records do not arrive in SILENCE_SECONDS.
        """
        level = "read_committed" if committed else "read_uncommitted"
        settings = {"auto.offset.reset": "earliest", "isolation.level": level}
        found: list[Record] = []
        with Consumer.from_config({"bootstrap.servers": self.bootstrap, **settings}) as consumer:
            partitions = [TopicPartition(topic, p) for p in consumer.partitions_for(topic)]
            ends = consumer.end_offsets(partitions)
            consumer.assign(partitions)
            deadline = time.monotonic() + SILENCE_SECONDS
            while any(consumer.position(each) < end for each, end in ends.items()):
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{topic}: only {len(found)} records of {ends} arrived")
                found += consumer.poll(200)
        return sorted(found, key=lambda record: (record.partition, record.offset))

    def same(self, what: str, found: Iterable[Any], expected: Iterable[Any]) -> None:
        """Check that both hold the same things the same number of times, in any order."""
        there, wanted = Counter(found), Counter(expected)
        missing, strange = list((wanted - there).elements()), list((there - wanted).elements())
        self.holds(
            f"{what} ({wanted.total():,})",
            not missing and not strange,
            f"{len(missing)} missing {missing[:1]}, {len(strange)} too many {strange[:1]}",
        )

    def holds(self, what: str, held: bool, instead: object = "it does not hold") -> None:
        """Print and count one check, and record a problem if `held` is false."""
        self.checks += 1
        if held:
            click.echo(f"verified: {what}")
        else:
            self.problems.append(what)
            click.echo(f"NOT VERIFIED: {what}: {instead}", err=True)

    def close(self) -> None:
        """Delete the example's topics if the cluster was not started here."""
        if self.cluster is None and self._topics:
            with Admin(self.bootstrap) as admin:
                admin.delete_topics(self._topics)


Verify = Callable[[Run], None]


def finish(query: StreamingQuery) -> int:
    """Wait for a query that ends by itself; return the number of rows that came too late.

    If it does not end within QUERY_SECONDS, stop it and raise TimeoutError.
    """
    if not query.awaitTermination(QUERY_SECONDS):
        status = query.status
        query.stop()
        raise TimeoutError(f"the query did not end in {QUERY_SECONDS} s: {status}")
    return sum(
        state.numRowsDroppedByWatermark
        for progress in query.recentProgress
        for state in progress.stateOperators
    )


def session(log: Path) -> SparkSession:
    """Start Spark on this machine, with retries of tasks as on a cluster; it logs to `log`."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = (
        SparkSession.builder.master(f"local[2,{TASK_ATTEMPTS}]")
        .appName("minikafka examples")
        .config("spark.driver.memory", "1g")
        .config("spark.sql.shuffle.partitions", 2)
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", 1000)
        .config("spark.ui.enabled", False)
        .config("spark.ui.showConsoleProgress", False)
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.log.level", "WARN")
    )
    with output_to(log):
        return builder.getOrCreate()


def run_all(examples: Sequence[tuple[str, Verify]], bootstrap: str | None) -> list[str]:
    """Run examples one after another on one cluster and session; return the problems."""
    start = time.monotonic()
    with ExitStack() as stack:
        cluster = None
        if bootstrap is None:
            click.echo("starting 3 brokers and a controller")
            cluster = stack.enter_context(LocalCluster(broker_config=CLUSTER_CONFIG))
            bootstrap = cluster.bootstrap
        log = LOGS / f"{'examples' if len(examples) > 1 else examples[0][0]}.log"
        click.echo(f"cluster at {bootstrap}; starting Spark, which logs to {log}")
        spark = session(log)
        stack.callback(spark.stop)
        problems = []
        for name, verify in examples:
            click.echo(f"-- {name} ({time.monotonic() - start:.0f} s)")
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix=f"minikafka-{name}-"))
            run = Run(spark, bootstrap, Path(folder), cluster)
            try:
                verify(run)
            finally:
                run.close()
            problems += [f"{name}: {each}" for each in run.problems]
            if not run.checks:
                problems.append(f"{name}: nothing was checked")
    seconds = time.monotonic() - start
    click.echo(f"everything verified in {seconds:.0f} s" if not problems else f"failed; see {log}")
    return problems


def command(name: str, verify: Verify) -> click.Command:
    """Make the command of an example; its exit code is 0 only if every check passed."""

    @click.command(name, help=f"Run the example {name} and check what came out.")
    @click.option(
        "--bootstrap",
        metavar="HOST:PORT",
        help="Brokers of a running cluster. [default: start a cluster for the example]",
    )
    def main(bootstrap: str | None) -> None:
        sys.exit(1 if run_all([(name, verify)], bootstrap) else 0)

    return main
