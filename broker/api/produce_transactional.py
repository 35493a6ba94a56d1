"""Transactional Produce: a coordinator confirms the partition before a transaction begins in it.

If the batch's transaction is open in the partition, the batch is appended immediately. Otherwise
the batch waits until the transaction coordinator has confirmed that the partition belongs to the
transaction. The coordinator only verifies this (KIP-890, part 1) or, from version 12 on, adds the
partition, because those clients do not add it themselves (part 2). While it waits, the request
keeps copies of such batches, and needs no task. All batches that the producer sends to the
partition before the answer, in any request and over any connection, wait for the same answer.
"""

import struct
from collections.abc import Mapping
from typing import cast

from ...protocol.errors import ErrorCode
from ...protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ...protocol.records.batch_header import BatchHeader
from ...protocol.types import Buffer, TopicPartition
from ..coordinator.transaction.decisions import AddPartitions
from ..edge import Edge
from ..net.answer import Answer, Call, CallAnswer
from ..partition.intake import may_need_opening
from ..partition.requests import Appended
from ..partition.verification import Verification, Waiting
from .produce_answer import ProduceAnswer

ADDS_PARTITIONS_FROM = 12
ABORTABLE_FROM = 11
"""The first version whose clients know TRANSACTION_ABORTABLE."""
COMES_BACK = (
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.REQUEST_TIMED_OUT,
)
"""Errors of the coordinator that producers do not expect; they get NOT_ENOUGH_REPLICAS instead."""


def handle(call: Call, request: ProduceRequest, transactional_id: str) -> Answer:
    """Append where the transaction is open, and ask the coordinator about the other partitions."""
    answer = TransactionalProduce(call, request, transactional_id)
    for topic in request.topic_data:
        for data in topic.partition_data:
            answer.take(topic, data)
    answer.ask()
    return answer


class _Held:
    """A batch that waits for the coordinator's answer."""

    __slots__ = ("_answer", "_guard", "_place", "records")

    def __init__(
        self, answer: "TransactionalProduce", place: int, records: memoryview, guard: Verification
    ) -> None:
        """`place` is the index of the request's result that is reserved for the batch."""
        self._answer = answer
        self._place = place
        self._guard = guard
        self.records: memoryview | None = records
        """The batch. It is None once the batch is settled or the client is gone."""

    def settle(self, error: ErrorCode) -> None:
        """Append the batch, or refuse it if the coordinator answered with an error."""
        records, self.records = self.records, None
        if records is None:
            return
        if error:
            self._answer.refuse(self._place, error)
        else:
            self._answer.produce.append_held(self._place, records, self._guard)

    def proceed(self) -> None:
        """Wait for the commit, because all batches that waited for the answer are settled."""
        self._answer.proceed(self._place)


