"""The cluster's metadata in memory, made from its records by controllers and brokers alike.

`MetadataImage.apply` is the only place that gives a metadata record its meaning. The objects in the
image are immutable: a change replaces them, so that `copy` need not copy them. The image decides
nothing.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from typing import Any, Final, TypeVar

from ..acls import Acl
from ..errors import RemoteProtocolError
from ..quotas import QuotaEntity
from ..scram import ScramCredential
from ..tokens import DelegationToken
from ..types import NO_LEADER, TopicIdPartition
from . import records as r
from .audit_trail import AuditTrail
from .messages import Endpoint, VersionRange

K = TypeVar("K")
V = TypeVar("V")

ConfigResource = tuple[int, str]
"""The type (records.TOPIC, BROKER or CLIENT_METRICS) and the name of a configured resource."""


@dataclass(frozen=True, slots=True)
class BrokerRegistration:
    """One incarnation of a broker: its registration, and whether the controller has fenced it."""

    broker_id: int
    broker_epoch: int
    incarnation_id: bytes
    directory_ids: tuple[bytes, ...]
    endpoints: tuple[Endpoint, ...]
    rack: str | None
    features: dict[str, VersionRange]
    fenced: bool = True
    in_controlled_shutdown: bool = False
    unknown: r.Unknown | None = None

    @property
    def is_active(self) -> bool:
        """True if the broker may lead and may join an ISR."""
        return not self.fenced and not self.in_controlled_shutdown

    def endpoint(self, listener: str) -> Endpoint | None:
        """Return the address of the listener with this name; None if the broker has none."""
        return next((each for each in self.endpoints if each.name == listener), None)


@dataclass(frozen=True, slots=True)
class PartitionState:
    """One partition: its replicas, its ISR and its leader."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int = NO_LEADER
    leader_epoch: int = 0
    partition_epoch: int = 0
    recovering: bool = False
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    directories: tuple[bytes, ...] = ()
    """The lost directories of the last good replica, if its broker came back without them."""
    unclean_epoch: int = -1
    """The newest leader epoch that began with an unclean election, or -1 for none. Only a replica
    whose log ends in an earlier epoch may truncate committed records."""
    electing: bool = False
    """True if the partition has no leader, and its live replicas are asked for their log ends to
    elect the one with the longest log."""
    offline: tuple[int, ...] = ()
    """The replicas whose log directory failed; they cannot lead until their broker restarts."""
    unknown: r.Unknown | None = None

    def effective_min_isr(self, min_isr: int) -> int:
        """Return `min_isr`, but at most the number of replicas that are not just being added."""
        return min(min_isr, len(self.replicas) - len(self.adding))


_BROKER_FIELDS: Final = tuple(each.name for each in fields(BrokerRegistration))
_PARTITION_FIELDS: Final = tuple(each.name for each in fields(PartitionState))
"""The names of the fields that PartitionState and PartitionRecord have in common."""
_ACL_FIELDS: Final = tuple(each.name for each in fields(Acl))
_TOKEN_FIELDS: Final = DelegationToken._fields
_CHANGEABLE: Final = tuple(
    each.name
    for each in fields(r.PartitionChangeRecord)
    if each.name in _PARTITION_FIELDS and each.name != "unknown"
)


@dataclass(slots=True)
class Topic:
    """A topic and its partitions by index."""

    name: str
    topic_id: bytes
    partitions: dict[int, PartitionState] = field(default_factory=dict)
    unknown: r.Unknown | None = None


