"""Output equals input, each once, whatever dies: Spark, its tasks, its drivers, brokers.

Three brokers, and drivers in processes of their own (crash_driver.py). Starting Spark is what takes
time here, so that the tests follow one upon the other: `first` lives through all of them, and takes
over what the other leaves behind.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from minikafka import Admin, Consumer, NewTopic, Producer, ProducerRecord, TopicPartition
from minikafka.deploy.local_cluster import LocalCluster
from minikafka.spark.java import OLDEST, java_version

pytestmark = pytest.mark.slow

PATIENCE_SECONDS = 120.0
SOURCE = "rows"
ROWS = [b"%03d" % n for n in range(60)]
"""Two micro-batches of 30."""


@dataclass
class Told:
    """One query, as crash_driver.py reads it."""

    query: str
    misfortune: str = "none"
    kind: str = "stream"
    options: dict[str, str] = field(default_factory=dict)

    def plain(self) -> dict[str, Any]:
        """Its topic has its name."""
        return {**vars(self), "source": SOURCE, "target": self.query}


class Spark:
    """A driver program."""

    def __init__(self, servers: str, folder: Path) -> None:
        self._folder = folder
        self._process = subprocess.Popen(
            [
                sys.executable,
                str(Path(__file__).with_name("crash_driver.py")),
                servers,
                str(folder),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=folder,
            start_new_session=True,
        )
        self._is_ready = False

    def _line(self, what: str) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"the driver ended before it was {what}: see {self._folder}"
        return line

    def begin(self, *told: Told) -> None:
        """Let it run queries, all at once, and do not wait."""
        assert self._process.stdin is not None
        if not self._is_ready:
            self._line("ready")
            self._is_ready = True
        self._process.stdin.write(json.dumps([each.plain() for each in told]) + "\n")
        self._process.stdin.flush()

    def outcomes(self) -> list[str]:
        """Wait for the end of the queries: why each failed, "" if it did not."""
        found: list[str | None] = json.loads(self._line("done"))
        return [error or "" for error in found]

    def run(self, *told: Told) -> list[str]:
        """Run queries to their end."""
        self.begin(*told)
        return self.outcomes()

    def kill(self) -> None:
        """SIGKILL to Python and JVM at once; Spark's workers end by themselves then."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self.close()

    def close(self) -> None:
        """End it, if it lives."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None and not pipe.closed:
                pipe.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(30)


@dataclass
class World:
    """Three brokers, a topic to read, and a driver."""

    cluster: LocalCluster
    admin: Admin
    folder: Path
    first: Spark
    second: Spark

    def target(self, name: str) -> None:
        self.admin.create_topics([NewTopic(name, 2, 3, configs={"min.insync.replicas": "2"})])

    def wait_until_reached(self, query: str) -> None:
        """Wait for the misfortune of a query."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not (self.folder / query / "reached").exists():
            assert time.monotonic() < deadline, f"{query} never came to its misfortune"
            time.sleep(0.02)

    def go(self, query: str) -> None:
        """Let what was reached go on."""
        (self.folder / query / "go").touch()

    def check(self, topic: str) -> None:
        """Every row is there once, for a reader of what is committed, and nothing is left open."""
        partitions = [TopicPartition(topic, p) for p in (0, 1)]
        listed = self.admin.list_offsets(dict.fromkeys(partitions, -1))
        found: list[bytes | None] = []
        deadline = time.monotonic() + PATIENCE_SECONDS
        with Consumer(
            self.cluster.bootstrap, auto_offset_reset="earliest", isolation_level="read_committed"
        ) as consumer:
            consumer.assign(partitions)
            while any(consumer.position(p) < listed[p].offset for p in partitions):
                found += [record.value for record in consumer.poll(1000)]
                assert time.monotonic() < deadline, f"{topic} is not readable to its end: {found}"
        assert Counter(found) == Counter(ROWS)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    version = java_version()
    if version is None or version < OLDEST:
        pytest.skip(f"Spark needs Java {OLDEST} or newer; found {version or 'none'}")
    folder = tmp_path_factory.mktemp("crashes")
    settings = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "200"}
    with (
        LocalCluster(brokers=3, broker_config=settings) as cluster,
        Admin(cluster.bootstrap) as admin,
    ):
        first = Spark(cluster.bootstrap, folder)
        admin.create_topics([NewTopic(SOURCE, 2, 3)])
        with Producer(cluster.bootstrap) as producer:
            for partition in (0, 1):
                records = [ProducerRecord(row) for row in ROWS[partition::2]]
                producer.send_batch(SOURCE, records, partition=partition).result(60)
        second = Spark(cluster.bootstrap, folder)
        yield World(cluster, admin, folder, first, second)
        for driver in (first, second):
            driver.close()


