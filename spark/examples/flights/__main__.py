"""Run the flights pipeline on a cluster of its own, kill a leader under it, verify the result.

Exit code 0 only when everything that was checked holds.
"""

import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import click
from pyspark.sql import SparkSession

from ....client.admin_types import NewTopic
from ....client.sync import Admin, Consumer
from ....deploy.local_cluster import LocalCluster
from ....protocol.types import TopicPartition
from . import jobs, report
from .chaos import Chaos, LeaderKill
from .dataset import Dataset, Delays, prepare

PARTITIONS = 3
BATCHES_BEFORE_THE_KILL = 2
TOPICS = [jobs.FLIGHTS_TOPIC, jobs.DELAYS_TOPIC]


@dataclass
class Run:
    """One run of the pipeline, with what its steps share."""

    spark: SparkSession
    cluster: LocalCluster
    dataset: Dataset
    folder: Path
    tell: Callable[[str], None]

    def verify(self, png: Path) -> list[str]:
        """Run the three jobs; what could not be verified comes back."""
        bootstrap = self.cluster.bootstrap
        with Admin(bootstrap_servers=bootstrap) as admin:
            config = {"min.insync.replicas": "2"}
            admin.create_topics([NewTopic(name, PARTITIONS, 3, configs=config) for name in TOPICS])
            self.tell("batch job: the flights to topic 'flights'")
            jobs.publish_flights(self.spark, self.dataset.flights_csv, bootstrap)
            chaos = Chaos(self.cluster, admin, LeaderKill(jobs.FLIGHTS_TOPIC, partition=0))
            self.tell("streaming job: 'flights' to 'delays', with a kill on the way")
            self.stream(chaos)
            behind = chaos.wait_until_in_sync(TOPICS)
        self.tell("batch job: reading 'delays' back")
        delays = jobs.newest_delays(self.spark, bootstrap)
        click.echo(report.table(delays))
        report.plot(delays, png)
        self.tell(f"plot saved as {png}")
        rows = Counter(jobs.published_rows(self.spark, bootstrap))
        return [
            *check_kill(chaos.kill),
            *check_flights(rows, self.dataset),
            *check_delays(delays, self.dataset),
            *check_replicas(behind),
        ]

    def stream(self, chaos: Chaos) -> None:
        """Run the streaming job to its end; kill and restart the leader while it runs."""
        kill = chaos.kill
        bootstrap = self.cluster.bootstrap
        checkpoint = self.folder / "checkpoint"
        query = jobs.aggregate_delays(self.spark, self.dataset.airlines_csv, bootstrap, checkpoint)
        told = -1
        while query.isActive:
            progress = query.lastProgress
            if progress is not None and progress.batchId != told:
                told = progress.batchId
                self.tell(f"micro-batch {told}: {progress.numInputRows:,} flights")
            if not kill.happened and told + 1 >= BATCHES_BEFORE_THE_KILL:
                chaos.kill_leader(told + 1, acknowledged(bootstrap))
                self.tell(
                    f"killed broker {kill.killed_broker}, which led {kill.topic}-{kill.partition} "
                    f"in epoch {kill.epoch_before}; now broker {kill.leader_after} leads it in "
                    f"epoch {kill.epoch_after}"
                )
            chaos.maybe_restart()
            time.sleep(0.2)
        query.awaitTermination()
        batches = len({each.batchId for each in query.recentProgress if each.numInputRows})
        kill.batches_after = batches - kill.batches_before
        kill.acknowledged_after = acknowledged(bootstrap) - kill.acknowledged_before
        while kill.happened and not kill.restarted:
            time.sleep(0.2)
            chaos.maybe_restart()
        self.tell(f"broker {kill.killed_broker} is back")


@click.command(help=__doc__)
@click.option("--png", type=click.Path(path_type=Path), default=Path("run/delays.png"))
def main(png: Path) -> None:
    """Run the pipeline on a cluster of its own."""
    start = time.monotonic()

    def tell(text: str) -> None:
        click.echo(f"[{time.monotonic() - start:6.1f} s] {text}")

    with tempfile.TemporaryDirectory(prefix="minikafka-flights-") as folder:
        tell("reading the input without the cluster: the answer to compare with")
        dataset = prepare(Path(folder))
        tell(f"{dataset.row_count:,} flights, {dataset.undeparted_count:,} did not depart")
        tell("starting 3 brokers and a controller")
        with LocalCluster(brokers=3, controllers=1) as cluster:
            tell(f"cluster ready at {cluster.bootstrap}; starting Spark")
            spark = jobs.session()
            try:
                problems = Run(spark, cluster, dataset, Path(folder), tell).verify(png)
            finally:
                spark.stop()
    for problem in problems:
        click.echo(f"NOT VERIFIED: {problem}", err=True)
    tell("everything verified" if not problems else "failed")
    sys.exit(1 if problems else 0)


def acknowledged(bootstrap: str) -> int:
    """Count the records of the delays topic: each was acknowledged by every in-sync replica."""
    with Consumer(bootstrap_servers=bootstrap) as consumer:
        partitions = [TopicPartition(jobs.DELAYS_TOPIC, p) for p in range(PARTITIONS)]
        return sum(consumer.end_offsets(partitions).values())


def verified(text: str) -> list[str]:
    """Say what holds."""
    click.echo(f"verified: {text}")
    return []


def check_kill(kill: LeaderKill) -> list[str]:
    """Was the kill real: a leader, under load, with work acknowledged before and after?"""
    return kill.problems() or verified(
        f"broker {kill.killed_broker} was killed as leader of {kill.topic}-{kill.partition}; "
        f"leader epoch {kill.epoch_before} -> {kill.epoch_after}; micro-batches before and after: "
        f"{kill.batches_before} and {kill.batches_after}; acknowledged records before and after: "
        f"{kill.acknowledged_before:,} and {kill.acknowledged_after:,}"
    )


def check_flights(rows: "Counter[int]", dataset: Dataset) -> list[str]:
    """Is every flight in the log, and nothing else? Duplicates are counted, not refused."""
    wanted = range(1, dataset.row_count + 1)
    lost = [row for row in wanted if row not in rows]
    strange = [row for row in rows if row not in wanted]
    problems = []
    if lost:
        problems.append(f"{len(lost)} flights are lost, the first: row {lost[0]}")
    if strange:
        problems.append(f"{len(strange)} records are no flights of the input")
    duplicates = sum(rows.values()) - len(rows)
    return problems or verified(
        f"all {dataset.row_count:,} flights are in the log; duplicates from retries: {duplicates}"
    )


def check_delays(delays: Delays, dataset: Dataset) -> list[str]:
    """Do the aggregates equal those of the input read without the cluster?"""
    differing = sorted(set(delays.items()) ^ set(dataset.delays.items()))
    if differing:
        return [f"{len(differing)} aggregates differ, the first: {differing[0]}"]
    return verified(f"{len(delays):,} delays of an airline on a day equal those of the input")


def check_replicas(behind: list[str]) -> list[str]:
    """Is every partition back to full ISR?"""
    return [f"{name} lacks a replica in sync" for name in behind] or verified(
        "every partition has all its replicas in sync again"
    )


if __name__ == "__main__":
    main()