@dataclass(slots=True)
class Delta:
    """Everything that some consecutive records changed, in dictionaries ordered by first change.

    A topic that these records create and then delete is in `deleted_topics` only.
    """

    new_topics: dict[bytes, None] = field(default_factory=dict)
    deleted_topics: dict[bytes, Topic] = field(default_factory=dict)
    """The topics as they were before their deletion."""
    changed_partitions: dict[TopicIdPartition, None] = field(default_factory=dict)
    changed_brokers: dict[int, None] = field(default_factory=dict)
    changed_configs: dict[ConfigResource, None] = field(default_factory=dict)
    new_acls: dict[bytes, Acl] = field(default_factory=dict)
    deleted_acls: dict[bytes, Acl] = field(default_factory=dict)
    """The entries as they were before their deletion.

    An entry that these records create and then delete is in neither dictionary.
    """
    changed_quotas: dict[QuotaEntity, None] = field(default_factory=dict)
    features_changed: bool = False
    is_audited: bool = False
    """True if an audited request is among the records."""
    is_snapshot: bool = False
    """True if the image was loaded from a snapshot. Then anything may have changed or gone, even if
    it is not named here."""

    @property
    def touches_broker_settings(self) -> bool:
        """True if the settings of one broker or of all brokers may have changed."""
        return self.is_snapshot or any(kind == r.BROKER for kind, _ in self.changed_configs)

    @property
    def touches_subscriptions(self) -> bool:
        """True if a subscription to clients' metrics may have changed."""
        return self.is_snapshot or any(kind == r.CLIENT_METRICS for kind, _ in self.changed_configs)

    @property
    def touches_quotas(self) -> bool:
        """True if a client quota may have changed."""
        return self.is_snapshot or bool(self.changed_quotas)

    def __bool__(self) -> bool:
        return (
            self.is_snapshot
            or self.features_changed
            or self.is_audited
            or any((self.new_topics, self.deleted_topics, self.changed_partitions))
            or any((self.changed_brokers, self.changed_configs))
            or any((self.new_acls, self.deleted_acls, self.changed_quotas))
        )


@dataclass(slots=True)
class MetadataImage:
    """The cluster's metadata after all records of the log up to and including `offset`."""

    cluster_id: str | None = None
    offset: int = -1
    epoch: int = -1
    """The controller epoch of the record at `offset`."""
    controller_id: int = -1
    brokers: dict[int, BrokerRegistration] = field(default_factory=dict)
    topics: dict[bytes, Topic] = field(default_factory=dict)
    topic_ids: dict[str, bytes] = field(default_factory=dict)
    configs: dict[ConfigResource, dict[str, str]] = field(default_factory=dict)
    features: dict[str, int] = field(default_factory=dict)
    acls: dict[bytes, Acl] = field(default_factory=dict)
    """The access control entries by their ids, in the order of their creation."""
    scram: dict[tuple[int, str], ScramCredential] = field(default_factory=dict)
    """The SCRAM credentials by mechanism (1 for SHA-256, 2 for SHA-512) and user."""
    scram_secret: bytes = field(default=b"", repr=False)
    """The secret that salts for unknown users derive from; empty before the first credential."""
    quotas: dict[QuotaEntity, dict[str, float]] = field(default_factory=dict)
    """The client quotas: for each entity the values by key. A change replaces the inner dict."""
    tokens: dict[str, DelegationToken] = field(default_factory=dict)
    """The delegation tokens by their ids; expired ones are included until they are removed."""
    next_producer_id: int = 0
    audited: AuditTrail = field(default_factory=AuditTrail)
    """The newest requests that were audited. It changes nothing else here."""
    unknown_records: list[r.UnknownRecord] = field(default_factory=list)

    def apply(self, record: r.MetadataRecord, offset: int, delta: Delta | None = None) -> None:
        """Apply the record at `offset`, and add its changes to `delta` if one is given."""
        delta = delta if delta is not None else Delta()
        _APPLY[type(record)](self, record, offset, delta)
        self.offset = offset

    def topic(self, name: str) -> Topic | None:
        """Return the topic of that name, or None."""
        topic_id = self.topic_ids.get(name)
        return None if topic_id is None else self.topics[topic_id]

    def partition(self, topic_id: bytes, index: int) -> PartitionState | None:
        """Return the partition's state; None if there is no such partition."""
        topic = self.topics.get(topic_id)
        return None if topic is None else topic.partitions.get(index)

    def partitions(self) -> Iterator[tuple[TopicIdPartition, PartitionState]]:
        """Yield every partition, topic by topic in the order of creation."""
        for topic in self.topics.values():
            for index, state in topic.partitions.items():
                yield TopicIdPartition(topic.topic_id, index), state

    def copy(self) -> "MetadataImage":
        """Return a copy that does not change when further records are applied to this image."""
        return replace(
            self,
            brokers=dict(self.brokers),
            topics={
                topic_id: replace(topic, partitions=dict(topic.partitions))
                for topic_id, topic in self.topics.items()
            },
            topic_ids=dict(self.topic_ids),
            configs=dict(self.configs),
            features=dict(self.features),
            acls=dict(self.acls),
            scram=dict(self.scram),
            quotas=dict(self.quotas),
            tokens=dict(self.tokens),
            audited=self.audited.copy(),
            unknown_records=list(self.unknown_records),
        )

    def to_records(self) -> Iterator[r.MetadataRecord]:
        """Yield the records of a snapshot; applied to an empty image, they make an equal image."""
        if self.cluster_id is not None:
            yield r.ClusterRecord(self.cluster_id)
        if self.epoch >= 0:
            yield r.ControllerElected(self.controller_id, self.epoch)
        for name, level in self.features.items():
            yield r.FeatureRecord(name, level)
        for broker in self.brokers.values():
            yield r.RegisterBrokerRecord(**_values(broker, _BROKER_FIELDS))
        for topic in self.topics.values():
            yield r.TopicRecord(topic.name, topic.topic_id, unknown=topic.unknown)
            for index, state in topic.partitions.items():
                values = _values(state, _PARTITION_FIELDS)
                yield r.PartitionRecord(topic.topic_id, index, **values)
        for (resource_type, name), config in self.configs.items():
            for key, value in config.items():
                yield r.ConfigRecord(resource_type, name, key, value)
        for acl_id, acl in self.acls.items():
            yield r.AccessControlEntryRecord(acl_id, **_values(acl, _ACL_FIELDS))
        if self.scram_secret:
            yield r.ScramSecretRecord(self.scram_secret)
        for (mechanism, name), credential in self.scram.items():
            yield r.ScramCredentialRecord(name, mechanism, *credential)
        for entity, quotas in self.quotas.items():
            for key, bound in quotas.items():
                yield r.ClientQuotaRecord(dict(entity), key, bound)
        for token_id, token in self.tokens.items():
            yield r.DelegationTokenRecord(token_id, *token)
        if self.next_producer_id:
            yield r.ProducerIdsRecord(-1, -1, self.next_producer_id)
        yield from self.audited
        yield from self.unknown_records


