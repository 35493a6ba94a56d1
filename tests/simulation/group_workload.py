"""Members of a consumer group, which join, read, commit, are disconnected, and leave.

`GroupHistory` checks what they are assigned and what they read.
"""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from minikafka.aio import Consumer, TopicPartition
from minikafka.client.group_types import OffsetAndMetadata, RebalanceListener
from minikafka.runtime.errors import MinikafkaError

from .group_history import GroupHistory
from .history import Partition
from .world import SimRuntime

if TYPE_CHECKING:
    from .workload import Workload

GROUP = "readers"
SESSION_MS = 6000
"""The members' session timeout: longer than most faults, shorter than some."""


class Member:
    """One process that joins the group again and again."""

    def __init__(self, workload: "Workload", runtime: SimRuntime) -> None:
        self.workload = workload
        self.runtime = runtime
        self.history: GroupHistory = workload.groups
        self.name = runtime.name
        self.consumer: Consumer[bytes, bytes]
        self.positions: dict[TopicPartition, int] = {}
        self.lives = 0

    async def run(self) -> None:
        """Join and leave the group again and again, for some seconds each."""
        self.workload.started_count += 1
        while not self.workload.stopping:
            self.lives += 1
            self.name = f"{self.runtime.name}/{self.lives}"
            self.positions.clear()
            rng = self.runtime.rng
            ends = self.runtime.monotonic_ms() + rng.choice((3_000, 20_000, 90_000))
            async with Consumer(**self._settings()) as self.consumer:
                await self._join()
                while not self.workload.stopping and self.runtime.monotonic_ms() < ends:
                    await self._work()
            self.history.on_died(self.name)

    def _settings(self) -> dict[str, Any]:
        rng = self.runtime.rng
        strategy = self.workload.shape.group_strategy
        return {
            "bootstrap_servers": self.workload.cluster.bootstrap,
            "runtime": self.runtime,
            "group_id": GROUP,
            "group_instance_id": self.runtime.name if rng.random() < 0.2 else None,
            "partition_assignment_strategy": (strategy,),
            "enable_auto_commit": False,
            "auto_offset_reset": "earliest",
            "client_rack": self.workload.some_rack(self.runtime),
            "session_timeout_ms": SESSION_MS,
            "heartbeat_interval_ms": 1000,
            "request_timeout_ms": 2000,
            "metadata_max_age_ms": 5000,
        }

    async def _join(self) -> None:
        topics = [topic.name for topic in self.workload.lasting]
        listener = RebalanceListener(self._on_assigned, self._on_revoked, self._on_lost)
        await self.consumer.subscribe(topics, listener=listener)

    async def _work(self) -> None:
        try:
            records = await self.consumer.poll(timeout_ms=500)
        except MinikafkaError:
            # Out of the group, maybe for good, or nobody answers: poll again.
            await asyncio.sleep(0.1)
            return
        for record in records:
            place: Partition = (record.topic, record.partition)
            self.history.on_polled(self.name, place, record.offset)
            self.workload.coverage.note("transition", "polled-in-group")
            self.positions[TopicPartition(*place)] = record.offset + 1
        if self.positions and self.runtime.rng.random() < 0.3:
            await self._commit()

    async def _commit(self) -> None:
        positions = dict(self.positions)
        try:
            await self.consumer.commit(
                {each: OffsetAndMetadata(offset) for each, offset in positions.items()}
            )
        except MinikafkaError:
            self.workload.coverage.note("transition", "commit-refused")
            return
        self.workload.coverage.note("transition", "commit-acknowledged")
        for partition, offset in positions.items():
            self.history.on_committed((partition.topic, partition.partition), offset)

    # -- rebalances -------------------------------------------------------------------------

    def _on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        generation = self.consumer.group_metadata().generation_id
        for partition in partitions:
            self.workload.coverage.note("transition", "partition-assigned")
            place = (partition.topic, partition.partition)
            self.history.on_assigned(self.name, place, generation)

    async def _on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        if self.positions and self.runtime.rng.random() < 0.5:
            await self._commit()
        generation = self.consumer.group_metadata().generation_id
        for partition in partitions:
            self.workload.coverage.note("transition", "partition-revoked")
            self.positions.pop(partition, None)
            place = (partition.topic, partition.partition)
            self.history.on_revoked(self.name, place, generation)

    def _on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        for partition in partitions:
            self.workload.coverage.note("transition", "partition-lost")
            self.positions.pop(partition, None)
            self.history.on_lost(self.name, (partition.topic, partition.partition))
