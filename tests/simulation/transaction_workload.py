"""Transactional clients: producers that commit and abort, and pipes that copy records.

The producers write to the ledger, a topic. A pipe copies its committed records to another topic,
each once, and commits the offsets that it has read in the same transaction.
"""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from minikafka.aio import (
    Consumer,
    ConsumerRecord,
    Delivery,
    Producer,
    TopicPartition,
)
from minikafka.client.group_types import OffsetAndMetadata, RebalanceListener
from minikafka.protocol.errors import ApiError
from minikafka.runtime.errors import MinikafkaError

from .history import Partition
from .transaction_history import LEDGER, PIPED, Outcome, Transaction, TransactionHistory
from .world import SimRuntime

if TYPE_CHECKING:
    from .workload import Workload

PIPE_GROUP = "pipe"
TIMEOUT_MS = 10_000
PATIENCE_MS = 30_000
"""Milliseconds after the last fault in which coordinators are found and transactions time out."""


class Ledger:
    """One transactional producer; if it fails, a new one continues."""

    def __init__(self, workload: "Workload", runtime: SimRuntime) -> None:
        self.workload = workload
        self.runtime = runtime
        self.history: TransactionHistory = workload.transactions
        self.count = 0
        self.partitions = workload.partition_counts[LEDGER]

    async def run(self) -> None:
        """Run one transaction after the other."""
        self.workload.started_count += 1
        while not self.workload.stopping:
            try:
                async with Producer(**settings(self.workload, self.runtime)) as producer:
                    while not self.workload.stopping:
                        await self._one(producer)
                        pause = self.runtime.rng.choice((0, 0.3, 1))
                        await asyncio.sleep(pause * self.runtime.rng.random())
            except MinikafkaError:
                self.workload.coverage.note("transition", "transactional-producer-failed")
                await asyncio.sleep(self.runtime.rng.random())

    async def _one(self, producer: "Producer[bytes, bytes]") -> None:
        rng = self.runtime.rng
        self.count += 1
        transaction = self.history.begin(f"{self.runtime.name}:{self.count}")
        await producer.begin_transaction()
        for number in range(rng.choice((1, 3, 8, 20))):
            place: Partition = (LEDGER, rng.randrange(self.partitions))
            value = f"{transaction.name}:{number}".encode()
            transaction.records.append((place, value))
            delivery = producer.send(LEDGER, value, partition=place[1])
            delivery.when_done(partial(self._note_refusal, transaction, place, delivery))
            if rng.random() < 0.3:
                await asyncio.sleep(rng.choice((0.01, 0.3, 3)) * rng.random())
        await end(self.workload, producer, transaction, aborts=rng.random() < 0.2)

    def _note_refusal(self, transaction: Transaction, place: Partition, delivery: Delivery) -> None:
        cause = getattr(delivery.error(), "error", None)
        if isinstance(cause, ApiError):
            self.history.refused.append((place, transaction.name, cause.code))


class Pipe:
    """Copies the ledger's committed records to the other topic, each once."""

    def __init__(self, workload: "Workload", runtime: SimRuntime) -> None:
        self.workload = workload
        self.runtime = runtime
        self.held: dict[TopicPartition, None] = {}

    async def run(self) -> None:
        """Copy until the run ends; after a failure, go on from the committed offsets."""
        self.workload.started_count += 1
        while not self.workload.stopping:
            try:
                async with (
                    Consumer(**self._settings()) as consumer,
                    Producer(**settings(self.workload, self.runtime)) as producer,
                ):
                    listener = RebalanceListener(self._on_assigned, self._on_gone, self._on_gone)
                    await consumer.subscribe([LEDGER], listener=listener)
                    while not self.workload.stopping:
                        records = await consumer.poll(timeout_ms=500, max_records=20)
                        if records:
                            await self._pass_on(consumer, producer, records)
            except MinikafkaError:
                self.workload.coverage.note("transition", "pipe-failed")
                await asyncio.sleep(self.runtime.rng.random())

    def _settings(self) -> dict[str, Any]:
        return {
            "bootstrap_servers": self.workload.cluster.bootstrap,
            "runtime": self.runtime,
            "group_id": PIPE_GROUP,
            "isolation_level": "read_committed",
            "enable_auto_commit": False,
            "auto_offset_reset": "earliest",
            "session_timeout_ms": 6000,
            "heartbeat_interval_ms": 1000,
            "request_timeout_ms": 2000,
            "metadata_max_age_ms": 5000,
        }

    def _on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self.held.update(dict.fromkeys(partitions))

    def _on_gone(self, partitions: Sequence[TopicPartition]) -> None:
        for partition in partitions:
            self.held.pop(partition, None)

    async def _pass_on(
        self,
        consumer: "Consumer[bytes, bytes]",
        producer: "Producer[bytes, bytes]",
        records: "list[ConsumerRecord[bytes, bytes]]",
    ) -> None:
        await producer.begin_transaction()
        offsets: dict[TopicPartition, OffsetAndMetadata] = {}
        for record in records:
            producer.send(PIPED, record.value, partition=record.partition)
            place = TopicPartition(record.topic, record.partition)
            offsets[place] = OffsetAndMetadata(record.offset + 1)
        await producer.send_offsets(offsets, consumer.group_metadata())
        await producer.commit_transaction()
        self.workload.coverage.note("transition", "piped")