def _cluster(image: MetadataImage, record: r.ClusterRecord, offset: int, delta: Delta) -> None:
    image.cluster_id = record.cluster_id


def _elected(image: MetadataImage, record: r.ControllerElected, offset: int, delta: Delta) -> None:
    image.controller_id = record.controller_id
    image.epoch = record.epoch


def _feature(image: MetadataImage, record: r.FeatureRecord, offset: int, delta: Delta) -> None:
    if record.level:
        image.features[record.name] = record.level
    else:
        image.features.pop(record.name, None)
    delta.features_changed = True


def _register(
    image: MetadataImage, record: r.RegisterBrokerRecord, offset: int, delta: Delta
) -> None:
    values = _values(record, _BROKER_FIELDS)
    if record.broker_epoch < 0:
        values["broker_epoch"] = offset
    image.brokers[record.broker_id] = BrokerRegistration(**values)
    delta.changed_brokers[record.broker_id] = None


def _change_broker(
    image: MetadataImage, record: r.BrokerChangeRecord, offset: int, delta: Delta
) -> None:
    broker = _known_broker(image, record, offset)
    image.brokers[record.broker_id] = replace(
        broker, **_set_in(record, ("fenced", "in_controlled_shutdown"))
    )
    delta.changed_brokers[record.broker_id] = None


def _unregister(
    image: MetadataImage, record: r.UnregisterBrokerRecord, offset: int, delta: Delta
) -> None:
    _known_broker(image, record, offset)
    del image.brokers[record.broker_id]
    delta.changed_brokers[record.broker_id] = None


