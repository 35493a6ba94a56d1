"""Load that never pauses while leaders and the controller are killed: nothing acknowledged is lost.

Every partition's leader is killed at least once at full ISR, then leaders in a round without
waiting, then the controller. Each daemon comes back after 5 s.
"""

import time

import pytest

from minikafka import Admin, NewTopic

from ..support.cluster import Cluster, Daemon, wait_until
from .conftest import partition_of, wait_for_full_isr
from .ledger import Writer, check, write_with_confluent, write_with_ours

pytestmark = pytest.mark.slow

PARTITIONS = 6
TOPIC = "load"
ACKNOWLEDGED_PER_KILL = 20_000
DOWN_SECONDS = 5.0
ROUND_WITHOUT_WAITING = 3


class Killing:
    """Kills daemons under the writers' load and brings them back."""

    def __init__(self, cluster: Cluster, admin: Admin, writers: list[Writer]) -> None:
        self.cluster = cluster
        self.admin = admin
        self.writers = writers
        self.led: dict[int, int] = dict.fromkeys(range(PARTITIONS), 0)
        """How often each partition's leader was killed."""
        self._counts = [0 for _ in writers]

    def wait_for_acknowledgements(self) -> None:
        """Every writer had enough acknowledged since the kill before."""
        wait_until(
            lambda: all(
                writer.ledger.count - before >= ACKNOWLEDGED_PER_KILL
                for writer, before in zip(self.writers, self._counts, strict=True)
            ),
            within_s=90,
        )
        self._counts = [writer.ledger.count for writer in self.writers]

    def kill_leader_of(self, partition: int) -> Daemon:
        """Kill the broker that leads, and note what else it led."""
        leader = wait_until(lambda: self._leader_of(partition))
        for each in self.admin.describe_topics([TOPIC])[TOPIC].partitions:
            if each.leader_id == leader:
                self.led[each.partition] += 1
        daemon = self.cluster.broker(leader)
        daemon.kill()
        return daemon

    def bring_back(self, daemon: Daemon) -> None:
        """Start it after it was down for a while."""
        time.sleep(DOWN_SECONDS)
        daemon.start()

    def _leader_of(self, partition: int) -> int | None:
        leader = partition_of(self.admin, TOPIC, partition).leader_id
        return leader if leader >= 0 and self.cluster.broker(leader).is_running else None


def test_nothing_acknowledged_is_lost_when_leaders_and_the_controller_are_killed(
    cluster: Cluster, admin: Admin
) -> None:
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)])
    writers = [
        Writer("ours", write_with_ours(cluster.bootstrap, TOPIC), PARTITIONS),
        Writer("confluent", write_with_confluent(cluster.bootstrap, TOPIC), PARTITIONS),
    ]
    try:
        killing = Killing(cluster, admin, writers)
        while 0 in killing.led.values():
            wait_for_full_isr(admin, TOPIC)
            killing.wait_for_acknowledgements()
            partition = min(p for p, times in killing.led.items() if times == 0)
            killing.bring_back(killing.kill_leader_of(partition))
        for partition in range(ROUND_WITHOUT_WAITING):
            killing.wait_for_acknowledgements()
            killing.bring_back(killing.kill_leader_of(partition))
        killing.wait_for_acknowledgements()
        cluster.controller.kill()
        killing.bring_back(cluster.controller)
        killing.wait_for_acknowledgements()
    finally:
        ledgers = [writer.stop() for writer in writers]
    wait_for_full_isr(admin, TOPIC)
    check(cluster.bootstrap, TOPIC, PARTITIONS, ledgers)


def test_after_kill_9_of_everything_every_acknowledged_record_is_there(
    cluster: Cluster, admin: Admin
) -> None:
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)])
    writer = Writer("ours", write_with_ours(cluster.bootstrap, TOPIC), PARTITIONS)
    try:
        wait_until(lambda: writer.ledger.count > ACKNOWLEDGED_PER_KILL, within_s=60)
        cluster.kill()
        before = {p: dict(found) for p, found in writer.ledger.acknowledged.items()}
        cluster.start()
    finally:
        ledger = writer.stop()
    wait_for_full_isr(admin, TOPIC)
    assert all(before[p].items() <= ledger.acknowledged[p].items() for p in before)
    check(cluster.bootstrap, TOPIC, PARTITIONS, [ledger])
