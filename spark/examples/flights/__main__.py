"""Run the flights pipeline on its own cluster, kill a leader during the run, verify the result.

The exit code is 0 only if every check passed.
"""

import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import click
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

from ....client.admin.sync_admin import Admin
from ....client.admin.topic_types import NewTopic
from ....deploy.local_cluster import LocalCluster
from ....protocol.messages.list_offsets import LATEST_TIMESTAMP
from ....protocol.types import TopicPartition
from ...lag import LagListener
from . import jobs, report
from .chaos import Chaos, LeaderKill
from .dataset import Dataset, Delays, prepare
from .progress import Progress

PARTITIONS = 3
BATCHES_BEFORE_THE_KILL = 2
TOPICS = [jobs.FLIGHTS_TOPIC, jobs.DELAYS_TOPIC]
LAST_LAG_SECONDS = 10.0
BATCH_SECONDS = 600.0
"""The time limit of a micro-batch, which usually takes seconds."""
READING = {"isolation.level": "read_committed"}


@dataclass
class Run:
    """One run of the pipeline, with the values that its steps share."""

    spark: SparkSession
    cluster: LocalCluster
    admin: Admin
    dataset: Dataset
    progress: Progress
    lag: LagListener

    def verify(self, checkpoint: Path, png: Path) -> list[str]:
        """Run the three jobs; return the checks that failed."""
        tell, during, bootstrap = self.progress.tell, self.progress.during, self.cluster.bootstrap
        config = {"min.insync.replicas": "2"}
        self.admin.create_topics([NewTopic(name, PARTITIONS, 3, configs=config) for name in TOPICS])
        tell("batch job: the flights to topic 'flights'")
        with during(lambda: f"{self.acknowledged(jobs.FLIGHTS_TOPIC):,} records acknowledged"):
            jobs.publish_flights(self.spark, self.dataset.flights_csv, bootstrap)
        tell("all flights committed at once")
        chaos = Chaos(self.cluster, self.admin, LeaderKill(jobs.FLIGHTS_TOPIC, partition=0))
        tell("streaming job: 'flights' to 'delays', with a kill on the way")
        results = self.stream(chaos, checkpoint)
        self.wait_for_last_lag()
        tell(f"all there was is processed{self.behind()}")
        tell(f"consumer group {jobs.PROGRESS_GROUP}: {self.group_behind():,} records behind")
        with during(lambda: "waiting until every replica is in sync"):
            behind = chaos.wait_until_in_sync(TOPICS)
        tell("batch job: reading 'delays' back")
        with during(lambda: "reading 'delays'"):
            delays = jobs.newest_delays(self.spark, bootstrap)
        click.echo(report.table(delays))
        with during(lambda: "plotting"):
            report.plot(delays, png)
        tell(f"plot saved as {png}")
        tell("verifying: reading 'flights' back")
        with during(lambda: "reading 'flights'"):
            rows = Counter(jobs.published_rows(self.spark, bootstrap))
        with during(lambda: "counting 'delays'"):
            records = jobs.count_delays(self.spark, bootstrap)
        return [
            *check_kill(chaos.kill),
            *check_flights(rows, self.dataset),
            *check_delays(delays, self.dataset),
            *check_results(records, results),
            *check_replicas(behind),
        ]

    def stream(self, chaos: Chaos, checkpoint: Path) -> dict[int, int]:
        """Run the streaming job to its end; kill and restart the leader while it runs.

        Return the number of rows that each micro-batch wrote. Raise TimeoutError if a micro-batch
        takes longer than BATCH_SECONDS.
        """
        kill, tell = chaos.kill, self.progress.tell
        airlines, bootstrap = self.dataset.airlines_csv, self.cluster.bootstrap
        query = jobs.aggregate_delays(self.spark, airlines, bootstrap, checkpoint)
        told, heard = -1, time.monotonic()
        while query.isActive:
            before, told = told, self.tell_batches(query, told)
            heard = time.monotonic() if told > before else heard
            if time.monotonic() - heard > BATCH_SECONDS:
                status = query.status
                query.stop()
                raise TimeoutError(f"no micro-batch ended in {BATCH_SECONDS:.0f} s: {status}")
            if not kill.happened and told + 1 >= BATCHES_BEFORE_THE_KILL:
                chaos.kill_leader(told + 1, self.acknowledged(jobs.DELAYS_TOPIC))
                tell(
                    f"killed broker {kill.killed_broker}, which led {kill.topic}-{kill.partition} "
                    f"in epoch {kill.epoch_before}; now broker {kill.leader_after} leads it in "
                    f"epoch {kill.epoch_after}"
                )
            self.restart(chaos)
            self.progress.tell_if_silent(lambda: f"{query.status['message']}{self.behind()}")
            time.sleep(0.2)
        query.awaitTermination()
        self.tell_batches(query, told)
        # In complete mode every micro-batch writes all groups.
        results = {each.batchId: groups(each) for each in query.recentProgress if each.numInputRows}
        kill.batches_after = len(results) - kill.batches_before
        kill.acknowledged_after = self.acknowledged(jobs.DELAYS_TOPIC) - kill.acknowledged_before
        while kill.happened and not kill.restarted:
            time.sleep(0.2)
            self.restart(chaos)
        return results

    def tell_batches(self, query: StreamingQuery, told: int) -> int:
        """Print the micro-batches after `told`; return the number of the newest one."""
        new = [each for each in query.recentProgress if each.batchId > told and each.numInputRows]
        for each in new:
            self.progress.tell(
                f"micro-batch {each.batchId}: {each.numInputRows:,} flights{self.behind()}"
            )
        return new[-1].batchId if new else told

    def behind(self) -> str:
        """Return how far the streaming job is behind, as text, by the last measurement."""
        lag = self.lag.snapshot().get(jobs.DELAYS_QUERY)
        return "" if lag is None else f"; {lag.amount} behind"

    def wait_for_last_lag(self) -> None:
        """Wait until the listener has measured once more after the query's end."""
        deadline = time.monotonic() + LAST_LAG_SECONDS
        while time.monotonic() < deadline:
            lag = self.lag.snapshot().get(jobs.DELAYS_QUERY)
            if lag is not None and not lag.is_active:
                return
            time.sleep(0.1)

    def group_behind(self) -> int:
        """Count the records that the streaming job's group has not committed, as any tool would."""
        committed = self.admin.list_group_offsets(jobs.PROGRESS_GROUP)
        ends = self.ends(jobs.FLIGHTS_TOPIC)
        return sum(
            end - (committed[partition].offset if partition in committed else 0)
            for partition, end in ends.items()
        )

    def restart(self, chaos: Chaos) -> None:
        """Restart the killed broker if it was away long enough."""
        if chaos.maybe_restart():
            self.progress.tell(f"broker {chaos.kill.killed_broker} is back")

    def acknowledged(self, topic: str) -> int:
        """Count a topic's records, also those of open transactions, by its end offsets."""
        return sum(self.ends(topic).values())

    def ends(self, topic: str) -> dict[TopicPartition, int]:
        """Ask for the end offset of each partition of a topic."""
        asked = {TopicPartition(topic, p): LATEST_TIMESTAMP for p in range(PARTITIONS)}
        return {tp: listed.offset for tp, listed in self.admin.list_offsets(asked).items()}


