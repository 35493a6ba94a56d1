"""Records what clients did and which answers they got, and checks the logs against it.

Pure. Values are unique: `producer:topic:partition:number`, numbers growing in the order of sending.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

Partition = tuple[str, int]


@dataclass(slots=True)
class Sent:
    """One record that was sent, and the result that its producer got."""

    producer: str
    partition: Partition
    number: int
    acknowledged_at: int | None = None
    """The offset once acknowledged, -1 if the answer had none; None if it failed or is unknown."""
    may_vanish: bool = False
    """True if sent with acks=1 or 0, or to a topic that is deleted: acknowledged records may be
    lost."""
    may_repeat: bool = False
    """True if sent without idempotence: the record may appear twice, and late."""

    @property
    def value(self) -> bytes:
        topic, index = self.partition
        return f"{self.producer}:{topic}:{index}:{self.number}".encode()


@dataclass(slots=True)
class History:
    """Everything that clients saw, in the order in which they saw it."""

    sent: list[Sent] = field(default_factory=list)
    polled: dict[str, list[tuple[Partition, int, bytes]]] = field(default_factory=dict)
    """Per consumer: (partition, offset, value)."""
    final: dict[Partition, list[tuple[int, bytes]]] = field(default_factory=dict)
    """The records of every partition, read from beginning to end after the faults."""
    gone_below: dict[Partition, int] = field(default_factory=dict)
    """The offset below which retention or DeleteRecords may have deleted records."""
    lossy: dict[Partition, None] = field(default_factory=dict)
    """The partitions whose records may be lost: after an unclean election, or if the topic was made
    again."""

    @property
    def acknowledged_count(self) -> int:
        return sum(each.acknowledged_at is not None for each in self.sent)


def check(history: History) -> list[str]:
    """Return every contradiction as a sentence; none if the history is consistent."""
    findings = [*_check_offsets(history), *_check_acknowledged(history)]
    findings += _check_unique_and_known(history)
    findings += _check_order(history)
    for consumer, polled in history.polled.items():
        findings += _check_consumer(consumer, polled, history)
    return findings


def _check_offsets(history: History) -> Iterator[str]:
    for partition, records in history.final.items():
        for (before, _), (after, _) in itertools.pairwise(records):
            if after != before + 1 and not _is_gone(history, partition, after - 1):
                yield f"gap: {name(partition)} goes from offset {before} to {after}"


def _check_acknowledged(history: History) -> Iterator[str]:
    logs = {partition: dict(records) for partition, records in history.final.items()}
    values = {value: None for records in history.final.values() for _, value in records}
    for sent in history.sent:
        offset = sent.acknowledged_at
        if offset is None or sent.may_vanish or sent.partition in history.lossy:
            continue
        if offset < 0 and (sent.value in values or history.gone_below.get(sent.partition, 0)):
            continue
        if offset >= 0 and _is_gone(history, sent.partition, offset):
            continue
        found = logs.get(sent.partition, {}).get(offset)
        if found != sent.value:
            other = "nothing" if found is None else found.decode()
            yield (
                f"lost: {sent.value.decode()} was acknowledged at {name(sent.partition)} offset"
                f" {offset}, where there is {other}"
            )


def _check_unique_and_known(history: History) -> Iterator[str]:
    sent = {each.value: each for each in history.sent}
    for partition, records in history.final.items():
        seen: dict[bytes, int] = {}
        for offset, value in records:
            origin = sent.get(value)
            if value in seen and not _may_repeat(history, partition, origin):
                yield (
                    f"duplicate: {value.decode()} is at {name(partition)} offsets"
                    f" {seen[value]} and {offset}"
                )
            seen[value] = offset
            if origin is None or origin.partition != partition:
                yield f"invented: {value!r} at {name(partition)} offset {offset}"


def _is_gone(history: History, partition: Partition, offset: int) -> bool:
    """Return whether this record, and all before it, may have been deleted."""
    return offset < history.gone_below.get(partition, 0)


def _may_repeat(history: History, partition: Partition, sent: Sent | None) -> bool:
    return partition in history.lossy or (sent is not None and sent.may_repeat)


def _check_order(history: History) -> Iterator[str]:
    origins = {each.value: each for each in history.sent}
    for partition, records in history.final.items():
        newest: dict[str, int] = {}
        for offset, value in records:
            sent = origins.get(value)
            if sent is None or _may_repeat(history, partition, sent):
                continue
            if sent.number < newest.get(sent.producer, -1):
                yield f"reordered: {value.decode()} at {name(partition)} offset {offset}"
            newest[sent.producer] = max(sent.number, newest.get(sent.producer, -1))


def _check_consumer(
    consumer: str, polled: Sequence[tuple[Partition, int, bytes]], history: History
) -> Iterator[str]:
    logs = {partition: dict(records) for partition, records in history.final.items()}
    position: dict[Partition, int] = {}
    for partition, offset, value in polled:
        expected = position.get(partition, offset)
        is_jump = offset > expected and _is_gone(history, partition, offset - 1)
        if offset != expected and not is_jump and partition not in history.lossy:
            yield f"{consumer}: at {name(partition)} offset {offset} came where {expected} was due"
        position[partition] = offset + 1
        if partition in history.lossy:
            continue
        found = logs.get(partition, {}).get(offset)
        if found is None and _is_gone(history, partition, offset):
            continue
        if found != value:
            yield (
                f"inconsistent: {consumer} read {value.decode()} at {name(partition)} offset"
                f" {offset}, where there is {found.decode() if found else 'nothing'}"
            )


def name(partition: Partition) -> str:
    return f"{partition[0]}-{partition[1]}"
