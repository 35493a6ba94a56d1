"""The records of one poll, and what becomes of each: done, waits for a retry, or a dead letter.

Pure. All of them are settled together, with the offsets up to which their partitions are read. If a
record can be moved nowhere, its partition ends before it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ...protocol.records.record_batch import Headers
from ...protocol.types import TopicPartition
from ..records import ConsumerRecord
from .retry_headers import Failure, attempt_of, dead_letter_headers, retry_headers, truncated
from .retry_policy import RetryPolicy, RetryTopics

Raw = ConsumerRecord[bytes, bytes]


@dataclass(frozen=True, slots=True)
class Move:
    """A record that is written to another topic."""

    record: Raw
    failure: Failure
    topic: str
    headers: Headers
    value: bytes | None
    is_dead: bool = False

    @property
    def partition(self) -> TopicPartition:
        """The partition that the record was read from."""
        return self.record.topic_partition


def move_of(
    record: Raw, failure: Failure, policy: RetryPolicy, topics: RetryTopics, chance: float
) -> Move:
    """Return where a record goes that has failed; `chance` is a random number from 0 to 1."""
    wait_ms = policy.wait_ms(attempt_of(record.headers), failure.error, chance)
    if wait_ms is None:
        return _buried(record, failure, topics)
    headers = retry_headers(record.headers, failure, failure.at_ms + wait_ms)
    return Move(record, failure, topics.retry, headers, record.value)


def smaller(move: Move, topics: RetryTopics) -> Move | None:
    """Return what is written in place of a record that is too large; None if nothing is left.

    A retry becomes a dead letter, and a dead letter loses its value.
    """
    if not move.is_dead:
        return _buried(move.record, move.failure, topics)
    if move.value is None:
        return None
    return replace(move, value=None, headers=truncated(move.headers))


def _buried(record: Raw, failure: Failure, topics: RetryTopics) -> Move:
    headers = dead_letter_headers(record.headers, failure)
    return Move(record, failure, topics.dead_letters, headers, record.value, is_dead=True)


class Batch:
    """The records of one poll, with what becomes of each of them."""

    def __init__(self, records: Sequence[Raw]) -> None:
        self.records = records
        self.goes_singly = False
        """True once records are written each in a batch of its own."""
        self._ends: dict[TopicPartition, int] = {}
        self._moves: dict[tuple[TopicPartition, int], Move] = {}
        self._stuck: dict[TopicPartition, int] = {}

    def done(self, record: Raw) -> None:
        """Note that a record was handled, or that it is moved."""
        self._ends[record.topic_partition] = record.offset + 1

    def move(self, move: Move) -> None:
        """Have a record written elsewhere; this takes the place of an earlier move of it."""
        self._moves[move.partition, move.record.offset] = move

    def stop_before(self, move: Move) -> None:
        """Leave this record, and those behind it in its partition, to be read again."""
        offset = move.record.offset
        self._stuck[move.partition] = min(offset, self._stuck.get(move.partition, offset))

    @property
    def moves(self) -> list[Move]:
        """The moves before the places where partitions end."""
        return [
            move
            for (partition, offset), move in self._moves.items()
            if offset < self._stuck.get(partition, offset + 1)
        ]

    @property
    def stuck(self) -> Mapping[TopicPartition, int]:
        """The offsets of records that can be moved nowhere, by partition."""
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