@click.command(help=__doc__)
@click.option("--png", type=click.Path(path_type=Path), default=Path("run/delays.png"))
def main(png: Path) -> None:
    """Run the pipeline on a cluster of its own."""
    log = png.with_name("spark.log")
    with Progress() as progress:
        with tempfile.TemporaryDirectory(prefix="minikafka-flights-") as folder:
            problems = run_all(Path(folder), png, log, progress)
        for problem in problems:
            click.echo(f"NOT VERIFIED: {problem}", err=True)
        progress.tell("everything verified" if not problems else f"failed; Spark's log is {log}")
    sys.exit(1 if problems else 0)


def run_all(folder: Path, png: Path, log: Path, progress: Progress) -> list[str]:
    """Prepare the input, start a cluster and Spark, run; return the checks that failed."""
    tell = progress.tell
    tell("reading the input without the cluster: the answer to compare with")
    dataset = prepare(folder)
    tell(f"{dataset.row_count:,} flights, {dataset.undeparted_count:,} did not depart")
    tell("starting 3 brokers and a controller")
    with LocalCluster(brokers=3, controllers=1) as cluster:
        tell(f"cluster ready at {cluster.bootstrap}")
        tell(f"starting Spark; what it logs goes to {log}")
        with progress.during(lambda: "Spark is starting"):
            spark = jobs.session(log)
        try:
            with (
                Admin(bootstrap_servers=cluster.bootstrap) as admin,
                LagListener(cluster.bootstrap, every_seconds=1.0, settings=READING) as lag,
            ):
                spark.streams.addListener(lag)
                run = Run(spark, cluster, admin, dataset, progress, lag)
                problems = run.verify(folder / "checkpoint", png)
                spark.streams.removeListener(lag)
                return problems
        finally:
            spark.stop()


