"""DeleteRecords: raise the log start of partitions led here.

The request is answered when all live replicas have raised their log start as well, or after its
timeout. The wait makes sure that a change of leader brings no deleted record back (KIP-107).
"""

from dataclasses import dataclass

from ...protocol.api import ApiKey
from ...protocol.errors import ErrorCode
from ...protocol.messages.delete_records import (
    NO_LOW_WATERMARK,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from ...protocol.types import INTERNAL_TOPICS, Buffer
from ..audit.happenings import Change
from ..deadlines import Deadline
from ..net.answer import Answer, Call, CallAnswer
from ..partition.log_starts import delete_before, low_watermark
from ..partition.partition import Partition
from .acted import tell


@dataclass(slots=True)
class Waiting:
    """One partition that waits for replicas to raise their log start."""

    partition: Partition
    start: int
    leader_epoch: int
    result: DeleteRecordsPartitionResult


def handle(call: Call, request: DeleteRecordsRequest) -> DeleteRecordsResponse | Answer:
    """Raise the log start of each partition, then wait for its followers."""
    response = DeleteRecordsResponse(topics=[])
    waiting: list[Waiting] = []
    changes: list[Change] = []
    for topic in request.topics:
        answered = DeleteRecordsTopicResult(name=topic.name, partitions=[])
        response.topics.append(answered)
        for asked in topic.partitions:
            result = DeleteRecordsPartitionResult(partition_index=asked.partition_index)
            answered.partitions.append(result)
            found = _find(call, topic.name, asked.partition_index)
            old = 0 if isinstance(found, ErrorCode) else found.log_start_offset
            start = found if isinstance(found, ErrorCode) else delete_before(found, asked.offset)
            if isinstance(found, ErrorCode) or isinstance(start, ErrorCode):
                result.error_code = ErrorCode(start)
                continue
            call.edge.partitions.host.moved[found] = None  # Its new start must be checkpointed.
            waiting.append(Waiting(found, start, found.leader_epoch, result))
            if start > old:
                name = f"partition/{topic.name}-{asked.partition_index}"
                changes.append(Change(name, "log start", str(old), str(start)))
    tell(call, ApiKey.DELETE_RECORDS, changes)
    return DeletedRecords(call, response, waiting).settled(request.timeout_ms)


def _find(call: Call, topic: str, index: int) -> Partition | ErrorCode:
    if topic in INTERNAL_TOPICS:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    return call.edge.partitions.find(topic, index)


class DeletedRecords(CallAnswer):
    """An answer that waits until followers have raised their log starts."""

    __slots__ = ("_deadline", "_is_expired", "_response", "_waiting")

    is_follower = True
    """True, so that `note` is called when a follower reports its log start."""

    def __init__(self, call: Call, response: DeleteRecordsResponse, waiting: list[Waiting]) -> None:
        super().__init__(call)
        self._response = response
        self._waiting = waiting
        self._deadline: Deadline | None = None
        self._is_expired = False

    def settled(self, timeout_ms: int) -> DeleteRecordsResponse | Answer:
        """Return the response if no replica must be waited for; else this answer, which waits."""
        self._look()
        if not self._waiting:
            return self._response
        for each in self._waiting:
            each.partition.data_waiters.add(self)
        self._deadline = self.call.edge.deadlines.after(max(timeout_ms, 0), self._on_expired)
        return self

    def on_data(self, partition: Partition) -> None:
        """Have the connection poll, because the partition's role may have changed."""
        self.call.connection.wake()

    def note(self, partition: Partition) -> None:
        """Have the connection poll, because a follower may have raised its log start."""
        self.call.connection.wake()

    def poll(self) -> list[Buffer] | None:
        """Return the response once all logs begin late enough or at the timeout, else None."""
        self._look()
        if self._waiting and not self._is_expired:
            return None
        for each in self._waiting:
            each.result.error_code = ErrorCode.REQUEST_TIMED_OUT
        self.cancel()
        return self.call.frame(self._response)

    def cancel(self) -> None:
        """Stop waiting."""
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            each.partition.data_waiters.remove(self)
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _look(self) -> None:
        """Set the result of each partition whose wait is over."""
        live = {broker.broker_id: None for broker in self.call.edge.whereabouts.live_brokers()}
        still: list[Waiting] = []
        for each in self._waiting:
            partition = each.partition
            if partition.leader is None or partition.leader_epoch != each.leader_epoch:
                each.result.low_watermark = NO_LOW_WATERMARK
                error = partition.offline_because or ErrorCode.NOT_LEADER_OR_FOLLOWER
                each.result.error_code = error
            elif (least := low_watermark(partition, live)) >= each.start:
                each.result.low_watermark = least
            else:
                still.append(each)
                continue
            partition.data_waiters.remove(self)
        self._waiting = still

    def _on_expired(self) -> None:
        self._deadline = None
        self._is_expired = True
        self.call.connection.wake()
