"""Quix Streams, exactly once, while everything is killed (scenario X-60).

    python -m tests.system.streams --minutes 5 [--seed 7]

    feeder -> orders -> two instances that count, join with names, close windows -> counts, windows

Instances and brokers (leaders of the input, of an output and of a changelog, coordinators) are
killed with kill -9, in an order that the seed gives. At the end what a reader of committed records
finds is compared with the function of what was fed: every result once, in order.
"""

import argparse
import os
import random
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from minikafka import Admin, NewTopic

from ..compat import quix
from ..support.cluster import Cluster, running_cluster, wait_until
from .feeding import Feeder

INSTANCES = 2
STEP_MS = 5
"""Between two orders, of the clock and of their own time."""
DONE_WITHIN_S = 240
SETTINGS = {
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
}
INSTANCE = "instance"
CHANGELOG = "changelog__"
INTERNAL = ("__consumer_offsets", "__transaction_state")


class Orders(Feeder):
    """Writes order 0, 1, 2, ... in time, until it is told to stop."""

    def __init__(self, bootstrap: str, began_ms: int) -> None:
        self._began_ms = began_ms
        super().__init__(bootstrap, 1000 / STEP_MS)

    def write(self, number: int) -> None:
        """Produce an order."""
        self.producer.produce(
            quix.ORDERS,
            quix.order(number),
            quix.key_of(number),
            quix.partition_of(number),
            timestamp=self._began_ms + number * STEP_MS,
            on_delivery=self.on_delivery,
        )

    def stop(self) -> int:
        """End, and give how many were written; all of them are acknowledged."""
        self.end()
        return self.count


@dataclass
class Killer:
    """Kills, and brings back; at most one broker is down at a time."""

    cluster: Cluster
    admin: Admin
    instances: list[quix.Instance]
    rng: random.Random
    killed: dict[str, int] = field(default_factory=dict)
    ended: int = 0
    """How often an instance gave up by itself; somebody must start it again, as in Kubernetes."""

    def run(self, seconds: float) -> None:
        """Kill for so long: in each round a leader of each kind, and an instance after each."""
        deadline = time.monotonic() + seconds
        plan: list[str] = []
        while time.monotonic() < deadline:
            plan = plan or self._round()
            kind = plan.pop(0)
            time.sleep(self.rng.uniform(1, 3))
            name = kind if kind == INSTANCE else f"leader of {kind}"
            self.killed[name] = self.killed.get(name, 0) + 1
            if kind == INSTANCE:
                self._kill_instance()
            else:
                self._kill_leader(kind)
            self.revive()

    def revive(self) -> None:
        """Start what has given up."""
        for one in self.instances:
            if not one.is_running:
                self.ended += 1
                one.start()

    def _round(self) -> list[str]:
        kinds = [quix.ORDERS, quix.COUNTS, CHANGELOG, *INTERNAL]
        order = self.rng.sample(kinds, len(kinds))
        return [each for kind in order for each in (kind, INSTANCE)]

    def _kill_instance(self) -> None:
        one = self.rng.choice(self.instances)
        one.kill()
        time.sleep(self.rng.uniform(0, 1))
        one.start()

    def _kill_leader(self, kind: str) -> None:
        self._wait_for_full_isr()
        listed = self.admin.list_topics(include_internal=True)
        topics = sorted(each.name for each in listed if each.name.startswith(kind))
        topic = self.rng.choice(topics)
        partitions = self.admin.describe_topics([topic])[topic].partitions
        broker = self.cluster.broker(self.rng.choice(partitions).leader_id)
        broker.kill()
        time.sleep(self.rng.uniform(0.5, 3))
        broker.start()

    def _wait_for_full_isr(self) -> None:
        """The next may be killed once what the last one had is everywhere again."""
        names = [each.name for each in self.admin.list_topics(include_internal=True)]
        wait_until(
            lambda: all(
                partition.leader_id >= 0 and len(partition.isr) == 3
                for topic in self.admin.describe_topics(names).values()
                for partition in topic.partitions
            ),
            within_s=60,
        )


def play(directory: Path, seconds: float, seed: int) -> dict[str, int]:
    """Run everything, check the output, and tell what was killed how often."""
    quix.python()
    with (
        running_cluster(directory, brokers=3, broker_settings=SETTINGS) as cluster,
        Admin(cluster.bootstrap) as admin,
    ):
        admin.create_topics([NewTopic(name, quix.PARTITIONS, 3) for name in quix.TOPICS])
        began_ms = int(time.time() * 1000)
        quix.feed_names(cluster.bootstrap, began_ms - 1)
        where = cluster.bootstrap
        instances = [quix.Instance(where, directory, n, "exactly-once") for n in range(INSTANCES)]
        killer = Killer(cluster, admin, instances, random.Random(seed))
        try:
            for one in instances:
                one.start()
            feeder = Orders(where, began_ms)
            try:
                wait_for_counts(killer, 1)
                killer.run(seconds)
            finally:
                total = feeder.stop()
            wait_for_counts(killer, total)
        except BaseException:
            print("\n".join(f"{one.name}:\n{one.log()[-5000:]}" for one in instances))
            raise
        finally:
            for one in instances:
                one.destroy()
        check(where, total, began_ms)
    return {"orders": total, "ended by itself": killer.ended, **killer.killed}


def wait_for_counts(killer: Killer, least: int) -> None:
    """Wait until so many results are committed."""

    def are_there() -> bool:
        killer.revive()
        found = quix.committed(killer.cluster.bootstrap, quix.COUNTS)
        return sum(map(len, found.values())) >= least

    wait_until(are_there, within_s=DONE_WITHIN_S, every_s=0.5)


def check(bootstrap: str, total: int, began_ms: int) -> None:
    """Compare both outputs with the function of the input."""
    for topic, expected in (
        (quix.COUNTS, quix.expected_counts(total)),
        (quix.WINDOWS, quix.expected_windows(total, began_ms, STEP_MS)),
    ):
        quix.wait_until_decided(bootstrap, topic)
        found = quix.committed(bootstrap, topic)
        assert found.keys() == expected.keys(), topic
        for key, rows in expected.items():
            assert found[key] == rows, f"{topic}: {key!r}: {difference(found[key], list(rows))}"


def difference(found: list[Any], expected: list[Any]) -> str:
    """Say where two lists part."""
    pairs = zip(found, expected, strict=False)
    at = next((n for n, (one, other) in enumerate(pairs) if one != other), None)
    if at is None:
        return f"{len(found)} results of {len(expected)}, the first ones alike"
    return f"from {at} on: {found[at]} for {expected[at]}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4), "big"))
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="streams-") as directory:
        told = play(Path(directory), options.minutes * 60, options.seed)
    print(", ".join(f"{count} x {what}" for what, count in told.items()))


if __name__ == "__main__":
    main()
