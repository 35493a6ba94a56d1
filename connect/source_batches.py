"""Records of a source, after its pipeline, as columns to send and offsets to commit behind them.

Pure, and picklable: tasks in processes of their own hand these over.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from ..protocol.records.record_batch import Headers
from .offsets import Pair
from .records import SourceRecord

Produced = tuple[str, int | None, bytes | None, bytes | None, Headers, int | None]
"""Topic, partition, key, value, headers and timestamp of one record to send."""


class Boundary(Enum):
    """The end of a transaction that a task asked for."""

    COMMIT = "commit"
    ABORT = "abort"


@dataclass(slots=True)
class Send:
    """Records for one topic, and perhaps one partition of it, as columns."""

    topic: str
    partition: int | None
    values: list[bytes | None] = field(default_factory=list)
    keys: list[bytes | None] = field(default_factory=list)
    headers: list[Headers] = field(default_factory=list)
    timestamps: list[int | None] = field(default_factory=list)
    places: dict[int, None] = field(default_factory=dict)
    """The places, by index, that have records here."""
    records: list[int] = field(default_factory=list)
    """The index of each record in the task's batch."""


@dataclass(slots=True)
class Batch:
    """Records to send, and where reading goes on behind them: a place per source partition."""

    sends: list[Send]
    places: list[Pair]
    boundary: Boundary | None = None


@dataclass(slots=True)
class Polled:
    """One answer of a source task."""

    batches: Sequence[Batch] = ()
    retry_ms: int | None = None
    """Set if the task raised Retry: the time until the next poll."""
    failure: str | None = None
    """The traceback of a record that fails the task; the records before it are in `batches`."""
    ended: bool = False
    """True if an async source has no further records."""


def gather(records: Sequence[SourceRecord], outcomes: Sequence[Any], first: int = 0) -> Batch:
    """Make a batch of records and what the pipeline made of each: a list to send, or nothing.

    `first` is the index of the first record in the task's batch.
    """
    sends: dict[tuple[str, int | None], Send] = {}
    places: list[Pair] = []
    index_of: dict[Any, int] = {}
    last_partition: Any = None
    send: Send | None = None
    place = -1
    for index, (record, outcome) in enumerate(zip(records, outcomes, strict=True), first):
        source = record.source_partition
        if source is not last_partition:
            last_partition = source
            key = _hashable(source)
            place = index_of.setdefault(key, len(places))
            if place == len(places):
                places.append((source, record.source_offset))
            send = None
        places[place] = (source, record.source_offset)
        if type(outcome) is not list:
            continue
        for topic, partition, key_bytes, value, headers, timestamp_ms in outcome:
            if send is None or send.topic != topic or send.partition != partition:
                send = sends.setdefault((topic, partition), Send(topic, partition))
                send.places[place] = None
            send.values.append(value)
            send.keys.append(key_bytes)
            send.headers.append(headers)
            send.timestamps.append(timestamp_ms)
            send.records.append(index)
    return Batch(list(sends.values()), places)


def _hashable(value: Any) -> Any:
    if isinstance(value, dict):
        return tuple(sorted((key, _hashable(each)) for key, each in value.items()))
    return tuple(map(_hashable, value)) if isinstance(value, list) else value
