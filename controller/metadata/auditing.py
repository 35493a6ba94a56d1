"""The audit of forwarded requests: one more record, which says who asked, and what has changed.

The record is the last of the request's batch, so that it is committed with the changes or not at
all. What changed is read off the other records, not off the request.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

from ...protocol.audit import AUDIT_ENABLE, AUDIT_PARTITION, AUDIT_REQUIRED
from ...protocol.control import records as r
from ...protocol.control.image import MetadataImage
from ...protocol.errors import ApiError, ErrorCode
from ...protocol.types import AUDIT_TOPIC, NO_LEADER
from .decision import Cluster, Decision

A = TypeVar("A")

CHANGES_MAX: Final = 1_000
BYTES_MAX: Final = 64 << 10
"""The most changes that one record tells, and about the most bytes of them."""
TEXT_MAX: Final = 1_000
"""The most characters of a text that a client chose."""
MASKED: Final = "********"
SECRET: Final = ("password", "secret", "jaas", "credential")
"""Parts of the names of settings whose values are masked."""
CONFIG_KINDS: Final = {r.TOPIC: "topic", r.BROKER: "broker", r.CLIENT_METRICS: "client-metrics"}
MECHANISMS: Final = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
DEFAULT_NAME: Final = "<default>"


@dataclass(frozen=True, slots=True)
class Asked:
    """A forwarded request, as far as the audit tells of it."""

    action: str
    principal: str
    client_id: str
    host: str
    request_id: bytes
    at_ms: int


def audited(cluster: Cluster, asked: Asked, decision: Decision[A]) -> Decision[A]:
    """Return the decision with the record of the audit, if auditing is on and it changes something.

    A change of the switch itself is audited if it is on before or after. Raise ApiError
    POLICY_VIOLATION if the audit is required and cannot be written.
    """
    records = decision.records
    if not records or not (cluster.is_on(AUDIT_ENABLE) or _turns_on(cluster, records)):
        return decision
    is_required = cluster.is_on(AUDIT_REQUIRED) and asked.principal
    if is_required and not all(_mends(cluster.image, each) for each in records):
        _check_writable(cluster)
    changes, left_out = _bounded(_changes(cluster.image, records))
    record = r.AuditedRecord(
        number=cluster.image.audited.newest + 1,
        action=asked.action,
        principal=_short(asked.principal),
        client_id=_short(asked.client_id),
        host=_short(asked.host),
        request_id=asked.request_id[:64],
        at_ms=asked.at_ms,
        changes=changes,
        left_out=left_out,
    )
    return replace(decision, records=(*records, record))


def _mends(image: MetadataImage, record: r.MetadataRecord) -> bool:
    """True for changes that can make the audit topic writable again: of it, or of the switches."""
    match record:
        case r.ConfigRecord(resource_type=r.TOPIC, resource_name=name):
            return name == AUDIT_TOPIC
        case r.ConfigRecord(key=key):
            return key in (AUDIT_ENABLE, AUDIT_REQUIRED)
        case r.PartitionChangeRecord(topic_id=topic_id):
            return topic_id == image.topic_ids.get(AUDIT_TOPIC)
    return False


def _turns_on(cluster: Cluster, records: Sequence[r.MetadataRecord]) -> bool:
    """True if the switch is set to true, or falls back to the controller's own, which is on."""
    return any(
        isinstance(each, r.ConfigRecord)
        and (each.resource_type, each.resource_name, each.key) == (r.BROKER, "", AUDIT_ENABLE)
        and cluster.would_be_on(AUDIT_ENABLE, each.value)
        for each in records
    )