def groups(progress: StreamingQueryProgress) -> int:
    """Return the number of groups in the aggregation after a micro-batch."""
    (aggregation,) = progress.stateOperators
    return aggregation.numRowsTotal


def verified(text: str) -> list[str]:
    """Print a line for a check that passed; return no problems."""
    click.echo(f"verified: {text}")
    return []


def check_kill(kill: LeaderKill) -> list[str]:
    """Check that the kill hit a leader under load, with work acknowledged before and after.

    Return the problems, or [].
    """
    return kill.problems() or verified(
        f"broker {kill.killed_broker} was killed as leader of {kill.topic}-{kill.partition}; "
        f"leader epoch {kill.epoch_before} -> {kill.epoch_after}; micro-batches before and after: "
        f"{kill.batches_before} and {kill.batches_after}; acknowledged records before and after: "
        f"{kill.acknowledged_before:,} and {kill.acknowledged_after:,}"
    )


def check_flights(rows: "Counter[int]", dataset: Dataset) -> list[str]:
    """Check that every flight is in the log exactly once, and nothing else."""
    wanted = range(1, dataset.row_count + 1)
    lost = [row for row in wanted if row not in rows]
    strange = [row for row in rows if row not in wanted]
    twice = [row for row, count in rows.items() if count > 1]
    problems = []
    if lost:
        problems.append(f"{len(lost)} flights are lost, the first: row {lost[0]}")
    if strange:
        problems.append(f"{len(strange)} records are no flights of the input")
    if twice:
        problems.append(f"{len(twice)} flights are there more than once, such as row {twice[0]}")
    return problems or verified(f"all {dataset.row_count:,} flights are in the log; duplicates: 0")


def check_delays(delays: Delays, dataset: Dataset) -> list[str]:
    """Check that the aggregates equal those of the input read without the cluster."""
    differing = sorted(set(delays.items()) ^ set(dataset.delays.items()))
    if differing:
        return [f"{len(differing)} aggregates differ, the first: {differing[0]}"]
    return verified(f"{len(delays):,} delays of an airline on a day equal those of the input")


def check_results(records: int, results: dict[int, int]) -> list[str]:
    """Check that the result of every micro-batch is in the log exactly once."""
    wanted = sum(results.values())
    if records != wanted:
        return [
            f"'delays' holds {records:,} records; {len(results)} micro-batches wrote {wanted:,}"
        ]
    return verified(
        f"'delays' holds the results of {len(results)} micro-batches, {records:,} records; "
        "duplicates: 0"
    )


def check_replicas(behind: list[str]) -> list[str]:
    """Check that every partition has its full ISR again."""
    return [f"{name} lacks a replica in sync" for name in behind] or verified(
        "every partition has all its replicas in sync again"
    )


if __name__ == "__main__":
    main()
