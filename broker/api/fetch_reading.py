"""Reads the partitions of one Fetch within its byte limit, and reads changed ones again.

`Reading` owns the answers collected so far, and decides whether they are enough. fetch.py waits for
more data, and fetch_response.py builds the response.
"""

from collections.abc import Callable
from dataclasses import dataclass

from ...protocol.acls import Operation, Resource
from ...protocol.api import ApiKey
from ...protocol.errors import ApiError, ErrorCode
from ...runtime.errors import StorageError
from ...security.audit import Denial
from ...security.authorizer import Rights
from ...storage.log import OffsetOutOfRange
from ..edge import Edge
from ..partition.partition import Partition
from ..partition.requests import FetchAnswer, FetchSpec
from ..replica.selector import NOBODY, nearest
from .fetch_sessions import FetchPartition, Key
from .fetch_watch import FollowerWatch


@dataclass(slots=True)
class Asker:
    """The consumer or follower that fetches, and its limits for the whole fetch."""

    replica_id: int
    is_follower: bool
    """True for a broker that replicates, False for a consumer."""
    broker_epoch: int
    isolation: int
    min_bytes: int
    max_bytes: int
    leader_only: bool
    rack: str = ""
    rack_of: Callable[[int], str | None] | None = None
    """Returns a broker's rack. None unless a consumer may be sent to a nearer replica."""
    rights: Rights | None = None
    """The rights of a consumer; None if it may read everything, as followers may."""
    client: tuple[str, str] = ("", "")
    """The id and the host of a consumer."""
    is_denied: bool = False
    """True if every partition is refused, because the client claims to be a follower but is not."""