async def audit(workload: "Workload", runtime: SimRuntime) -> None:
    """Read the ledger's new records with read_committed."""
    polled = workload.transactions.polled.setdefault(runtime.name, [])
    async with Consumer(
        bootstrap_servers=workload.cluster.bootstrap,
        runtime=runtime,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        request_timeout_ms=2000,
    ) as consumer:
        workload.started_count += 1
        count = workload.partition_counts[LEDGER]
        consumer.assign([TopicPartition(LEDGER, index) for index in range(count)])
        while not workload.stopping:
            for record in await consumer.poll(timeout_ms=500):
                place: Partition = (record.topic, record.partition)
                polled.append((place, record.offset, bytes(record.value or b"")))


async def read_committed(workload: "Workload", runtime: SimRuntime) -> None:
    """Read both topics of transactions from beginning to end, after the last write."""
    partitions = [
        TopicPartition(topic.name, index)
        for topic in workload.ledgers
        for index in range(topic.partitions)
    ]
    common: dict[str, Any] = {
        "bootstrap_servers": workload.cluster.bootstrap,
        "runtime": runtime,
        "request_timeout_ms": 2000,
    }
    async with Consumer(**common) as uncommitted:
        ends = await uncommitted.end_offsets(partitions)
    final = workload.transactions.final
    final.update({(each.topic, each.partition): [] for each in partitions})
    patience = runtime.monotonic_ms() + TIMEOUT_MS + PATIENCE_MS
    async with Consumer(
        **common, auto_offset_reset="earliest", isolation_level="read_committed"
    ) as consumer:
        consumer.assign(partitions)
        for partition, end in ends.items():
            while await consumer.position(partition) < end:
                for record in await consumer.poll(timeout_ms=1000):
                    place = (record.topic, record.partition)
                    final[place].append((record.offset, bytes(record.value or b"")))
                if runtime.monotonic_ms() > patience:
                    at = await consumer.position(partition)
                    workload.world.violation(
                        f"invariant 24: {partition} is committed up to {end}, and a transaction"
                        f" that is open for too long keeps readers at {at}"
                    )


async def read_offsets(
    workload: "Workload", runtime: SimRuntime, group: str, partitions: list[TopicPartition]
) -> dict[Partition, int]:
    """Return the group's committed offsets."""
    async with Consumer(
        bootstrap_servers=workload.cluster.bootstrap,
        runtime=runtime,
        group_id=group,
        enable_auto_commit=False,
        isolation_level="read_committed",  # Not what a transaction is about to change.
        request_timeout_ms=2000,
    ) as consumer:
        found = await consumer.committed(partitions)
    return {
        (each.topic, each.partition): committed.offset
        for each, committed in found.items()
        if committed is not None
    }


async def end(
    workload: "Workload",
    producer: "Producer[bytes, bytes]",
    transaction: Transaction,
    *,
    aborts: bool,
) -> None:
    """Commit or abort, and note what the producer learns of it."""
    note = workload.coverage.note
    try:
        if aborts:
            await producer.abort_transaction()
            transaction.outcome = Outcome.ABORTED
        else:
            await producer.flush()
            await producer.commit_transaction()
            transaction.outcome = Outcome.COMMITTED
    finally:
        note("transition", f"transaction-{transaction.outcome.value}")


def settings(workload: "Workload", runtime: SimRuntime) -> dict[str, Any]:
    """Draw a producer's settings: many send each record as a batch, five in flight."""
    rng = runtime.rng
    return {
        "linger_ms": rng.choice((0, 0, 5)),
        "batch_size": rng.choice((1, 1, 60, 16_384)),
        "bootstrap_servers": workload.cluster.bootstrap,
        "runtime": runtime,
        "transactional_id": runtime.name,
        "transaction_timeout_ms": TIMEOUT_MS,
        "request_timeout_ms": 2000,
        "metadata_max_age_ms": 5000,
    }