def _check_writable(cluster: Cluster) -> None:
    image = cluster.image
    topic = image.topic(AUDIT_TOPIC)
    if topic is None:
        if not image.audited.newest:
            return  # The first request makes brokers create the topic.
        why = f"topic {AUDIT_TOPIC} does not exist yet"
    else:
        state = topic.partitions[AUDIT_PARTITION]
        needed = state.effective_min_isr(cluster.min_isr(AUDIT_TOPIC))
        if state.leader != NO_LEADER and len(state.isr) >= needed:
            return
        why = f"{AUDIT_TOPIC} has leader {state.leader} and {len(state.isr)} replicas in sync"
    detail = f"{AUDIT_REQUIRED}: the audit cannot be written now: {why}"
    raise ApiError(ErrorCode.POLICY_VIOLATION, detail)


def _bounded(changes: Iterator[r.AuditedChange]) -> tuple[tuple[r.AuditedChange, ...], int]:
    """Return the changes within the bounds, and the number of the others."""
    kept: list[r.AuditedChange] = []
    size = left_out = 0
    for change in changes:
        size += 100 + len(change.name) + len(change.before or "") + len(change.after or "")
        if left_out or len(kept) == CHANGES_MAX or size > BYTES_MAX:
            left_out += 1
        else:
            kept.append(change)
    return tuple(kept), left_out


def _short(text: str | None) -> Any:
    return text if text is None or len(text) <= TEXT_MAX else f"{text[: TEXT_MAX - 1]}…"


@dataclass(slots=True)
class _Before:
    """The image before the decision, and what its earlier records have made."""

    image: MetadataImage
    new_topics: dict[bytes, str] = field(default_factory=dict)
    partitions: dict[bytes, int] = field(default_factory=dict)
    """The new partitions of each topic."""

    def topic_name(self, topic_id: bytes) -> str:
        topic = self.image.topics.get(topic_id)
        return self.new_topics.get(topic_id, "") if topic is None else topic.name

    def partition_count(self, topic_id: bytes) -> int:
        topic = self.image.topics.get(topic_id)
        return 0 if topic is None else len(topic.partitions)


def _changes(image: MetadataImage, records: Any) -> Iterator[r.AuditedChange]:
    """Yield what the records change, in their order; partitions of one topic as one change."""
    before = _Before(image)
    for record in records:
        if isinstance(record, r.TopicRecord):
            before.new_topics[record.topic_id] = record.name
        elif isinstance(record, r.PartitionRecord):
            count = before.partitions.get(record.topic_id, 0)
            before.partitions[record.topic_id] = count + 1
    told: dict[bytes, None] = {}
    for record in records:
        if isinstance(record, r.PartitionRecord):
            if record.topic_id not in told:
                told[record.topic_id] = None
                yield _new_partitions(before, record)
            continue
        tell = _TELL.get(type(record))
        if tell is not None:
            for change in tell(before, record):
                yield replace(
                    change,
                    name=_short(change.name),
                    before=_short(change.before),
                    after=_short(change.after),
                )


def _new_partitions(before: _Before, record: r.PartitionRecord) -> r.AuditedChange:
    topic_id, old = record.topic_id, before.partition_count(record.topic_id)
    new = old + before.partitions[topic_id]
    name = before.topic_name(topic_id)
    return r.AuditedChange("topic", name, "partitions", str(old) if old else None, str(new))


def _removed_topic(before: _Before, record: r.RemoveTopicRecord) -> Iterator[r.AuditedChange]:
    count = before.partition_count(record.topic_id)
    name = before.topic_name(record.topic_id)
    yield r.AuditedChange("topic", name, "partitions", str(count), None)


def _partition(before: _Before, record: r.PartitionChangeRecord) -> Iterator[r.AuditedChange]:
    state = before.image.partition(record.topic_id, record.partition)
    name = f"{before.topic_name(record.topic_id)}-{record.partition}"
    for aspect in ("replicas", "adding", "removing", "leader"):
        new = getattr(record, aspect)
        old = None if state is None else getattr(state, aspect)
        if new is not None and new != old:
            how = ", elected uncleanly" if aspect == "leader" and record.recovering else ""
            yield r.AuditedChange("partition", name, aspect, _told(old), f"{_told(new)}{how}")


def _told(value: object) -> str | None:
    if isinstance(value, tuple):
        return ",".join(str(each) for each in value)
    return None if value is None else str(value)


