"""Batches of the audit topic: requests that are not in its log yet, each a link of the chain."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from ...protocol.audit import BATCH_MAX, CHANGE, GAP, Event, Link, digest_of, encode_event
from ...protocol.control.audit_trail import AuditTrail
from ...protocol.control.records import AuditedRecord
from ...protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig
from ...protocol.records.records import NO_SEQUENCE, BatchBuilder
from ...protocol.types import AUDIT_TOPIC, NO_EPOCH, NO_PRODUCER_ID

BATCH_BYTES: Final = 256 << 10
"""About the most bytes of the values of one batch, unless one value is larger."""
NO_BOUND: Final = 1 << 62
RETENTION_MS: Final = 90 * 86_400_000
REPLICAS: Final = 3
MIN_ISR: Final = 2


class Links(NamedTuple):
    """One batch for the audit topic, and where the chain goes on behind it."""

    batch: bytearray
    link: Link


def audit_topic(broker_count: int) -> CreatableTopic:
    """Describe the audit topic of a cluster with so many live brokers."""
    replicas = max(1, min(REPLICAS, broker_count))
    wanted = {
        "cleanup.policy": "delete",
        "retention.ms": str(RETENTION_MS),
        "retention.bytes": "-1",
        "min.insync.replicas": str(min(MIN_ISR, replicas)),
        "unclean.leader.election.enable": "false",
        "compression.type": "producer",
        "max.message.bytes": str(BATCH_MAX),
    }
    return CreatableTopic(
        name=AUDIT_TOPIC,
        num_partitions=1,
        replication_factor=replicas,
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in wanted.items()],
    )


def next_links(
    trail: AuditTrail, link: Link, cluster_id: str, now_ms: int, most_bytes: int = BATCH_BYTES
) -> Links | None:
    """Return the next batch behind `link`; None if all requests of the trail are written.

    If the trail has forgotten requests that are not written, the batch begins with a record of the
    gap. The values of the batch have at most `most_bytes`, unless there is only one.
    """
    missing = _missing(trail, link, now_ms)
    return _linked(missing, link, cluster_id, now_ms, most_bytes=most_bytes)


def more_links(events: Sequence[Event], link: Link, cluster_id: str, now_ms: int) -> Links | None:
    """Return one batch of events that tell of no request of the trail; None if there are none."""
    numbered = ((link.number, event) for event in events)
    return _linked(numbered, link, cluster_id, now_ms, most_bytes=NO_BOUND)


def _missing(trail: AuditTrail, link: Link, now_ms: int) -> Iterator[tuple[int, Event]]:
    """Yield the events behind `link`, each with the number of the newest request it tells of."""
    expected = link.number + 1
    for record in trail.after(link.number):
        if record.number > expected:
            yield record.number - 1, gap_event(expected, record.number - 1, now_ms)
        yield record.number, change_event(record)
        expected = record.number + 1


def _linked(
    events: Iterable[tuple[int, Event]],
    link: Link,
    cluster_id: str,
    now_ms: int,
    *,
    most_bytes: int,
) -> Links | None:
    builder, size = BatchBuilder(), 0
    for number, event in events:
        value = encode_event(event, cluster_id, number, link.digest)
        if size and size + len(value) > most_bytes:
            break
        size += len(value)
        digest = digest_of(value)
        builder.append(now_ms, digest.encode(), value)
        link = Link(number, digest)
    if not size:
        return None
    batch = builder.build(
        producer_id=NO_PRODUCER_ID, producer_epoch=NO_EPOCH, base_sequence=NO_SEQUENCE
    )
    return Links(batch, link)


def change_event(record: AuditedRecord) -> Event:
    """Return the event of an audited request."""
    subjects = dict.fromkeys(f"{change.kind}/{change.name}" for change in record.changes)
    first = next(iter(subjects), "cluster")
    data: dict[str, Any] = {
        "principal": record.principal or None,
        "client": record.client_id,
        "host": record.host,
        "action": record.action,
        "result": "changed",
        "error_code": 0,
        "request": record.request_id.hex(),
        "metadata_offset": record.offset,
        "changes": [
            {
                "resource": f"{change.kind}/{change.name}",
                "aspect": change.aspect,
                "before": change.before,
                "after": change.after,
            }
            for change in record.changes
        ],
    }
    if record.left_out:
        data["left_out"] = record.left_out
    return Event(f"change-{record.number}", CHANGE, record.at_ms, first, data)


def gap_event(first: int, last: int, now_ms: int) -> Event:
    """Return the event that says which requests could not be written."""
    data = {"first": first, "last": last, "action": "AuditGap", "result": "lost", "error_code": 0}
    return Event(f"gap-{first}-{last}", GAP, now_ms, "cluster", data)