def test_tasks_fail_in_the_middle_of_their_rows(world: World) -> None:
    stream, job = Told("task-fails", "task fails"), Told("job-fails", "task fails", "batch")
    for told in (stream, job):
        world.target(told.query)
    assert world.first.run(stream, job) == ["", ""]
    for told in (stream, job):
        assert (world.folder / told.query / "happened").exists()
        world.check(told.query)


def test_commits_that_fail_and_the_same_checkpoints_again(world: World) -> None:
    raises = Told("commit-raises", "commit raises")
    outage = Told(
        "outage", "transactions time out", options={"kafka.transaction.timeout.ms": "3000"}
    )
    foreach = Told("foreach", "commit raises", "foreach batch", {"sinkId": "foreach"})
    every = (raises, outage, foreach)
    for told in every:
        world.target(told.query)
    whys = world.first.run(*every)
    assert "as it was told to" in whys[0], whys[0]
    assert "nothing of the batch is visible" in whys[1], whys[1]
    assert "as it was told to" in whys[2], whys[2]
    # With its usual patience: the machine may be slow.
    assert world.first.run(raises, Told("outage"), foreach) == ["", "", ""]
    for told in every:
        world.check(told.query)


def test_the_leader_dies_while_a_task_writes(world: World) -> None:
    told = Told("leader-dies", "pause in task")
    world.target(told.query)
    world.first.begin(told)
    world.wait_until_reached(told.query)
    described = world.admin.describe_topics([told.query])[told.query]
    victim = described.partitions[0].leader_id
    world.cluster.kill(victim)
    world.go(told.query)
    assert world.first.outcomes() == [""]
    world.cluster.restart(victim)
    world.check(told.query)


def test_the_coordinator_dies_before_the_commit(world: World) -> None:
    told = Told("coordinator-dies", "pause before commit")
    world.target(told.query)
    world.first.begin(told)
    world.wait_until_reached(told.query)
    listed = world.admin.list_transactions(states=["Ongoing"])
    (victim,) = {one.coordinator_id for one in listed if one.transactional_id.startswith("spark-")}
    world.cluster.kill(victim)
    world.go(told.query)
    assert world.first.outcomes() == [""]
    world.cluster.restart(victim)
    world.check(told.query)


def test_a_zombie_driver_is_fenced(world: World) -> None:
    told = Told("zombie", "pause before commit")
    world.target(told.query)
    world.first.begin(told)
    world.wait_until_reached(told.query)
    assert world.second.run(told) == [""], "the same checkpoint, from what was not committed"
    world.go(told.query)
    (why,) = world.first.outcomes()
    assert "has taken over" in why, why
    world.check(told.query)


def test_a_driver_is_killed_before_one_commit_and_after_another(world: World) -> None:
    every = [Told(f"killed-{when}", f"pause {when} commit") for when in ("before", "after")]
    for told in every:
        world.target(told.query)
    world.second.begin(*every)
    for told in every:
        world.wait_until_reached(told.query)
    world.second.kill()
    assert world.first.run(*every) == ["", ""]
    for told in every:
        world.check(told.query)
