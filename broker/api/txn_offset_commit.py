"""TxnOffsetCommit: offsets that take effect when their transaction commits.

Before the first offsets of a transaction are written to a partition of `__consumer_offsets`, the
transaction coordinator confirms that the partition belongs to the transaction, as for Produce. The
coordinator only verifies this (KIP-890, part 1) or, from version 5 on, adds the partition, because
those clients do not add it themselves (part 2).
"""

from collections.abc import Mapping

from ...protocol.errors import ErrorCode
from ...protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from ...protocol.records.records import NO_SEQUENCE
from ...protocol.types import TopicPartition
from ..coordinator.group.commits import Commit, NewOffset
from ..coordinator.group.values import Who
from ..coordinator.keys import GROUPS_TOPIC
from ..coordinator.transaction.decisions import AddPartitions
from ..net.answer import Answer, Call
from ..partition.verification import Verification
from .offset_commit import has_partition
from .parked import Parked

ABORTABLE_FROM = 4
"""The first version whose clients know TRANSACTION_ABORTABLE."""
ADDS_PARTITIONS_FROM = 5
COMES_BACK = (
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.REQUEST_TIMED_OUT,
)
"""Errors of the transaction coordinator that the client would attribute to the group
coordinator."""


def handle(call: Call, request: TxnOffsetCommitRequest) -> Answer:
    """Commit offsets of partitions that exist; each partition has its own result."""
    return _Committing(call, request).begin()


class _Committing:
    """One request, which may have to wait for the transaction coordinator's confirmation."""

    def __init__(self, call: Call, request: TxnOffsetCommitRequest) -> None:
        self._call = call
        self._request = request
        self._answer = Parked(call)
        self._response = TxnOffsetCommitResponse(topics=[])
        self._offsets: list[NewOffset] = []
        self._results: list[TxnOffsetCommitResponsePartition] = []
        """The results of `_offsets`, which `_done` fills in."""
        for topic in request.topics:
            answered = TxnOffsetCommitResponseTopic(name=topic.name, partitions=[])
            self._response.topics.append(answered)
            for partition in topic.partitions:
                index = partition.partition_index
                result = TxnOffsetCommitResponsePartition(partition_index=index)
                answered.partitions.append(result)
                if not has_partition(call.edge, topic.name, index):
                    result.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                    continue
                self._results.append(result)
                self._offsets.append(
                    NewOffset(
                        topic.name,
                        index,
                        partition.committed_offset,
                        partition.committed_leader_epoch,
                        partition.committed_metadata or "",
                    )
                )

    def begin(self) -> Answer:
        """Commit the offsets, after the transaction coordinator's confirmation if it is needed."""
        request, edge = self._request, self._call.edge
        group_id = request.group_id
        shard = edge.groups.shards.of(group_id) if group_id else ErrorCode.INVALID_GROUP_ID
        if isinstance(shard, ErrorCode):
            self._done(shard, [])
            return self._answer
        adds = self._call.version >= ADDS_PARTITIONS_FROM
        guard = shard.partition.needs_verification(
            request.producer_id, request.producer_epoch, NO_SEQUENCE, raises_epoch=adds
        )
        if guard is None or not self._offsets:
            self._commit(None)
            return self._answer
        place = TopicPartition(GROUPS_TOPIC, shard.index)
        asked = AddPartitions(
            transactional_id=request.transactional_id,
            producer_id=request.producer_id,
            epoch=request.producer_epoch,
            partitions=(place,),
        )

        def verified(errors: Mapping[TopicPartition, ErrorCode]) -> None:
            error = errors.get(place, ErrorCode.UNKNOWN_SERVER_ERROR)
            if error:
                self._done(self._refusal(error), [])
            else:
                self._commit(guard)

        edge.transactions.verify(asked, verified, adds=adds)
        return self._answer

    def _commit(self, guard: Verification | None) -> None:
        request = self._request
        commit = Commit(
            group_id=request.group_id,
            who=Who(request.member_id, request.group_instance_id),
            generation=request.generation_id,
            offsets=self._offsets,
            producer=(request.producer_id, request.producer_epoch),
        )
        self._call.edge.groups.commit(commit, self._done, guard)

    def _done(self, error: ErrorCode, errors: list[ErrorCode]) -> None:
        results = self._results
        for result, own in zip(results, errors or [error] * len(results), strict=True):
            result.error_code = own or error
        self._answer.finish(self._response)

    def _refusal(self, error: ErrorCode) -> ErrorCode:
        if error in COMES_BACK:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        if error is ErrorCode.TRANSACTION_ABORTABLE and self._call.version < ABORTABLE_FROM:
            return ErrorCode.INVALID_TXN_STATE
        return error