class Reading:
    """The partitions of one fetch and the answer of each of them."""

    __slots__ = (
        "_asker",
        "_bytes",
        "_edge",
        "_places",
        "_watch",
        "answers",
        "has_failed",
        "is_final",
        "partitions",
        "sources",
    )

    def __init__(
        self,
        edge: Edge,
        asker: Asker,
        partitions: list[FetchPartition],
        watch: FollowerWatch | None = None,
    ) -> None:
        """`watch` notes each read, and has reported `partitions` as changed; or it is None."""
        self._edge = edge
        self._asker = asker
        self._bytes = 0
        self.has_failed = False
        """True if a storage error was among the answers."""
        self._watch = watch
        self._places: dict[Key, int] | None = None
        self.partitions = partitions
        self.sources = [_source(edge, asker, partition) for partition in partitions]
        self.answers: list[FetchAnswer] = []
        self.is_final = not partitions and watch is None
        """True if an answer, such as an error, must be sent without waiting for more data."""

    def read_all(self) -> None:
        """Read all partitions in order; past the byte limit, answer without records."""
        now_ms = self._edge.runtime.monotonic_ms()
        for place in range(len(self.partitions)):
            self.answers.append(self._read(place, now_ms))

    def read_again(self, places: list[int]) -> None:
        """Read the partitions at these indexes of `partitions` once more."""
        now_ms = self._edge.runtime.monotonic_ms()
        for place in places:
            before = self.answers[place]
            self._bytes -= len(before.records) + before.hidden_bytes
            self.answers[place] = self._read(place, now_ms)

    def read_called(self, called: list[FetchPartition]) -> None:
        """Read partitions that the watch reports, even if this fetch has not read them before."""
        places = self._places
        if places is None:
            places = {asked.key: place for place, asked in enumerate(self.partitions)}
            self._places = places
        again: list[int] = []
        now_ms = self._edge.runtime.monotonic_ms()
        for asked in called:
            place = places.get(asked.key)
            if place is not None:
                self.sources[place] = _source(self._edge, self._asker, asked)
                again.append(place)
                continue
            places[asked.key] = len(self.partitions)
            self.partitions.append(asked)
            self.sources.append(_source(self._edge, self._asker, asked))
            self.answers.append(self._read(len(self.partitions) - 1, now_ms))
        self.read_again(again)

    async def read_cold(self) -> None:
        """Read from disk the records that were not in memory; an error concerns one partition."""
        for answer in self.answers:
            cold, answer.cold = answer.cold, None
            if cold is None:
                continue
            try:
                answer.records = await cold()
            except OffsetOutOfRange:
                # Retention or DeleteRecords removed the records before they were read.
                answer.error = ErrorCode.OFFSET_OUT_OF_RANGE
            except StorageError:
                answer.error, self.has_failed = ErrorCode.KAFKA_STORAGE_ERROR, True
            except ApiError as error:
                answer.error = error.code

    def drop_records(self) -> None:
        """Answer without any records, as if there were none, because of a quota."""
        for answer in self.answers:
            answer.records, answer.cold, answer.aborted = b"", None, ()
        self._bytes = 0

    @property
    def is_for_follower(self) -> bool:
        """True if the data is read to be replicated, not consumed."""
        return self._asker.is_follower

    @property
    def is_enough(self) -> bool:
        """True if the fetch may be answered before its max_wait_ms is over."""
        return self.is_final or self._bytes >= self._asker.min_bytes

    @property
    def held_bytes(self) -> int:
        """Bytes read so far, plus the most that will be read from disk."""
        return self._bytes

    @property
    def is_storage_failure(self) -> bool:
        """True if a consumer's answers contain only disk errors.

        Such a response may be delayed, because an immediate retry would fail again. But if the
        leader has changed, the consumer should retry elsewhere without delay.
        """
        if not self.has_failed or self._asker.is_follower:
            return False
        return all(
            answer.error is ErrorCode.KAFKA_STORAGE_ERROR
            or not (answer.error or len(answer.records) or answer.preferred_read_replica >= 0)
            for answer in self.answers
        )

    @property
    def is_cold(self) -> bool:
        """True if any records must be read from disk first."""
        return any(answer.cold is not None for answer in self.answers)

    def _read(self, place: int, now_ms: int) -> FetchAnswer:
        asked, source = self.partitions[place], self.sources[place]
        # To ask whether it is an ErrorCode, an enum, would take ten times as long.
        if not isinstance(source, Partition):
            self.is_final = True
            self.has_failed |= source is ErrorCode.KAFKA_STORAGE_ERROR
            return FetchAnswer(error=source)
        asker = self._asker
        spec = FetchSpec(
            fetch_offset=asked.fetch_offset,
            max_bytes=max(0, min(asked.max_bytes, asker.max_bytes - self._bytes)),
            replica_id=asker.replica_id,
            broker_epoch=asker.broker_epoch,
            current_leader_epoch=asked.current_leader_epoch,
            last_fetched_epoch=asked.last_fetched_epoch,
            log_start_offset=asked.log_start_offset,
            flushed_offset=asked.flushed_offset,
            isolation=asker.isolation,
            leader_only=asker.leader_only,
        )
        if self._bytes == 0 and spec.max_bytes == 0:
            # However small the limits, a reader must get past its next batch (scenario J-07).
            spec.max_bytes = 1
        nearer = self._nearer(source, asked.fetch_offset)
        if nearer != NOBODY:
            spec.max_bytes = 0
        answer = source.fetch(spec, now_ms)
        if nearer != NOBODY and not answer.error and answer.diverging is None:
            answer.preferred_read_replica = nearer
            self.is_final = True
        if self._bytes and len(answer.records) > asker.max_bytes - self._bytes:
            # A first batch is returned whole, but only one per response may exceed the limit.
            answer.records = b""
        self._bytes += len(answer.records) + answer.hidden_bytes
        if source.traced is not None and not asker.is_follower:
            source.traced.on_fetched(asker.client, asked.fetch_offset, answer.records)
        if self._watch is not None:
            self._watch.on_read(asked, source, answer)
        if (
            answer.error
            or answer.diverging is not None
            or answer.cold is not None
            or answer.high_watermark > asked.known_high_watermark
        ):
            self.is_final = True
            self.has_failed |= answer.error is ErrorCode.KAFKA_STORAGE_ERROR
            if answer.cold is not None:
                self._bytes += spec.max_bytes
        return answer

    def _nearer(self, source: Partition, offset: int) -> int:
        """Return the nearer replica that the consumer should fetch from, or NOBODY."""
        asker = self._asker
        if asker.rack_of is None or source.leader is None:
            return NOBODY
        return nearest(source.leader, offset, asker.rack, asker.rack_of)


def _source(edge: Edge, asker: Asker, partition: FetchPartition) -> Partition | ErrorCode:
    name_or_id, index = partition.key
    if asker.rights is not None and _is_refused(edge, asker, asker.rights, name_or_id):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if isinstance(name_or_id, bytes):
        return edge.partitions.get(name_or_id, index)
    return edge.partitions.find(name_or_id, index)


def _is_refused(edge: Edge, asker: Asker, rights: Rights, name_or_id: bytes | str) -> bool:
    """True if the topic exists, as far as its id shows, and the client may not read it."""
    if asker.is_denied:
        return True
    if isinstance(name_or_id, bytes):
        topic = edge.image.topics.get(name_or_id)
        if topic is None:
            return False
        name_or_id = topic.name
    if rights.may(Operation.READ, Resource.TOPIC, name_or_id):
        return False
    edge.audit.note(rights, Denial(Operation.READ, Resource.TOPIC, name_or_id, ApiKey.FETCH))
    return True
