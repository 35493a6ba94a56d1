"""Read, process, write, each record once, while everything is killed (scenario H-19).

    python -m tests.system.exactly_once --minutes 10 [--seed 7]

    feeder -> input -> two instances with our client         -> squares-ours
                    -> two instances with confluent-kafka    -> squares-confluent

Meanwhile brokers (leaders, coordinators of groups and of transactions), the controller and the
instances are killed with kill -9, in an order that the seed gives. At the end what a reader of
committed records finds is compared with what was fed: every record once, in order.
"""

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import confluent_kafka
import confluent_kafka.admin

from minikafka import Admin, Consumer, NewTopic, TopicPartition

from ..support.cluster import Cluster, running_cluster, wait_until
from .exactly_once_app import process
from .feeding import Feeder

ROOT = Path(__file__).parents[2]
SOURCE = "input"
CLIENTS = ("ours", "confluent")
INSTANCES = 2
PARTITIONS = 6
RATE = 300
"""Records a second."""
DONE_WITHIN_S = 240
SETTINGS = {
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
}
INTERNAL = ("__consumer_offsets", "__transaction_state")


def sink_of(client: str) -> str:
    """Name the topic, and the group, of a client's application."""
    return f"squares-{client}"


class Application:
    """One instance; killed and started again at will."""

    def __init__(self, directory: Path, name: str, module: str, *arguments: str) -> None:
        self.name = name
        self._log = directory / f"application-{name}.log"
        self._command = [sys.executable, "-W", "ignore", "-m", module, *arguments]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, cwd=ROOT, stdout=log, stderr=log)

    def kill(self) -> None:
        assert self._process is not None
        assert self._process.poll() is None, f"{self.name} ended by itself:\n{self.log()}"
        self._process.kill()
        self._process.wait()

    def log(self) -> str:
        return self._log.read_text()[-3000:]

    def destroy(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()


def squaring(cluster: Cluster, client: str, number: int) -> Application:
    """Return one of a client's instances."""
    where = [client, cluster.bootstrap, SOURCE, sink_of(client), str(number)]
    module = "tests.system.exactly_once_app"
    return Application(cluster.directory, f"{client}-{number}", module, *where)


class Numbers(Feeder):
    """Writes 0, 1, 2, ... to the input, in time, until it is told to stop."""

    def __init__(self, bootstrap: str) -> None:
        self.fed: list[list[int]] = [[] for _ in range(PARTITIONS)]
        super().__init__(bootstrap, RATE)

    def write(self, number: int) -> None:
        """Produce a number."""
        partition = number % PARTITIONS
        self.producer.produce(
            SOURCE, b"%d" % number, partition=partition, on_delivery=self.on_delivery
        )

    def on_delivery(self, error: Any, message: Any) -> None:
        """Note where a number is, or that it is not acknowledged."""
        super().on_delivery(error, message)
        if error is None:
            self.fed[message.partition()].append(int(message.value()))

    def stop(self) -> list[list[int]]:
        """End, and give what is acknowledged: everything."""
        self.end()
        return self.fed


@dataclass
class Killer:
    """Kills, and brings back; at most one daemon is down at a time."""

    cluster: Cluster
    admin: Admin
    applications: list[Application]
    rng: random.Random
    topics: Sequence[str]
    """The topics whose leaders are killed, beside those of coordinators."""
    killed: dict[str, int] = field(default_factory=dict)

    def run(self, seconds: float) -> None:
        """Kill for so long."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            time.sleep(self.rng.uniform(0.5, 2.0))
            kind, step = self.rng.choice(self._steps())
            self.killed[kind] = self.killed.get(kind, 0) + 1
            step()

    def _steps(self) -> list[tuple[str, Callable[[], None]]]:
        return [
            ("application", self._kill_application),
            ("application", self._kill_application),
            ("coordinator of groups", lambda: self._kill_leader(INTERNAL[0])),
            ("coordinator of transactions", lambda: self._kill_leader(INTERNAL[1])),
            *((f"leader of {one}", partial(self._kill_leader, one)) for one in self.topics),
            ("controller", self._kill_controller),
        ]

    def _kill_application(self) -> None:
        one = self.rng.choice(self.applications)
        one.kill()
        time.sleep(self.rng.uniform(0, 1))
        one.start()

    def _kill_leader(self, topic: str) -> None:
        self._wait_for_full_isr()
        partitions = self.admin.describe_topics([topic])[topic].partitions
        broker = self.cluster.broker(self.rng.choice(partitions).leader_id)
        broker.kill()
        time.sleep(self.rng.uniform(0.5, 3))
        broker.start()

    def _kill_controller(self) -> None:
        self.cluster.controller.kill()
        time.sleep(self.rng.uniform(0, 1))
        self.cluster.controller.start()

    def _wait_for_full_isr(self) -> None:
        """The next may be killed once what the last one had is everywhere again."""
        names = [*self.topics, *INTERNAL]
        wait_until(
            lambda: all(
                partition.leader_id >= 0 and len(partition.isr) == len(partition.replicas)
                for topic in self.admin.describe_topics(names).values()
                for partition in topic.partitions
            ),
            within_s=60,
        )


def play(directory: Path, seconds: float, seed: int) -> dict[str, int]:
    """Run everything, check the output, and tell what was killed how often."""
    with (
        running_cluster(directory, brokers=3, broker_settings=SETTINGS) as cluster,
        Admin(cluster.bootstrap) as admin,
    ):
        admin.create_topics(
            [NewTopic(name, PARTITIONS, 3) for name in (SOURCE, *map(sink_of, CLIENTS))]
        )
        applications = [
            squaring(cluster, client, n) for client in CLIENTS for n in range(INSTANCES)
        ]
        try:
            for one in applications:
                one.start()
            feeder = Numbers(cluster.bootstrap)
            try:
                wait_until_read(cluster, feeder, least=1)
                topics = [SOURCE, *map(sink_of, CLIENTS)]
                killer = Killer(cluster, admin, applications, random.Random(seed), topics)
                killer.run(seconds)
            finally:
                fed = feeder.stop()
            wait_until_read(cluster, feeder)
        except BaseException:
            print("\n".join(f"{one.name}:\n{one.log()}" for one in applications))
            raise
        finally:
            for one in applications:
                one.destroy()
        for client in CLIENTS:
            check(cluster.bootstrap, client, fed)
    return {"records": sum(map(len, fed)), **killer.killed}


def wait_until_read(cluster: Cluster, feeder: Numbers, least: int | None = None) -> None:
    """Wait until every application has committed all of the input, or at least so much."""
    kadmin: Any = confluent_kafka.admin
    admin = kadmin.AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})

    def are_done() -> bool:
        wanted = [len(part) if least is None else least for part in feeder.fed]
        for client in CLIENTS:
            asked = confluent_kafka.ConsumerGroupTopicPartitions(sink_of(client))
            (found,) = admin.list_consumer_group_offsets([asked]).values()
            try:
                places = found.result(20).topic_partitions
            except confluent_kafka.KafkaException:
                return False
            committed = {place.partition: place.offset for place in places}
            if any(committed.get(p, 0) < count for p, count in enumerate(wanted)):
                return False
        return True

    wait_until(are_done, within_s=DONE_WITHIN_S, every_s=0.2)


def check(bootstrap: str, client: str, fed: list[list[int]]) -> None:
    """Compare the output with the function of the input, as two clients read it."""
    wait_until_decided(bootstrap, sink_of(client))
    for read in (read_with_ours, read_with_confluent):
        found = read(bootstrap, sink_of(client))
        for partition, numbers in enumerate(fed):
            expected = [process(b"%d" % number) for number in numbers]
            mine = found[partition]
            assert len(mine) == len(set(mine)), f"{client}: twice in partition {partition}"
            assert mine == expected, (
                f"{client}: partition {partition} is not what was fed: {difference(mine, expected)}"
            )


def wait_until_decided(bootstrap: str, topic: str) -> None:
    """Wait for the markers of the last transactions.

    That of the offsets, by which the input counts as read, may be written before the others.
    """
    places = [TopicPartition(topic, p) for p in range(PARTITIONS)]
    with (
        Consumer(bootstrap, isolation_level="read_committed") as committed,
        Consumer(bootstrap, isolation_level="read_uncommitted") as everything,
    ):
        wait_until(
            lambda: committed.end_offsets(places) == everything.end_offsets(places),
            within_s=60,
            every_s=0.2,
        )


def difference(found: list[bytes], expected: list[bytes]) -> str:
    """Say where two lists part."""
    pairs = zip(found, expected, strict=False)
    at = next((n for n, (one, other) in enumerate(pairs) if one != other), None)
    if at is None:
        return f"{len(found)} records of {len(expected)}, the first ones alike"
    missing = sorted({*expected} - {*found})
    return f"from {at} on: {found[at]!r} for {expected[at]!r}; missing {missing[:5]}"


def read_with_ours(bootstrap: str, topic: str) -> list[list[bytes]]:
    """Read what is committed with our consumer."""
    found: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
    places = [TopicPartition(topic, p) for p in range(PARTITIONS)]
    with Consumer(
        bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
    ) as consumer:
        ends = consumer.end_offsets(places)
        consumer.assign(places)
        while any(consumer.position(place) < ends[place] for place in places):
            for record in consumer.poll(timeout_ms=1000, max_records=20_000):
                found[record.partition].append(record.value or b"")
    return found


def read_with_confluent(bootstrap: str, topic: str) -> list[list[bytes]]:
    """Read what is committed with confluent-kafka."""
    found: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, p, 0) for p in range(PARTITIONS)])
    open_ends = PARTITIONS
    while open_ends:
        message = consumer.poll(20)
        assert message is not None, "no end"
        error, partition = message.error(), message.partition()
        assert partition is not None
        if error is None:
            found[partition].append(message.value() or b"")
        else:
            assert error.code() == confluent_kafka.KafkaError._PARTITION_EOF, error
            open_ends -= 1
    consumer.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4), "big"))
    options = parser.parse_args()
    print(f"seed {options.seed}")
    with tempfile.TemporaryDirectory(prefix="exactly-once-") as directory:
        told = play(Path(directory), options.minutes * 60, options.seed)
    print(", ".join(f"{count} x {what}" for what, count in told.items()))


if __name__ == "__main__":
    main()