def _topic(image: MetadataImage, record: r.TopicRecord, offset: int, delta: Delta) -> None:
    if record.name in image.topic_ids or record.topic_id in image.topics:
        raise RemoteProtocolError(f"offset {offset}: topic {record.name!r} exists")
    image.topics[record.topic_id] = Topic(record.name, record.topic_id, unknown=record.unknown)
    image.topic_ids[record.name] = record.topic_id
    delta.new_topics[record.topic_id] = None


def _remove_topic(
    image: MetadataImage, record: r.RemoveTopicRecord, offset: int, delta: Delta
) -> None:
    topic = _known_topic(image, record.topic_id, offset)
    del image.topics[record.topic_id]
    del image.topic_ids[topic.name]
    image.configs.pop((r.TOPIC, topic.name), None)
    delta.new_topics.pop(record.topic_id, None)
    delta.changed_configs.pop((r.TOPIC, topic.name), None)
    for index in topic.partitions:
        delta.changed_partitions.pop(TopicIdPartition(record.topic_id, index), None)
    delta.deleted_topics[record.topic_id] = topic


def _partition(image: MetadataImage, record: r.PartitionRecord, offset: int, delta: Delta) -> None:
    topic = _known_topic(image, record.topic_id, offset)
    topic.partitions[record.partition] = _state(_values(record, _PARTITION_FIELDS))
    delta.changed_partitions[TopicIdPartition(record.topic_id, record.partition)] = None


def _change_partition(
    image: MetadataImage, record: r.PartitionChangeRecord, offset: int, delta: Delta
) -> None:
    topic = _known_topic(image, record.topic_id, offset)
    old = topic.partitions.get(record.partition)
    if old is None:
        raise RemoteProtocolError(f"offset {offset}: no partition for {record}")
    topic.partitions[record.partition] = changed(old, record)
    delta.changed_partitions[TopicIdPartition(record.topic_id, record.partition)] = None


def changed(old: PartitionState, change: r.PartitionChangeRecord) -> PartitionState:
    """Return the partition's state after the change."""
    values = _values(old, _PARTITION_FIELDS) | _set_in(change, _CHANGEABLE)
    values["leader_epoch"] += change.leader is not None
    values["partition_epoch"] += 1
    if change.recovering:
        values["unclean_epoch"] = values["leader_epoch"]
    return _state(values)


def _config(image: MetadataImage, record: r.ConfigRecord, offset: int, delta: Delta) -> None:
    resource = (record.resource_type, record.resource_name)
    _set_value(image.configs, resource, record.key, record.value)
    delta.changed_configs[resource] = None


def _set_value(tables: dict[K, dict[str, V]], owner: K, key: str, value: V | None) -> None:
    """Set or, if `value` is None, remove a key of one owner, in a new table.

    An owner without a key has no table.
    """
    table = dict(tables.get(owner, {}))
    if value is None:
        table.pop(key, None)
    else:
        table[key] = value
    if table:
        tables[owner] = table
    else:
        tables.pop(owner, None)


def _producer_ids(
    image: MetadataImage, record: r.ProducerIdsRecord, offset: int, delta: Delta
) -> None:
    image.next_producer_id = record.next_producer_id


def _acl(
    image: MetadataImage, record: r.AccessControlEntryRecord, offset: int, delta: Delta
) -> None:
    if record.id in image.acls:
        raise RemoteProtocolError(f"offset {offset}: ACL {record.id.hex()} exists")
    acl = Acl(**_values(record, _ACL_FIELDS))
    image.acls[record.id] = delta.new_acls[record.id] = acl


def _scram_secret(
    image: MetadataImage, record: r.ScramSecretRecord, offset: int, delta: Delta
) -> None:
    image.scram_secret = record.secret


def _scram(
    image: MetadataImage, record: r.ScramCredentialRecord, offset: int, delta: Delta
) -> None:
    image.scram[record.mechanism, record.name] = ScramCredential(
        record.salt, record.stored_key, record.server_key, record.iterations
    )


def _remove_scram(
    image: MetadataImage, record: r.RemoveScramCredentialRecord, offset: int, delta: Delta
) -> None:
    if image.scram.pop((record.mechanism, record.name), None) is None:
        raise RemoteProtocolError(f"offset {offset}: no credential for {record}")


