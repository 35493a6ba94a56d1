"""Produce within a transaction: the coordinator is asked before the first batch in a partition.

A batch goes straight into a partition in which its transaction is open. Where it would begin one,
its coordinator first says that the partition belongs to it: asked only (KIP-890, part 1), or told
so, by clients from version 12 on that do not say it themselves (part 2). The request is parked
meanwhile, with copies of those batches, and without a task.
"""

import struct
from collections.abc import Mapping
from typing import NamedTuple, cast

from ...protocol.batch_header import BatchHeader
from ...protocol.errors import ErrorCode
from ...protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ...protocol.types import TopicPartition
from ..net.answer import Answer, Call
from ..partition import Partition
from ..requests import Appended
from ..transaction.decisions import AddPartitions
from ..verification import Verification
from .produce_answer import ProduceAnswer

ADDS_PARTITIONS_FROM = 12
ABORTABLE_FROM = 11
"""Older clients do not know TRANSACTION_ABORTABLE."""
COMES_BACK = (
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.REQUEST_TIMED_OUT,
)
"""Of the coordinator, which producers do not expect here: they get one that they try again on."""


def handle(call: Call, request: ProduceRequest, transactional_id: str) -> Answer:
    """Append to every partition where the transaction is open, ask about the others."""
    answer = TransactionalProduce(call, request, transactional_id)
    for topic in request.topic_data:
        for data in topic.partition_data:
            answer.take(topic, data)
    answer.ask()
    return answer


class _Asked(NamedTuple):
    """A batch that waits for its verification."""

    place: int
    partition: Partition
    records: memoryview
    guard: Verification


class TransactionalProduce(ProduceAnswer):
    """A Produce request of a transactional producer."""

    __slots__ = (
        "_asked",
        "_has_begun",
        "_held_bytes",
        "_is_cancelled",
        "_producer",
        "_transactional_id",
    )

    def __init__(self, call: Call, request: ProduceRequest, transactional_id: str) -> None:
        super().__init__(call, request)
        self._transactional_id = transactional_id
        self._producer: tuple[int, int] | None = None
        """Id and epoch; all batches of a request are one producer's."""
        self._asked: list[_Asked] = []
        self._held_bytes = 0
        self._has_begun = False
        self._is_cancelled = False

    def take(self, topic: TopicProduceData, data: PartitionProduceData) -> None:
        """Append a batch, or note that the coordinator must be asked first."""
        partition = self.find(topic, data)
        if isinstance(partition, ErrorCode) or data.records is None or partition.leader is None:
            self.append(topic, data)
            return
        records = cast(memoryview, data.records)
        try:
            header = BatchHeader(records)
        except struct.error:
            self.append(topic, data)
            return
        if not header.is_transactional or header.producer_id < 0:
            self.append(topic, data)
            return
        producer = header.producer_id, header.producer_epoch
        self._producer = self._producer or producer
        if producer != self._producer:
            why = "transactional records of more than one producer"
            appended = Appended(ErrorCode.INVALID_PRODUCER_ID_MAPPING, message=why)
            self.results.append((topic, data, partition, appended))
            return
        guard = partition.needs_verification(
            *producer,
            header.base_sequence,
            raises_epoch=self.call.version >= ADDS_PARTITIONS_FROM,
        )
        if guard is None:
            self.append(topic, data)
            return
        self._asked.append(_Asked(len(self.results), partition, records, guard))
        self.results.append((topic, data, partition, Appended()))

    def ask(self) -> None:
        """Ask the coordinator about all that need it, in one request."""
        if not self._asked:
            return
        self._ask()
        if self._asked:
            # The records lie in the connection's receive buffer, which is about to be filled again.
            self._asked = [
                each._replace(records=memoryview(bytearray(each.records))) for each in self._asked
            ]
            self._held_bytes = sum(len(each.records) for each in self._asked)
            self.call.edge.load.add(request_bytes=self._held_bytes)

    def begin(self) -> None:
        """What could be appended is written; the rest follows when the coordinator has answered."""
        if not self._asked:
            super().begin()
            return
        self._has_begun = True
        self._waiting = 1
        for _, data, _, _ in self.results:
            data.records = None

    def cancel(self) -> None:
        """The client is gone: what was not appended is not."""
        self._is_cancelled = True
        self._release()
        super().cancel()

    def _ask(self) -> None:
        assert self._producer is not None
        producer_id, epoch = self._producer
        partitions = tuple(TopicPartition(p.topic, p.index) for _, p, _, _ in self._asked)
        asked = AddPartitions(
            transactional_id=self._transactional_id,
            producer_id=producer_id,
            epoch=epoch,
            partitions=partitions,
        )
        adds = self.call.version >= ADDS_PARTITIONS_FROM
        self.call.edge.transactions.verify(asked, self._on_verified, adds=adds)

    def _on_verified(self, errors: Mapping[TopicPartition, ErrorCode]) -> None:
        """The coordinator has answered, perhaps before `ask` returned."""
        if self._is_cancelled:
            return
        asked, self._asked = self._asked, []
        wall_ms = self.call.edge.runtime.wall_ms()
        for place, partition, records, guard in asked:
            topic, data, _, _ = self.results[place]
            name = TopicPartition(partition.topic, partition.index)
            error = errors.get(name, ErrorCode.UNKNOWN_SERVER_ERROR)
            if error:
                appended = _refused(error, self.call.version)
            else:
                appended = partition.append_as_leader(
                    records, acks=self._acks, wall_ms=wall_ms, guard=guard
                )
            self.results[place] = (topic, data, partition, appended)
            self.open_if_needed(place, records, guard)
        self._release()
        if self._has_begun:
            self._waiting = 0
            self.call.edge.partitions.write_staged()
            super().begin()
            self.call.connection.wake()

    def _release(self) -> None:
        self.call.edge.load.add(request_bytes=-self._held_bytes)
        self._held_bytes = 0


def _refused(error: ErrorCode, version: int) -> Appended:
    """What a producer is told where its coordinator has said no."""
    if error in COMES_BACK:
        # Not one that makes the producer look for another leader.
        why = f"the partition could not be verified: {error.name}"
        return Appended(ErrorCode.NOT_ENOUGH_REPLICAS, message=why)
    if error is ErrorCode.PRODUCER_FENCED:
        return Appended(ErrorCode.INVALID_PRODUCER_EPOCH)
    if error is ErrorCode.TRANSACTION_ABORTABLE and version < ABORTABLE_FROM:
        error = ErrorCode.INVALID_TXN_STATE
    return Appended(error, message="the partition is not in the transaction")
