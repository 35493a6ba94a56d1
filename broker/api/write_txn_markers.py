"""WriteTxnMarkers: a coordinator ends transactions in the partitions that this broker leads.

Markers are written immediately, and the request is answered when all are committed. Markers for
`__consumer_offsets` go through the group coordinator, which then applies or drops the offsets of
the transaction. Operators, too, send markers in order to end hanging transactions (KIP-664). No
other internal topic has transactions, so none gets a marker.
"""

from collections.abc import Callable

from ...protocol.errors import ErrorCode
from ...protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ...protocol.types import INTERNAL_TOPICS, Buffer
from ...storage.markers import TransactionMarker
from ..coordinator.keys import GROUPS_TOPIC
from ..deadlines import Deadline
from ..net.answer import Answer, Call, CallAnswer
from ..partition.own_batches import append_marker
from ..partition.requests import Appended
from ..partition.waiters import Waiter

COMMIT_TIMEOUT_MS = 2_500
"""Milliseconds after which an uncommitted marker is answered with REQUEST_TIMED_OUT. The
coordinator waits longer for the response, so that it has to repeat only the slow markers."""


def handle(call: Call, request: WriteTxnMarkersRequest) -> Answer:
    """Write each marker into all its partitions; answer when each is committed or refused.

    A marker that is neither after COMMIT_TIMEOUT_MS has timed out.
    """
    answer = WrittenMarkers(call)
    for asked in request.markers:
        marker = TransactionMarker(
            asked.producer_id,
            asked.producer_epoch,
            asked.coordinator_epoch,
            is_commit=asked.transaction_result,
            transaction_version=asked.transaction_version,
        )
        result = WritableTxnMarkerResult(producer_id=asked.producer_id, topics=[])
        answer.response.markers.append(result)
        for topic in asked.topics:
            found = WritableTxnMarkerTopicResult(name=topic.name, partitions=[])
            result.topics.append(found)
            for index in topic.partition_indexes:
                each = WritableTxnMarkerPartitionResult(partition_index=index)
                found.partitions.append(each)
                answer.write(marker, topic.name, each)
    answer.all_written()
    return answer


class WrittenMarkers(CallAnswer):
    """Markers that wait to be committed."""

    __slots__ = ("_deadline", "_is_over", "_waiters", "_waiting", "response")

    def __init__(self, call: Call) -> None:
        super().__init__(call)
        self.response = WriteTxnMarkersResponse(markers=[])
        # One extra count until all are written, so that no early commit completes the answer.
        self._waiting = 1
        self._waiters: list[Waiter] = []
        self._deadline: Deadline | None = None
        self._is_over = False
        """True after the timeout, from which on results are ignored."""

    def write(
        self, marker: TransactionMarker, topic: str, result: WritableTxnMarkerPartitionResult
    ) -> None:
        """Write one marker into one partition and note its error in `result`."""
        done = self._wait(result)
        if topic == GROUPS_TOPIC:
            self.call.edge.groups.complete_transaction(result.partition_index, marker, done)
            return
        if topic in INTERNAL_TOPICS:
            done(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            return
        edge = self.call.edge
        partition = edge.partitions.find(topic, result.partition_index)
        if isinstance(partition, ErrorCode):
            done(partition)
            return
        appended = append_marker(partition, marker, edge.runtime.wall_ms())
        deadline_ms = edge.runtime.monotonic_ms() + COMMIT_TIMEOUT_MS
        waiter = partition.when_committed(appended, deadline_ms, _tell(done, appended))
        if waiter is not None:
            self._waiters.append(waiter)

    def all_written(self) -> None:
        """Begin to wait for the commits, because all markers are written."""
        self._waiting -= 1
        if self._waiting:
            self._deadline = self.call.edge.deadlines.after(COMMIT_TIMEOUT_MS, self._expire)

    def _wait(self, result: WritableTxnMarkerPartitionResult) -> Callable[[ErrorCode], None]:
        self._waiting += 1
        result.error_code = ErrorCode.REQUEST_TIMED_OUT

        def done(error: ErrorCode) -> None:
            if self._is_over:
                return
            result.error_code = error
            self._waiting -= 1
            if not self._waiting:
                self.call.connection.wake()

        return done

    def _expire(self) -> None:
        self._is_over = True
        self._waiting = 0
        self.call.connection.wake()

    def poll(self) -> list[Buffer] | None:
        """Return the response, or None until every marker is committed, refused or timed out."""
        if self._waiting:
            return None
        self.cancel()
        return self.call.frame(self.response)

    def cancel(self) -> None:
        """Stop waiting. Markers that are written stay."""
        if self._deadline is not None:
            self._deadline.cancel()
        for waiter in self._waiters:
            waiter.cancel()


def _tell(done: Callable[[ErrorCode], None], appended: Appended) -> Callable[[], None]:
    return lambda: done(appended.error)
