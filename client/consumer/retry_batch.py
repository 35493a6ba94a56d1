"""The records of one poll, and what becomes of each: done, waits for a retry, or a dead letter.

Pure. All of them are settled together, with the offsets up to which their partitions are read. If a
record can be moved nowhere, its partition ends before it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ...protocol.records.record_batch import Headers
from ...protocol.types import TopicPartition
from ..records import ConsumerRecord
from .retry_headers import (
    Failure,
    Origin,
    behind_headers,
    dead_letter_headers,
    retry_headers,
    truncated,
)
from .retry_order import Changes, Outcome, Place
from .retry_policy import RetryTopics

Raw = ConsumerRecord[bytes, bytes]


@dataclass(frozen=True, slots=True)
class Move:
    """A record that is written to another topic."""

    record: Raw
    topic: str
    headers: Headers
    value: bytes | None
    failure: Failure | None = None
    """The failure; None if the record was not handled, because it follows another of its key."""
    is_dead: bool = False
    lane: int | None = None
    """The partition it is written to; None for that of its key."""
    due_ms: int = 0

    @property
    def partition(self) -> TopicPartition:
        """The partition that the record was read from."""
        return self.record.topic_partition

    @property
    def outcome(self) -> Outcome:
        """The fate of the record, for the order of its key."""
        if self.failure is None:
            return Outcome.BEHIND
        return Outcome.DONE if self.is_dead else Outcome.FAILED


def move_of(
    record: Raw, failure: Failure, wait_ms: int | None, topics: RetryTopics, place: Place | None
) -> Move:
    """Return where a record goes that has failed, to wait so long; None for a dead letter."""
    if wait_ms is None:
        return _buried(record, failure, topics)
    due_ms = failure.at_ms + wait_ms
    headers = retry_headers(record.headers, failure, due_ms, place.to_header() if place else "")
    lane = record.partition if place else None
    return Move(record, topics.retry, headers, record.value, failure, lane=lane, due_ms=due_ms)


def move_behind(record: Raw, group: str, due_ms: int, topics: RetryTopics, place: Place) -> Move:
    """Return where a record goes that follows another one of its key."""
    headers = behind_headers(record.headers, Origin(*record[:3], group), due_ms, place.to_header())
    lane = record.partition
    return Move(record, topics.retry, headers, record.value, lane=lane, due_ms=due_ms)


def smaller(move: Move, topics: RetryTopics) -> Move | None:
    """Return what is written in place of a record that is too large; None if nothing is left.

    A retry becomes a dead letter, and a dead letter loses its value. What was not handled yet
    becomes neither.
    """
    if move.failure is None:
        return None
    if not move.is_dead:
        return _buried(move.record, move.failure, topics)
    if move.value is None:
        return None
    return replace(move, value=None, headers=truncated(move.headers))


def buried(move: Move, topics: RetryTopics) -> Move | None:
    """Return the dead letter in place of a retry that its topic refuses; None if it is none."""
    if move.failure is None or move.is_dead:
        return None
    return _buried(move.record, move.failure, topics)


def _buried(record: Raw, failure: Failure, topics: RetryTopics) -> Move:
    headers = dead_letter_headers(record.headers, failure)
    return Move(record, topics.dead_letters, headers, record.value, failure, is_dead=True)


class Batch:
    """The records of one poll, with what becomes of each of them.

    Without an order of keys each partition is settled by itself, else each lane: partition n of all
    topics.
    """

    def __init__(self, records: Sequence[Raw], *, has_lanes: bool = False) -> None:
        self.records = records
        self.goes_singly = False
        """True once records are written each in a batch of its own."""
        self.places: dict[tuple[TopicPartition, int], Place] = {}
        """The places of records in the order of their keys."""
        self.draft: Changes = {}
        """The keys that change if all of this batch is settled."""
        self.held: dict[TopicPartition, None] = {}
        """The partitions that are not read on, because of a record that can be moved nowhere."""
        self._has_lanes = has_lanes
        self._ends: dict[TopicPartition, int] = {}
        self._moves: dict[tuple[TopicPartition, int], Move] = {}
        self._stuck: dict[TopicPartition, int] = {}

    def done(self, record: Raw) -> None:
        """Note that a record was handled, or that it is moved."""
        self._ends[record.topic_partition] = record.offset + 1

    def move(self, move: Move) -> None:
        """Have a record written elsewhere; this takes the place of an earlier move of it."""
        self._moves[move.partition, move.record.offset] = move

    def drop(self, move: Move) -> None:
        """Have a record written nowhere."""
        del self._moves[move.partition, move.record.offset]

    def move_of(self, record: Raw) -> Move | None:
        """Return where a record goes; None if it goes nowhere."""
        return self._moves.get((record.topic_partition, record.offset))

    def place_of(self, record: Raw) -> Place | None:
        """Return a record's place in the order of its key, if it has one."""
        return self.places.get((record.topic_partition, record.offset))

    def stop_before(self, record: Raw) -> None:
        """Leave this record, and those behind it in its lane, to be read again."""
        self.held[record.topic_partition] = None
        is_behind = False
        for each in self.records:
            is_behind = is_behind or each is record
            if is_behind and self._lane(each) == self._lane(record):
                stuck = self._stuck.get(each.topic_partition, each.offset)
                self._stuck[each.topic_partition] = min(each.offset, stuck)

    def _lane(self, record: Raw) -> object:
        return record.partition if self._has_lanes else record.topic_partition

    def is_left(self, record: Raw) -> bool:
        """Return whether a record is left to be read again."""
        return record.offset >= self._stuck.get(record.topic_partition, record.offset + 1)

    @property
    def moves(self) -> list[Move]:
        """The moves before the places where partitions end."""
        return [move for move in self._moves.values() if not self.is_left(move.record)]

    @property
    def settled(self) -> list[Raw]:
        """The records that are handled or moved, in the order in which they were."""
        offsets = self.offsets
        return [each for each in self.records if each.offset < offsets.get(each.topic_partition, 0)]

    @property
    def stuck(self) -> Mapping[TopicPartition, int]:
        """The offsets to read again from, by partition."""
        return self._stuck

    @property
    def begins(self) -> dict[TopicPartition, int]:
        """The offset of the first record of each partition."""
        found: dict[TopicPartition, int] = {}
        for record in self.records:
            found.setdefault(record.topic_partition, record.offset)
        return found

    @property
    def offsets(self) -> dict[TopicPartition, int]:
        """The offset to read next in each partition of which something is settled."""
        begins = self.begins
        ends = self._ends | self._stuck
        return {where: end for where, end in ends.items() if end > begins[where]}
