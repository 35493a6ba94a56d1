"""Recognises, without decoding, Produce requests that differ from an earlier one only in records.

A producer sends the same request again and again, with the same client, topic, partition and acks,
and other records. The bytes of such a request before its records are compared with those of the
earlier request, which costs a third of decoding. All responses without errors differ only in their
offsets and times. Both patterns are cut out of bytes that the codec has decoded or encoded, so that
only the codec knows the formats.
"""

import struct
from dataclasses import dataclass

from ...protocol.acls import Operation, Resource
from ...protocol.api import ApiKey
from ...protocol.codec import decode_request_header, frame_response
from ...protocol.messages.produce import (
    ACKS_ALL,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from ...protocol.primitives import read_uvarint
from ...protocol.records.batch_header import is_transactional
from ...protocol.types import Buffer
from ...security.authorizer import Rights
from ..net.answer import Answer, Call
from ..net.connection import Connection
from ..partition.intake import NamesTargets, NeedsOpening
from ..partition.partition import Partition
from ..partition.requests import Appended
from ..partition.waiters import Waiter
from ..tracing.tracer import Sender
from .produce_answer import TOPIC_IDS_FROM, ProduceAnswer
from .traced import note_append

CLIENT_ID_AT = 8
FLEXIBLE_FROM = 9
FIRST_VERSION = 5
"""The first version that is recognised; older responses lack the log start offset."""
TAGS_BYTES = 3
"""The number of zero bytes at the end of a flexible request: the empty tags of its partition, its
topic and the request."""
PATTERNS_MAX = 64
PATTERN_BYTES_MAX = 1024
"""The most bytes of a pattern: a client's id and a topic's name may have 32 KiB each, and the topic
need not exist."""
PRODUCE = int(ApiKey.PRODUCE)
_HEAD = struct.Struct(">ii")
"""API key and version as one number, then the correlation id."""
_LENGTH = struct.Struct(">i")
_NUMBERS = (0x1122334455667788, 0x2233445566778899, 0x33445566778899AA)


@dataclass(frozen=True, slots=True)
class Pattern:
    """A request without its records, and its response without its offsets and time."""

    head: int
    version: int
    acks: int
    is_flexible: bool
    request: ProduceRequest
    topic: TopicProduceData
    data: PartitionProduceData
    client_id: str | None
    response: struct.Struct
    response_size: int
    response_start: bytes
    response_end: bytes

    def frame(self, correlation_id: int, appended: Appended) -> bytes:
        """Return the encoded response to an append that succeeded."""
        return self.response.pack(
            self.response_size,
            correlation_id,
            self.response_start,
            appended.base_offset,
            appended.log_append_time_ms,
            appended.log_start_offset,
            self.response_end,
        )


class RepeatedProduce(Answer):
    """The answer to a Produce request to one partition that was recognised, not decoded."""

    __slots__ = (
        "_appended",
        "_connection",
        "_correlation_id",
        "_holds",
        "_partition",
        "_pattern",
        "_waiter",
    )

    overlaps = True
    """Always True, because the next Produce need not wait for this one."""

    def __init__(
        self,
        connection: Connection,
        correlation_id: int,
        pattern: Pattern,
        partition: Partition,
        appended: Appended,
    ) -> None:
        self._connection = connection
        self._correlation_id = correlation_id
        self._pattern = pattern
        self._partition = partition
        self._appended = appended
        self._holds = 0
        self._waiter: Waiter | None = None

    def begin(self) -> None:
        """Begin to wait until the append is final as acks requires; its batch is written."""
        acks, partition = self._pattern.acks, self._partition
        if acks != ACKS_ALL and not (acks and partition.role.metadata.group_flush):
            return
        if self._appended.error:
            return
        timeout_ms = max(self._pattern.request.timeout_ms, 0)
        deadline_ms = self._connection.edge.runtime.monotonic_ms() + timeout_ms
        # One extra count until the wait has begun, so that a result at once wakes nobody.
        self._holds = 2
        if acks == ACKS_ALL:
            self._waiter = partition.when_committed(self._appended, deadline_ms, self._on_done)
        else:
            when_flushed = partition.host.group_flush.when_flushed
            self._waiter = when_flushed(partition, self._appended, deadline_ms, self._on_done)
        self._holds -= 1

    def _on_done(self) -> None:
        self._holds -= 1
        if not self._holds:
            self._connection.wake()

    def poll(self) -> list[Buffer] | None:
        """Return the response, or None while the append is not final.

        It is made from the pattern if the append succeeded and acks is not 0.
        """
        if self._holds:
            return None
        pattern = self._pattern
        appended, connection = self._appended, self._connection
        charging = connection.charging
        is_muted = charging is not None and charging.is_muted
        if appended.error or not pattern.acks or is_muted:
            call = Call(connection.edge, connection, pattern.version, self._correlation_id, None)
            usual = ProduceAnswer(call, pattern.request)
            usual.results.append((pattern.topic, pattern.data, self._partition, appended))
            return usual.poll()
        if pattern.acks != ACKS_ALL and connection.edge.lease.is_required:
            connection.rest_on_lease()
        return [pattern.frame(self._correlation_id, appended)]

    def cancel(self) -> None:
        """Stop waiting, because the client is gone."""
        if self._waiter is not None:
            self._waiter.cancel()


class Patterns:
    """The Produce requests that one connection has sent and may repeat."""

    __slots__ = ("_known", "_sizes")

    def __init__(self) -> None:
        self._known: dict[bytes, Pattern] = {}
        self._sizes: list[int] = []

    def answer(self, connection: Connection, frame: memoryview) -> RepeatedProduce | None:
        """Append the records of a frame that repeats a request; None if it must be decoded."""
        for size in self._sizes:
            pattern = self._known.get(bytes(frame[CLIENT_ID_AT:size]))
            if pattern is None:
                continue
            head, correlation_id = _HEAD.unpack_from(frame)
            if head != pattern.head:
                continue
            records = _records(frame, size, pattern)
            if records is None:
                return None
            partitions = connection.edge.partitions
            if pattern.version >= TOPIC_IDS_FROM:
                partition = partitions.get(pattern.topic.topic_id, pattern.data.index)
            else:
                partition = partitions.find(pattern.topic.name, pattern.data.index)
            if not isinstance(partition, Partition) or partition.staging.throttle_ms:
                return None  # Once decoded, it is refused, or its sender is held back.
            authorizer = connection.edge.authorizer
            if authorizer is not None and not _may_repeat(
                connection.session.rights_by(authorizer, connection.host), partition, records
            ):
                return None  # Once decoded, it is refused.
            try:
                appended = partition.append_as_leader(records, pattern.acks, connection.wall_ms)
            except (NeedsOpening, NamesTargets):
                return None  # Once decoded, the batch is sent to a worker, or its targets judged.
            tracer = partition.host.tracer
            if (
                tracer is not None
                and (appended.base_offset - 1 ^ appended.last_offset) >> tracer.shift
            ):
                host, principal = connection.host, connection.session.principal
                sender = Sender(pattern.client_id, host, principal, pattern.acks)
                note_append(partition, records, appended, sender)
            if connection.charging is not None:
                connection.charging.on_request(PRODUCE, pattern.client_id, len(frame))
            return RepeatedProduce(connection, correlation_id, pattern, partition, appended)
        return None

    def learn(self, frame: memoryview, version: int, request: ProduceRequest) -> None:
        """Remember a decoded request if it has one partition and no transactional id."""
        if version < FIRST_VERSION or len(request.topic_data) != 1:
            return
        (topic,) = request.topic_data
        if len(topic.partition_data) != 1 or request.transactional_id is not None:
            return  # A transaction may have to be verified first.
        (data,) = topic.partition_data
        if data.records is None:
            return
        is_flexible = version >= FLEXIBLE_FROM
        size = len(frame) - len(data.records) - (TAGS_BYTES if is_flexible else 0)
        size -= _length_bytes(len(data.records) + 1) if is_flexible else 4
        if size - CLIENT_ID_AT > PATTERN_BYTES_MAX:
            return
        pattern = _pattern(frame, version, request, is_flexible=is_flexible)
        if _records(frame, size, pattern) != data.records:
            return
        if len(self._known) >= PATTERNS_MAX:
            self._known.clear()
            self._sizes.clear()
        self._known[bytes(frame[CLIENT_ID_AT:size])] = pattern
        if size not in self._sizes:
            self._sizes.append(size)
        # The records lie in the connection's receive buffer, so keep nothing of them.
        data.records = b""


def _may_repeat(rights: Rights, partition: Partition, records: memoryview) -> bool:
    """True if the client may write to the topic, and the batch is in no transaction."""
    may_write = rights.may(Operation.WRITE, Resource.TOPIC, partition.topic)
    return may_write and not is_transactional(records)


def _records(frame: memoryview, size: int, pattern: Pattern) -> memoryview | None:
    """Return the records if nothing else follows the recognised part, else None."""
    end = len(frame)
    if pattern.is_flexible:
        if size + 8 > end or frame[end - 1] or frame[end - 2] or frame[end - 3]:
            return None
        try:
            length, start = read_uvarint(frame, size)
        except ValueError:
            # The decoder will refuse it.
            return None
        end -= TAGS_BYTES
        length -= 1
    else:
        start = size + 4
        if start > end:
            return None
        (length,) = _LENGTH.unpack_from(frame, size)
    return frame[start:end] if length == end - start else None


def _pattern(
    frame: memoryview, version: int, request: ProduceRequest, *, is_flexible: bool
) -> Pattern:
    (topic,) = request.topic_data
    (data,) = topic.partition_data
    base_offset, append_time, log_start = _NUMBERS
    produced = PartitionProduceResponse(
        index=data.index,
        base_offset=base_offset,
        log_append_time_ms=append_time,
        log_start_offset=log_start,
    )
    answered = TopicProduceResponse(
        name=topic.name, topic_id=topic.topic_id, partition_responses=[produced]
    )
    response = b"".join(frame_response(ProduceResponse(responses=[answered]), version, 0))
    start, end = response[8:].split(struct.pack(">qqq", *_NUMBERS))
    return Pattern(
        head=_HEAD.unpack_from(frame)[0],
        version=version,
        acks=request.acks,
        is_flexible=is_flexible,
        request=request,
        topic=topic,
        data=data,
        client_id=decode_request_header(frame)[0].client_id,
        response=struct.Struct(f">ii{len(start)}sqqq{len(end)}s"),
        response_size=len(response) - 4,
        response_start=start,
        response_end=end,
    )


def _length_bytes(value: int) -> int:
    return max(1, -(-value.bit_length() // 7))
