"""Kills the leader of a partition under the streaming job, restarts it, and keeps the proof."""

import time
from dataclasses import dataclass

from ....client.admin.sync_admin import Admin
from ....deploy.local_cluster import LocalCluster

RESTART_AFTER_SECONDS = 5.0
WAIT_SECONDS = 30.0


@dataclass
class LeaderKill:
    """The kill of a partition's leader with SIGKILL, and what was observed before and after."""

    topic: str
    partition: int
    killed_broker: int = -1
    leader_after: int = -1
    epoch_before: int = -1
    epoch_after: int = -1
    batches_before: int = 0
    batches_after: int = 0
    acknowledged_before: int = 0
    acknowledged_after: int = 0
    killed_at: float = 0.0
    restarted: bool = False

    @property
    def happened(self) -> bool:
        """True if the broker has been killed."""
        return self.killed_broker >= 0

    def problems(self) -> list[str]:
        """Return why this was no real kill under load; empty if it was one."""
        checks = {
            "the leader was never killed": self.happened,
            "the leader epoch did not grow": self.epoch_after > self.epoch_before >= 0,
            "the killed broker stayed leader": self.leader_after != self.killed_broker,
            "no micro-batch ended before the kill": self.batches_before > 0,
            "no micro-batch ended after the kill": self.batches_after > 0,
            "nothing was acknowledged before the kill": self.acknowledged_before > 0,
            "nothing was acknowledged after the kill": self.acknowledged_after > 0,
            "the killed broker was not restarted": self.restarted,
        }
        return [problem for problem, fine in checks.items() if not fine]


class Chaos:
    """Carries out one `LeaderKill` on a local cluster."""

    def __init__(self, cluster: LocalCluster, admin: Admin, kill: LeaderKill) -> None:
        self.cluster = cluster
        self.admin = admin
        self.kill = kill

    def kill_leader(self, batches: int, acknowledged: int) -> None:
        """Kill the partition's leader and wait until another broker leads it."""
        kill = self.kill
        kill.killed_broker, kill.epoch_before = self._leader()
        kill.batches_before, kill.acknowledged_before = batches, acknowledged
        kill.killed_at = time.monotonic()
        self.cluster.kill(kill.killed_broker)
        deadline = kill.killed_at + WAIT_SECONDS
        while time.monotonic() < deadline:
            kill.leader_after, kill.epoch_after = self._leader()
            if kill.epoch_after > kill.epoch_before and kill.leader_after >= 0:
                return
            time.sleep(0.05)

    def maybe_restart(self) -> bool:
        """Restart the killed broker once it was away for a while; True if this call did."""
        away = time.monotonic() - self.kill.killed_at
        if self.kill.happened and not self.kill.restarted and away > RESTART_AFTER_SECONDS:
            self.cluster.restart(self.kill.killed_broker)
            self.kill.restarted = True
            return True
        return False

    def wait_until_in_sync(self, topics: list[str]) -> list[str]:
        """Wait until every partition has all replicas in sync; return those that have not."""
        deadline = time.monotonic() + WAIT_SECONDS
        while True:
            behind = [
                f"{topic.name}-{partition.partition}"
                for topic in self.admin.describe_topics(topics).values()
                for partition in topic.partitions
                if sorted(partition.isr) != sorted(partition.replicas)
            ]
            if not behind or time.monotonic() > deadline:
                return behind
            time.sleep(0.1)

    def _leader(self) -> tuple[int, int]:
        description = self.admin.describe_topics([self.kill.topic])[self.kill.topic]
        found = next(p for p in description.partitions if p.partition == self.kill.partition)
        return found.leader_id, found.leader_epoch