def _config(before: _Before, record: r.ConfigRecord) -> Iterator[r.AuditedChange]:
    kind = CONFIG_KINDS.get(record.resource_type, str(record.resource_type))
    owner = (record.resource_type, record.resource_name)
    old, new = before.image.configs.get(owner, {}).get(record.key), record.value
    if any(part in record.key for part in SECRET):
        old, new = (None if each is None else MASKED for each in (old, new))
    yield r.AuditedChange(kind, record.resource_name or DEFAULT_NAME, record.key, old, new)


def _acl(before: _Before, record: r.AccessControlEntryRecord) -> Iterator[r.AuditedChange]:
    image = MetadataImage()
    image.apply(record, 0)
    yield r.AuditedChange("acl", record.id.hex(), "entry", None, str(image.acls[record.id]))


def _removed_acl(
    before: _Before, record: r.RemoveAccessControlEntryRecord
) -> Iterator[r.AuditedChange]:
    acl = before.image.acls.get(record.id)
    yield r.AuditedChange("acl", record.id.hex(), "entry", None if acl is None else str(acl), None)


def _credential(
    before: _Before, record: r.ScramCredentialRecord | r.RemoveScramCredentialRecord
) -> Iterator[r.AuditedChange]:
    was_set = (record.mechanism, record.name) in before.image.scram
    mechanism = MECHANISMS.get(record.mechanism, str(record.mechanism))
    after = MASKED if isinstance(record, r.ScramCredentialRecord) else None
    yield r.AuditedChange("user", record.name, mechanism, MASKED if was_set else None, after)


def _quota(before: _Before, record: r.ClientQuotaRecord) -> Iterator[r.AuditedChange]:
    entity = tuple(sorted(record.entity.items()))
    name = ",".join(f"{kind}={DEFAULT_NAME if of is None else of}" for kind, of in entity)
    old = before.image.quotas.get(entity, {}).get(record.key)
    yield r.AuditedChange("quota", name, record.key, _told(old), _told(record.value))


def _token(before: _Before, record: r.DelegationTokenRecord) -> Iterator[r.AuditedChange]:
    old = before.image.tokens.get(record.token_id)
    was = None if old is None else str(old.expires_ms)
    if old is None:
        yield r.AuditedChange("token", record.token_id, "owner", None, record.owner)
    yield r.AuditedChange("token", record.token_id, "expires_ms", was, str(record.expires_ms))


def _removed_token(
    before: _Before, record: r.RemoveDelegationTokenRecord
) -> Iterator[r.AuditedChange]:
    old = before.image.tokens.get(record.token_id)
    yield r.AuditedChange(
        "token", record.token_id, "owner", None if old is None else old.owner, None
    )


def _feature(before: _Before, record: r.FeatureRecord) -> Iterator[r.AuditedChange]:
    old = before.image.features.get(record.name, 0)
    yield r.AuditedChange("feature", record.name, "level", str(old), str(record.level))


def _unregistered(before: _Before, record: r.UnregisterBrokerRecord) -> Iterator[r.AuditedChange]:
    name, epoch = str(record.broker_id), str(record.broker_epoch)
    yield r.AuditedChange("broker", name, "registration", epoch, None)


_TELL: dict[type[r.MetadataRecord], Callable[[_Before, Any], Iterator[r.AuditedChange]]] = {
    r.RemoveTopicRecord: _removed_topic,
    r.PartitionChangeRecord: _partition,
    r.ConfigRecord: _config,
    r.AccessControlEntryRecord: _acl,
    r.RemoveAccessControlEntryRecord: _removed_acl,
    r.ScramCredentialRecord: _credential,
    r.RemoveScramCredentialRecord: _credential,
    r.ClientQuotaRecord: _quota,
    r.DelegationTokenRecord: _token,
    r.RemoveDelegationTokenRecord: _removed_token,
    r.FeatureRecord: _feature,
    r.UnregisterBrokerRecord: _unregistered,
}
