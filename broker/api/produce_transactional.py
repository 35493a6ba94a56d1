"""Produce within a transaction: the coordinator is asked before the first batch in a partition.

A batch goes straight into a partition in which its transaction is open. Before a batch that would
begin a transaction there, the coordinator confirms that the partition belongs to it: it is only
asked (KIP-890, part 1), or it adds the partition, for clients from version 12 on that do not add it
themselves (part 2). The request is parked meanwhile, with copies of those batches, and without a
task. Whatever the producer sends there before the answer, in other requests and over other
connections, queues behind: one question for all.
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
"""Older clients do not know TRANSACTION_ABORTABLE."""
COMES_BACK = (
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.REQUEST_TIMED_OUT,
)
"""Errors of the coordinator that producers do not expect here; they get a retriable one."""


def handle(call: Call, request: ProduceRequest, transactional_id: str) -> Answer:
    """Append to every partition where the transaction is open, ask about the others."""
    answer = TransactionalProduce(call, request, transactional_id)
    for topic in request.topic_data:
        for data in topic.partition_data:
            answer.take(topic, data)
    answer.ask()
    return answer


class _Held:
    """A batch that waits for its verification."""

    __slots__ = ("_answer", "_guard", "_place", "records")

    def __init__(
        self, answer: "TransactionalProduce", place: int, records: memoryview, guard: Verification
    ) -> None:
        """`place` is kept for it among the results of the request."""
        self._answer = answer
        self._place = place
        self._guard = guard
        self.records: memoryview | None = records
        """None once the batch is settled, or the client is gone."""

    def settle(self, error: ErrorCode) -> None:
        """Be appended, or refused for this reason."""
        records, self.records = self.records, None
        if records is None:
            return
        if error:
            self._answer.refuse(self._place, error)
        else:
            self._answer.produce.append_held(self._place, records, self._guard)

    def proceed(self) -> None:
        """All that waited for the same answer is written."""
        self._answer.proceed(self._place)


class TransactionalProduce(CallAnswer):
    """A Produce request of a transactional producer; some of its batches may await verification.

    `produce` appends the batches and answers the request. The answer waits for the last batch.
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
        """Producer id and epoch; all batches of a request are one producer's."""
        self._asked: dict[TopicPartition, Verification] = {}
        """The verifications that this request is the first to ask for."""
        self._held: list[_Held] = []
        self._held_bytes = 0
        self._held_count = 0
        """How many of `_held` have no answer yet, or are not written."""
        self._has_begun = False
        """True if the request is parked until they have an answer."""
        self._holds_up = False
        """True if a worker may have to open a held batch: no request may start behind it."""

    @property
    def overlaps(self) -> bool:
        """False while a batch is opened, or may have to be once it is verified."""
        return not self._holds_up and self.produce.overlaps

    def take(self, topic: TopicProduceData, data: PartitionProduceData) -> None:
        """Append a batch, or have it wait for what its coordinator says."""
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
        """Ask the coordinator, in one request, about all partitions not asked about yet."""
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
        """Begin to wait: what could be appended is written, the rest waits for the coordinator."""
        if self._held_count:
            self._has_begun = True
            self.produce.hold()
        self.produce.begin()

    def poll(self) -> list[Buffer] | None:
        """Answer once nothing is held and everything is final for what acks asks."""
        return self.produce.poll()

    def cancel(self) -> None:
        """Give up: the client is gone. Batches that were not appended stay out."""
        for held in self._held:
            held.records = None
        self._has_begun = False
        self._free()
        self.produce.cancel()

    def refuse(self, place: int, error: ErrorCode) -> None:
        """Refuse the batch in this place with the error that its producer expects for `error`."""
        topic, data, partition, _ = self.produce.results[place]
        appended = _refused(error, self.call.version)
        self.produce.results[place] = (topic, data, partition, appended)

    def proceed(self, place: int) -> None:
        """Wait for the batch that was written in this place; release when none is held."""
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
    """Pass on the coordinator's answers, which may come before the question returned.

    The request that asked may be gone by now: others may still wait for the answer.
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
    """Return the producer's result after the coordinator has refused."""
    if error in COMES_BACK:
        # Not one that makes the producer look for another leader.
        why = f"the partition could not be verified: {error.name}"
        return Appended(ErrorCode.NOT_ENOUGH_REPLICAS, message=why)
    if error is ErrorCode.PRODUCER_FENCED:
        return Appended(ErrorCode.INVALID_PRODUCER_EPOCH)
    if error is ErrorCode.TRANSACTION_ABORTABLE and version < ABORTABLE_FROM:
        error = ErrorCode.INVALID_TXN_STATE
    return Appended(error, message="the partition is not in the transaction")
