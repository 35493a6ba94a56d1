"""The records of connectors: a source hands out SourceRecords, a sink is given SinkRecords.

They are values: nobody changes one that another may hold. `with_` makes a changed copy.
"""

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from ..protocol.records.record_batch import TimestampType
from ..protocol.types import TopicPartition
from .data import Schema


class Header(NamedTuple):
    """One header; a key may occur more than once."""

    key: str
    value: Any
    schema: Schema | None = None


@dataclass(slots=True, kw_only=True)
class ConnectRecord:
    """The fields that sources and sinks share, and transformations may change."""

    topic: str
    value: Any
    key: Any = None
    value_schema: Schema | None = None
    key_schema: Schema | None = None
    headers: tuple[Header, ...] = ()
    timestamp_ms: int | None = None
    """Milliseconds since the epoch; None means that the record has none."""

    def with_(self, **changes: Any) -> Self:
        """Return a copy with these fields changed."""
        other = copy(self)
        for name, value in changes.items():
            setattr(other, name, value)
        return other


@dataclass(slots=True, kw_only=True)
class SourceRecord(ConnectRecord):
    """A record for a topic, and the place in the source behind which reading goes on.

    One with an empty topic is not written: only its place is noted.
    """

    source_partition: Mapping[str, Any]
    """Names a part of the source that is read in order, as {"filename": "a.log"}."""
    source_offset: Mapping[str, Any]
    """The place to read on from once this record is in its topic, as {"position": 117}."""
    partition: int | None = None
    """The partition of the topic; None leaves it to the producer's partitioner."""


@dataclass(slots=True, kw_only=True)
class SinkRecord(ConnectRecord):
    """A record of a topic. `origin` and `offset` stay when a transformation renames the topic."""

    partition: int
    offset: int
    origin: TopicPartition
    """The topic and the partition that the record was read from."""
    timestamp_type: TimestampType = TimestampType.CREATE_TIME