class TransactionalProduce(CallAnswer):
    """The answer to a transactional Produce request; some of its batches may await verification.

    `produce` appends the batches and builds the response, after the last batch is settled.
    """

    __slots__ = (
        "_asked",
        "_has_begun",
        "_held",
        "_held_bytes",
        "_held_count",
        "_holds_up",
        "_producer",
        "_transactional_id",
        "produce",
    )

    def __init__(self, call: Call, request: ProduceRequest, transactional_id: str) -> None:
        self.call = call
        self.produce = ProduceAnswer(call, request)
        self._transactional_id = transactional_id
        self._producer: tuple[int, int] | None = None
        """The producer id and epoch, which all batches of a request must share."""
        self._asked: dict[TopicPartition, Verification] = {}
        """The verifications that this request is the first to ask for."""
        self._held: list[_Held] = []
        self._held_bytes = 0
        self._held_count = 0
        """The number of held batches that still wait for the coordinator's answer or their write.
        """
        self._has_begun = False
        """True from `begin` until no batch is held any more."""
        self._holds_up = False
        """True if a worker may have to decompress a held batch; the next request waits for it."""

    @property
    def overlaps(self) -> bool:
        """False while a worker checks a batch, or may have to check one after verification."""
        return not self._holds_up and self.produce.overlaps

    def take(self, topic: TopicProduceData, data: PartitionProduceData) -> None:
        """Append a batch, or hold it until the coordinator has answered."""
        produce = self.produce
        partition = produce.find(topic, data)
        if isinstance(partition, ErrorCode) or data.records is None or partition.leader is None:
            produce.append(topic, data)
            return
        records = cast(memoryview, data.records)
        try:
            header = BatchHeader(records)
        except struct.error:
            produce.append(topic, data)
            return
        if not header.is_transactional or header.producer_id < 0:
            produce.append(topic, data)
            return
        producer = header.producer_id, header.producer_epoch
        self._producer = self._producer or producer
        if producer != self._producer:
            why = "transactional records of more than one producer"
            appended = Appended(ErrorCode.INVALID_PRODUCER_ID_MAPPING, message=why)
            produce.results.append((topic, data, partition, appended))
            return
        guard = partition.needs_verification(
            *producer,
            header.base_sequence,
            raises_epoch=self.call.version >= ADDS_PARTITIONS_FROM,
        )
        if guard is None:
            produce.append(topic, data)
            return
        held = _Held(self, len(produce.results), records, guard)
        self._held.append(held)
        self._held_count += 1
        self._holds_up |= may_need_opening(partition.rules, header)
        if guard.join(held):
            self._asked[TopicPartition(partition.topic, partition.index)] = guard
        produce.results.append((topic, data, partition, Appended()))

    def ask(self) -> None:
        """Ask the coordinator about partitions not asked about yet, and copy held batches."""
        if self._asked:
            self._ask()
        if self._held_count:
            # The records lie in the connection's receive buffer, which is about to be filled again.
            for held in self._held:
                if held.records is not None:
                    held.records = memoryview(bytearray(held.records))
                    self._held_bytes += len(held.records)
            self.call.connection.inbox.hold(self._held_bytes)

    def begin(self) -> None:
        """Begin to wait: written batches as acks requires, held ones for the coordinator."""
        if self._held_count:
            self._has_begun = True
            self.produce.hold()
        self.produce.begin()

    def poll(self) -> list[Buffer] | None:
        """Return the response; None while a batch is held, or an append is not final."""
        return self.produce.poll()

    def cancel(self) -> None:
        """Give up, because the client is gone. Held batches are not appended."""
        for held in self._held:
            held.records = None
        self._has_begun = False
        self._free()
        self.produce.cancel()

    def refuse(self, place: int, error: ErrorCode) -> None:
        """Set the result at `place` to an error instead of an append.

        `error` is translated for the producer.
        """
        topic, data, partition, _ = self.produce.results[place]
        appended = _refused(error, self.call.version)
        self.produce.results[place] = (topic, data, partition, appended)

    def proceed(self, place: int) -> None:
        """Wait until the written batch is final; after the last held one call `release`."""
        self._held_count -= 1
        if not self._has_begun:
            return
        _, _, partition, appended = self.produce.results[place]
        self.produce.wait_for(partition, appended)
        if not self._held_count:
            self._has_begun = False
            self._free()
            self.produce.release()

    def _ask(self) -> None:
        assert self._producer is not None
        producer_id, epoch = self._producer
        edge, guards = self.call.edge, self._asked
        asked = AddPartitions(
            transactional_id=self._transactional_id,
            producer_id=producer_id,
            epoch=epoch,
            partitions=tuple(guards),
        )

        def on_verified(errors: Mapping[TopicPartition, ErrorCode]) -> None:
            _settle(edge, guards, errors)

        adds = self.call.version >= ADDS_PARTITIONS_FROM
        edge.transactions.verify(asked, on_verified, adds=adds)

    def _free(self) -> None:
        """Give back the memory that the connection was charged for the held batches."""
        held, self._held_bytes = self._held_bytes, 0
        self.call.connection.inbox.hold(-held)


def _settle(
    edge: Edge,
    guards: Mapping[TopicPartition, Verification],
    errors: Mapping[TopicPartition, ErrorCode],
) -> None:
    """Append or refuse all batches that wait for these answers of the coordinator.

    Batches of other requests may wait too, even if the request that asked is cancelled.
    """
    settled: list[Waiting] = []
    for name, guard in guards.items():
        error = errors.get(name, ErrorCode.UNKNOWN_SERVER_ERROR)
        for held in guard.answered():
            held.settle(error)
            settled.append(held)
    edge.partitions.write_staged()
    for held in settled:
        held.proceed()


def _refused(error: ErrorCode, version: int) -> Appended:
    """Return the result that the producer gets when the coordinator answered with `error`."""
    if error in COMES_BACK:
        # A retriable error that does not make the producer look for another leader.
        why = f"the partition could not be verified: {error.name}"
        return Appended(ErrorCode.NOT_ENOUGH_REPLICAS, message=why)
    if error is ErrorCode.PRODUCER_FENCED:
        return Appended(ErrorCode.INVALID_PRODUCER_EPOCH)
    if error is ErrorCode.TRANSACTION_ABORTABLE and version < ABORTABLE_FROM:
        error = ErrorCode.INVALID_TXN_STATE
    return Appended(error, message="the partition is not in the transaction")
