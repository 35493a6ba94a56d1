"""WriteTxnMarkers: a coordinator ends transactions in the partitions that this broker leads.

Each marker is written at once and answered when it is committed. Those of group offsets go through
the group coordinator, for which they decide about commits that it holds back. Operators send them,
too, to end what hangs (KIP-664).
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
from ...protocol.types import Buffer
from ...storage.markers import TransactionMarker
from ..coordinator.keys import GROUPS_TOPIC
from ..net.answer import Answer, Call
from ..requests import Appended
from ..waiters import Waiter

COMMIT_TIMEOUT_MS = 30_000


def handle(call: Call, request: WriteTxnMarkersRequest) -> Answer:
    """Write every marker wherever it is to be written."""
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


class WrittenMarkers(Answer):
    """Markers that wait to be committed."""

    __slots__ = ("_waiters", "_waiting", "response")

    def __init__(self, call: Call) -> None:
        super().__init__(call)
        self.response = WriteTxnMarkersResponse(markers=[])
        # Held by one until all are written, so that none completes the whole too early.
        self._waiting = 1
        self._waiters: list[Waiter] = []

    def write(
        self, marker: TransactionMarker, topic: str, result: WritableTxnMarkerPartitionResult
    ) -> None:
        """Write one marker into one partition; its error is noted in `result`."""
        done = self._wait(result)
        if topic == GROUPS_TOPIC:
            self.call.edge.groups.complete_transaction(result.partition_index, marker, done)
            return
        edge = self.call.edge
        partition = edge.partitions.find(topic, result.partition_index)
        if isinstance(partition, ErrorCode):
            done(partition)
            return
        appended = partition.append_marker(marker, edge.runtime.wall_ms())
        deadline_ms = edge.runtime.monotonic_ms() + COMMIT_TIMEOUT_MS
        waiter = partition.when_committed(appended, deadline_ms, _tell(done, appended))
        if waiter is not None:
            self._waiters.append(waiter)

    def all_written(self) -> None:
        """Nothing more is to be written."""
        self._waiting -= 1

    def _wait(self, result: WritableTxnMarkerPartitionResult) -> Callable[[ErrorCode], None]:
        self._waiting += 1

        def done(error: ErrorCode) -> None:
            result.error_code = error
            self._waiting -= 1
            if not self._waiting:
                self.call.connection.wake()

        return done

    def poll(self) -> list[Buffer] | None:
        """Answer once every marker is committed or refused."""
        return None if self._waiting else self.call.frame(self.response)

    def cancel(self) -> None:
        """The coordinator is gone; what is written stays."""
        for waiter in self._waiters:
            waiter.cancel()


def _tell(done: Callable[[ErrorCode], None], appended: Appended) -> Callable[[], None]:
    return lambda: done(appended.error)