def _quota(image: MetadataImage, record: r.ClientQuotaRecord, offset: int, delta: Delta) -> None:
    entity = tuple(sorted(record.entity.items()))
    _set_value(image.quotas, entity, record.key, record.value)
    delta.changed_quotas[entity] = None


def _token(
    image: MetadataImage, record: r.DelegationTokenRecord, offset: int, delta: Delta
) -> None:
    image.tokens[record.token_id] = DelegationToken(**_values(record, _TOKEN_FIELDS))


def _remove_token(
    image: MetadataImage, record: r.RemoveDelegationTokenRecord, offset: int, delta: Delta
) -> None:
    if image.tokens.pop(record.token_id, None) is None:
        raise RemoteProtocolError(f"offset {offset}: no token {record.token_id}")


def _remove_acl(
    image: MetadataImage, record: r.RemoveAccessControlEntryRecord, offset: int, delta: Delta
) -> None:
    acl = image.acls.pop(record.id, None)
    if acl is None:
        raise RemoteProtocolError(f"offset {offset}: no ACL {record.id.hex()}")
    if delta.new_acls.pop(record.id, None) is None:
        delta.deleted_acls[record.id] = acl


def _audited(image: MetadataImage, record: r.AuditedRecord, offset: int, delta: Delta) -> None:
    image.audited.add(record if record.offset >= 0 else replace(record, offset=offset))
    delta.is_audited = True


def _unknown(image: MetadataImage, record: r.UnknownRecord, offset: int, delta: Delta) -> None:
    image.unknown_records.append(record)


_APPLY: dict[type[r.MetadataRecord], Callable[[MetadataImage, Any, int, Delta], None]] = {
    r.ClusterRecord: _cluster,
    r.ControllerElected: _elected,
    r.FeatureRecord: _feature,
    r.RegisterBrokerRecord: _register,
    r.BrokerChangeRecord: _change_broker,
    r.UnregisterBrokerRecord: _unregister,
    r.TopicRecord: _topic,
    r.RemoveTopicRecord: _remove_topic,
    r.PartitionRecord: _partition,
    r.PartitionChangeRecord: _change_partition,
    r.ConfigRecord: _config,
    r.ProducerIdsRecord: _producer_ids,
    r.AccessControlEntryRecord: _acl,
    r.RemoveAccessControlEntryRecord: _remove_acl,
    r.ScramSecretRecord: _scram_secret,
    r.ScramCredentialRecord: _scram,
    r.RemoveScramCredentialRecord: _remove_scram,
    r.ClientQuotaRecord: _quota,
    r.DelegationTokenRecord: _token,
    r.RemoveDelegationTokenRecord: _remove_token,
    r.AuditedRecord: _audited,
    r.UnknownRecord: _unknown,
}


@lru_cache(maxsize=4096)
def _shared(brokers: tuple[int, ...]) -> tuple[int, ...]:
    """Return one tuple for all partitions with these brokers, to save memory."""
    return brokers


def _state(values: dict[str, Any]) -> PartitionState:
    values["replicas"], values["isr"] = _shared(values["replicas"]), _shared(values["isr"])
    return PartitionState(**values)


def _values(one: object, names: Iterable[str]) -> dict[str, Any]:
    return {name: getattr(one, name) for name in names}


def _set_in(change: object, names: Iterable[str]) -> dict[str, Any]:
    return {name: new for name in names if (new := getattr(change, name)) is not None}


def _known_broker(
    image: MetadataImage, record: r.BrokerChangeRecord | r.UnregisterBrokerRecord, offset: int
) -> BrokerRegistration:
    broker = image.brokers.get(record.broker_id)
    if broker is None or broker.broker_epoch != record.broker_epoch:
        raise RemoteProtocolError(f"offset {offset}: no broker for {record}")
    return broker


def _known_topic(image: MetadataImage, topic_id: bytes, offset: int) -> Topic:
    topic = image.topics.get(topic_id)
    if topic is None:
        raise RemoteProtocolError(f"offset {offset}: no topic {topic_id.hex()}")
    return topic
