"""ForwardRecords: Forwarders append batches to partitions led here, each exactly once.

Batches are written immediately, and the request is answered when all are committed, refused or
timed out. A Forwarder sends again what has timed out. Internal topics get nothing.
"""

from ...protocol.errors import ErrorCode
from ...protocol.messages.forward_records import (
    FENCED,
    OFFSET_FORGOTTEN,
    ForwardedBatch,
    ForwardedResult,
    ForwardRecordsRequest,
    ForwardRecordsResponse,
)
from ...protocol.messages.produce import ACKS_ALL
from ...protocol.types import INTERNAL_TOPICS, Buffer
from ..deadlines import Deadline
from ..net.answer import Answer, Call, CallAnswer
from ..partition.forwarded import append_forwarded, fence
from ..partition.partition import Partition
from ..partition.requests import Appended
from ..partition.waiters import Waiter
from .traced import note_append, sender_of

COMMIT_TIMEOUT_MS = 2_500
"""Milliseconds after which an uncommitted batch is answered with REQUEST_TIMED_OUT. The Forwarder
waits longer for the response."""


def handle(call: Call, request: ForwardRecordsRequest) -> Answer:
    """Append or fence each batch; answer when each is committed or refused."""
    answer = Forwarded(call)
    for asked in request.batches:
        answer.write(asked)
    answer.all_written()
    return answer


class Forwarded(CallAnswer):
    """Batches that wait to be committed."""

    __slots__ = ("_deadline", "_is_over", "_waiters", "_waiting", "response")

    def __init__(self, call: Call) -> None:
        super().__init__(call)
        self.response = ForwardRecordsResponse(batches=[])
        # One extra count until all are written, so that no early commit completes the answer.
        self._waiting = 1
        self._waiters: list[Waiter] = []
        self._deadline: Deadline | None = None
        self._is_over = False
        """True after the timeout, from which on results are ignored."""

    def write(self, asked: ForwardedBatch) -> None:
        """Append or fence one batch, and add its result to the response."""
        edge = self.call.edge
        result = ForwardedResult(error_code=ErrorCode.REQUEST_TIMED_OUT)
        self.response.batches.append(result)
        partition = edge.partitions.get(asked.topic_id, asked.partition_index)
        if isinstance(partition, ErrorCode):
            result.error_code = partition
            return
        if partition.topic in INTERNAL_TOPICS:
            # A fence holds without a record, so that the Forwarder gives its plans up.
            if asked.is_fence:
                result.error_code, result.base_offset = ErrorCode.NONE, FENCED
            else:
                result.error_code = ErrorCode.INVALID_REQUEST
            return
        appended = _appended(partition, asked, self.call)
        if appended.error == ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            result.error_code, result.base_offset = ErrorCode.NONE, OFFSET_FORGOTTEN
            return
        self._waiting += 1

        def done() -> None:
            if not self._is_over:
                result.error_code, result.base_offset = appended.error, appended.base_offset
                self._waiting -= 1
                if not self._waiting:
                    self.call.connection.wake()

        deadline_ms = edge.runtime.monotonic_ms() + COMMIT_TIMEOUT_MS
        waiter = partition.when_committed(appended, deadline_ms, done)
        if waiter is not None:
            self._waiters.append(waiter)

    def all_written(self) -> None:
        """Begin to wait for the commits, because all batches are written."""
        self._waiting -= 1
        if self._waiting:
            self._deadline = self.call.edge.deadlines.after(COMMIT_TIMEOUT_MS, self._expire)

    def _expire(self) -> None:
        self._is_over = True
        self._waiting = 0
        self.call.connection.wake()

    def poll(self) -> list[Buffer] | None:
        """Return the response, or None until every batch is committed, refused or timed out."""
        if self._waiting:
            return None
        self.cancel()
        return self.call.frame(self.response)

    def cancel(self) -> None:
        """Stop waiting. Batches that are written stay."""
        if self._deadline is not None:
            self._deadline.cancel()
        for waiter in self._waiters:
            waiter.cancel()


def _appended(partition: Partition, asked: ForwardedBatch, call: Call) -> Appended:
    wall_ms = call.edge.runtime.wall_ms()
    if asked.is_fence:
        return fence(partition, asked.producer_id, asked.base_sequence, wall_ms)
    if asked.records is None:
        return Appended(ErrorCode.INVALID_REQUEST)
    # A copy: the request's own bytes are of the connection's receive buffer.
    batch = memoryview(bytearray(asked.records))
    appended = append_forwarded(partition, batch, wall_ms)
    tracer = partition.host.tracer
    if tracer is not None and (appended.base_offset - 1 ^ appended.last_offset) >> tracer.shift:
        note_append(partition, batch, appended, sender_of(call, ACKS_ALL))
    return appended
