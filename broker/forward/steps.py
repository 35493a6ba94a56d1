"""Steps: the control records in which a source partition's leader writes down what it decided.

Pure. A step is a control batch with one record, without a producer. Clients skip it, as they skip
every control record of a kind that they do not know.

    key      int16 version 0 | int16 type 30001
    value    MessagePack [1, plans, ends, dropped, cancelled, moved]; fields are only appended
    plan     [plan id, topic id, partition, producer id, base sequence, kind, error code,
              planned ms, offsets, moved]
    end      [plan id, base offset]
    dropped  offsets, as are cancelled ones
    moved    a list of [due ms, offset]
    offsets  the first one, then the difference of each to the one before it
"""

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import accumulate, pairwise
from typing import Any, Final

import msgpack

from ...protocol.errors import RemoteProtocolError
from ...protocol.records.records import BatchBuilder
from ...protocol.types import TopicIdPartition
from .due_index import Entry

STEP_TYPE: Final = 30_001
VERSION: Final = 1
MOST_PLANNED: Final = 250
"""The most records of one plan."""
_KEY: Final = struct.Struct(">hh")
_LATER: Final = ((), ())
"""The fields that steps of older brokers do not have."""

DELIVERED_EARLIER: Final = -1
"""The base offset of an end whose target has the batch and does not know any more where."""
REPLACED: Final = -2
"""The base offset of an end whose records other plans of the same step take over."""
GONE: Final = -3
"""The base offset of an end whose records nobody takes: the target is deleted."""


class Kind(IntEnum):
    """The kind of a plan."""

    DUE = 0
    ALONE = 1
    """One record that its target refuses: under a producer id of its own, it stops no other."""
    DEAD_LETTER = 2
    """The target is the topic for dead letters."""
    DEAD_ALONE = 3
    """One dead letter that its topic refuses."""

    @property
    def is_alone(self) -> bool:
        """True if the plan stops no other."""
        return self in (Kind.ALONE, Kind.DEAD_ALONE)

    @property
    def is_dead(self) -> bool:
        """True for dead letters."""
        return self in (Kind.DEAD_LETTER, Kind.DEAD_ALONE)


@dataclass(frozen=True, slots=True)
class Plan:
    """One batch for one target partition: the same records at every attempt to send it."""

    plan_id: int
    target: TopicIdPartition
    producer_id: int
    base_sequence: int
    kind: Kind
    code: int
    """The error code for which its records are dead letters; 0 of other kinds."""
    planned_ms: int
    """Wall time of the leader that planned it."""
    offsets: tuple[int, ...]
    """The records in the order in which the target gets them."""
    moved: tuple[Entry, ...] = ()
    """The records whose times were changed, with these times."""

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record."""
        return self.base_sequence + len(self.offsets) - 1


@dataclass(frozen=True, slots=True)
class End:
    """A plan that is over: the target has its batch at `base_offset`, or see the constants."""

    plan_id: int
    base_offset: int


@dataclass(frozen=True, slots=True)
class Step:
    """The content of one control record."""

    plans: tuple[Plan, ...] = ()
    ends: tuple[End, ...] = ()
    dropped: tuple[int, ...] = ()
    """Offsets of records that are never forwarded, because nobody can take them."""
    cancelled: tuple[int, ...] = ()
    """Offsets of records that are never forwarded, because somebody said so."""
    moved: tuple[Entry, ...] = ()
    """Records that wait, with the times at which they are due from now on."""

    def __bool__(self) -> bool:
        return bool(self.plans or self.ends or self.dropped or self.cancelled or self.moved)


def encode(step: Step, timestamp_ms: int) -> bytearray:
    """Return the step as a control batch at offset 0."""
    value = msgpack.packb(
        [
            VERSION,
            [plan_fields(plan) for plan in step.plans],
            [[end.plan_id, end.base_offset] for end in step.ends],
            _to_deltas(step.dropped),
            _to_deltas(step.cancelled),
            step.moved,
        ]
    )
    builder = BatchBuilder(is_control=True)
    builder.append(timestamp_ms, _KEY.pack(0, STEP_TYPE), value)
    return builder.build()


def decode(key: bytes | None, value: bytes | None) -> Step | None:
    """Read a control record; return None if it is of another kind.

    Raise RemoteProtocolError if it is a step that cannot be read.
    """
    if key is None or len(key) != _KEY.size or _KEY.unpack(key) != (0, STEP_TYPE):
        return None
    try:
        fields = msgpack.unpackb(value or b"")
        _, plans, ends, dropped, cancelled, moved = [*fields, *_LATER][:6]
        return Step(
            tuple(plan_of(each) for each in plans),
            tuple(End(_integer(each[0]), _integer(each[1])) for each in ends),
            tuple(_from_deltas(dropped)),
            tuple(_from_deltas(cancelled)),
            _entries(moved),
        )
    except (ValueError, TypeError, IndexError, msgpack.UnpackException) as error:
        raise RemoteProtocolError(f"a step that cannot be read: {error!r}") from error


def plan_fields(plan: Plan) -> list[object]:
    """Return a plan as the fields of `plan_of`."""
    return [
        plan.plan_id,
        plan.target.topic_id,
        plan.target.partition,
        plan.producer_id,
        plan.base_sequence,
        int(plan.kind),
        plan.code,
        plan.planned_ms,
        _to_deltas(plan.offsets),
        plan.moved,
    ]


def plan_of(fields: Sequence[Any]) -> Plan:
    """Read a plan; raise TypeError, ValueError or IndexError if it cannot be read."""
    plan_id, topic_id, partition, *numbers, offsets, moved = [*fields, ()][:10]
    if not isinstance(topic_id, bytes):
        raise TypeError(topic_id)
    producer_id, sequence, kind, code, planned_ms = map(_integer, numbers)
    found = tuple(_from_deltas(offsets))
    if not found:
        raise ValueError("a plan without records")
    return Plan(
        _integer(plan_id),
        TopicIdPartition(topic_id, _integer(partition)),
        producer_id,
        sequence,
        Kind(kind),
        code,
        planned_ms,
        found,
        _entries(moved),
    )


def _entries(fields: Iterable[Sequence[object]]) -> tuple[Entry, ...]:
    return tuple(Entry(_integer(each[0]), _integer(each[1])) for each in fields)


def _to_deltas(offsets: Sequence[int]) -> list[int]:
    return [*offsets[:1], *(after - before for before, after in pairwise(offsets))]


def _from_deltas(deltas: Iterable[object]) -> Iterable[int]:
    return accumulate(map(_integer, deltas))


def _integer(value: object) -> int:
    if not isinstance(value, int):
        raise TypeError(value)
    return value
