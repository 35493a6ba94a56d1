"""Records of the metadata log: each is MessagePack [type, version, fields].

Fields are only ever appended, and the version grows with each. A type or field that we do not know
is kept and written back unchanged, so that an old node's snapshot loses nothing. Only
`MetadataImage.apply` gives the records their meaning.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, Final, TypeVar, dataclass_transform

from ..errors import LocalProtocolError, RemoteProtocolError
from ..types import Buffer
from .messages import Endpoint, VersionRange
from .packing import Offset, dumps, from_plain, loads, packed, to_plain

METADATA_VERSION: Final = "metadata.version"
ELIGIBLE_LEADERS: Final = "eligible.leader.replicas.version"
"""The name of a feature. From level 1 on an ISR may become empty. A replica that leaves an ISR
smaller than min.insync.replicas is kept as an eligible leader, which can lead without loss
(KIP-966)."""
TRANSACTION_VERSION: Final = "transaction.version"
"""The name of a feature. From level 1 on, records of transactions may carry tagged fields. From
level 2 on, each end of a transaction raises the producer's epoch, and Produce adds partitions to
the transaction (KIP-890, part 2)."""
REPLICA_PROOF: Final = "minikafka.replica.proof"
"""The name of a feature that a broker registers if its replica fetches carry its incarnation id. It
is never finalised: leaders require the id of exactly those brokers that have registered it."""
SUPPORTED_FEATURES: Final = {
    METADATA_VERSION: VersionRange(1, 1),
    ELIGIBLE_LEADERS: VersionRange(0, 1),
    TRANSACTION_VERSION: VersionRange(0, 2),
}
"""The levels that this code can work with. The finalised levels are in the image."""
METADATA_TOPIC: Final = "__cluster_metadata"
"""The name of the log that holds the records."""

TOPIC: Final = 2
BROKER: Final = 4
CLIENT_METRICS: Final = 16
"""Resource types of ConfigRecord, with the numbers of Kafka's configuration APIs."""

R = TypeVar("R")


@dataclasses.dataclass(frozen=True, slots=True)
class Unknown:
    """Fields that a newer version appended to a record whose type we know."""

    version: int
    fields: tuple[Any, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class MetadataRecord:
    """One record of the metadata log; `unknown` keeps fields of a newer version."""

    unknown: Unknown | None = dataclasses.field(default=None, kw_only=True)


@dataclasses.dataclass(frozen=True, slots=True)
class UnknownRecord(MetadataRecord):
    """A record of a type that we do not know."""

    type: int
    version: int
    fields: tuple[Any, ...]


RECORD_TYPES: dict[int, tuple[type[MetadataRecord], int]] = {}
"""The record class of each type, and the newest version of the record that we know."""
_type_of: dict[type[MetadataRecord], tuple[int, int]] = {}


@dataclass_transform(frozen_default=True)
def _record(number: int, *, version: int = 1) -> Callable[[type[R]], type[R]]:
    def declare(cls: type[R]) -> type[R]:
        declared = packed(cls)
        assert issubclass(declared, MetadataRecord)
        assert number not in RECORD_TYPES, f"record type {number} is taken"
        RECORD_TYPES[number] = (declared, version)
        _type_of[declared] = (number, version)
        return declared

    return declare


@_record(1)
class ClusterRecord(MetadataRecord):
    """The cluster's id. It is the first record of the metadata log."""

    cluster_id: str


@_record(2)
class ControllerElected(MetadataRecord):
    """The controller whose records follow; each controller epoch begins with such a record."""

    controller_id: int
    epoch: int


@_record(3)
class FeatureRecord(MetadataRecord):
    """The finalised level of a feature, which every node supports; level 0 removes the feature."""

    name: str
    level: int


@_record(4)
class RegisterBrokerRecord(MetadataRecord):
    """A broker's registration. If `broker_epoch` is -1, the epoch is this record's offset."""

    broker_id: int
    incarnation_id: bytes
    directory_ids: tuple[bytes, ...]
    endpoints: tuple[Endpoint, ...]
    rack: str | None
    features: dict[str, VersionRange]
    fenced: bool = True
    in_controlled_shutdown: bool = False
    broker_epoch: int = -1


@_record(5)
class BrokerChangeRecord(MetadataRecord):
    """A broker was fenced, unfenced, or began to shut down; a field of None is unchanged."""

    broker_id: int
    broker_epoch: int
    fenced: bool | None = None
    in_controlled_shutdown: bool | None = None


@_record(6)
class TopicRecord(MetadataRecord):
    """A topic was created; its partitions follow in the same batch."""

    name: str
    topic_id: bytes


@_record(7)
class RemoveTopicRecord(MetadataRecord):
    """A topic was deleted, with its partitions and its configuration."""

    topic_id: bytes


@_record(8, version=2)
class PartitionRecord(MetadataRecord):
    """The whole state of a partition, written at its creation and in snapshots."""

    topic_id: bytes
    partition: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int = 0
    partition_epoch: int = 0
    recovering: bool = False
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    directories: tuple[bytes, ...] = ()
    unclean_epoch: int = -1
    electing: bool = False
    offline: tuple[int, ...] = ()


@_record(9, version=2)
class PartitionChangeRecord(MetadataRecord):
    """The changes to a partition; a field of None is unchanged.

    Each record raises the partition epoch by one. It raises the leader epoch by one too if `leader`
    is set, even to the present leader. If `recovering` is true, `leader` is elected uncleanly, and
    the new leader epoch becomes the partition's `unclean_epoch`.
    """

    topic_id: bytes
    partition: int
    isr: tuple[int, ...] | None = None
    leader: int | None = None
    recovering: bool | None = None
    replicas: tuple[int, ...] | None = None
    elr: tuple[int, ...] | None = None
    last_known_elr: tuple[int, ...] | None = None
    adding: tuple[int, ...] | None = None
    removing: tuple[int, ...] | None = None
    directories: tuple[bytes, ...] | None = None
    electing: bool | None = None
    offline: tuple[int, ...] | None = None


@_record(10)
class ConfigRecord(MetadataRecord):
    """One configuration key of a resource is set, or removed if `value` is None.

    The broker name "" stands for the default of all brokers.
    """

    resource_type: int
    resource_name: str
    key: str
    value: str | None


@_record(11)
class ProducerIdsRecord(MetadataRecord):
    """A broker was given a block of producer ids; the next block begins at `next_producer_id`."""

    broker_id: int
    broker_epoch: int
    next_producer_id: int


@_record(12)
class UnregisterBrokerRecord(MetadataRecord):
    """A broker's registration was removed. The broker must register again if it comes back."""

    broker_id: int
    broker_epoch: int


@_record(13)
class AccessControlEntryRecord(MetadataRecord):
    """An access control entry was created (`protocol/acls.py` has its codes)."""

    id: bytes
    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission: int


@_record(14)
class RemoveAccessControlEntryRecord(MetadataRecord):
    """An access control entry was deleted."""

    id: bytes


@_record(15)
class ScramSecretRecord(MetadataRecord):
    """A random secret, written with the first SCRAM credential.

    Brokers derive from it the salts that they send for unknown users.
    """

    secret: bytes


@_record(16)
class ScramCredentialRecord(MetadataRecord):
    """A user's SCRAM credential was set; mechanism 1 is SCRAM-SHA-256, 2 is SCRAM-SHA-512."""

    name: str
    mechanism: int
    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int


@_record(17)
class RemoveScramCredentialRecord(MetadataRecord):
    """A user's SCRAM credential was deleted."""

    name: str
    mechanism: int


@_record(18)
class ClientQuotaRecord(MetadataRecord):
    """One quota of an entity was set, or removed if `value` is None.

    `entity` maps types to names; the name None is the default of its type (`protocol/quotas.py`).
    """

    entity: dict[str, str | None]
    key: str
    value: float | None


@_record(19)
class DelegationTokenRecord(MetadataRecord):
    """A delegation token was made or renewed (`protocol/tokens.py` has its fields).

    Its secret is not in the log.
    """

    token_id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issued_ms: int
    expires_ms: int
    latest_ms: int


@_record(20)
class RemoveDelegationTokenRecord(MetadataRecord):
    """A delegation token was removed, because it expired or was ended."""

    token_id: str


@packed
class AuditedChange:
    """One thing that a request changed: an aspect of a resource, before and after."""

    kind: str
    name: str
    aspect: str
    before: str | None
    after: str | None


@_record(21)
class AuditedRecord(MetadataRecord):
    """The last record of a request's batch while auditing is on: who changed what.

    The leader of the audit topic's partition writes it there.
    """

    number: Offset
    """The number of this record among its kind, from 1 on."""
    action: str
    principal: str
    """The client's principal; empty if a broker asked in its own name."""
    client_id: str
    host: str
    request_id: bytes
    at_ms: int
    changes: tuple[AuditedChange, ...]
    left_out: int = 0
    """The changes that are not in `changes`, because they would be too many or too large."""
    offset: Offset = -1
    """The offset in the metadata log; -1 stands for this record's own offset."""


def encode_record(record: MetadataRecord) -> bytes:
    """Encode a record as the value of one record in a metadata batch.

    Raise LocalProtocolError if it is no metadata record.
    """
    if isinstance(record, UnknownRecord):
        return dumps([record.type, record.version, record.fields])
    try:
        number, version = _type_of[type(record)]
    except KeyError:
        raise LocalProtocolError(f"{type(record).__name__} is not a metadata record") from None
    fields = to_plain(record)
    if record.unknown is not None:
        fields.extend(record.unknown.fields)
        version = record.unknown.version
    return dumps([number, version, fields])


def decode_record(value: Buffer) -> MetadataRecord:
    """Decode one record, as an UnknownRecord if its type is unknown.

    Raise RemoteProtocolError if the bytes are malformed.
    """
    plain = loads(value)
    if type(plain) is not list or len(plain) < 3:
        raise RemoteProtocolError("a metadata record is [type, version, fields]")
    number, version, fields = plain[:3]
    if type(number) is not int or type(version) is not int or type(fields) is not list:
        raise RemoteProtocolError("a metadata record is [type, version, fields]")
    if number not in RECORD_TYPES:
        return UnknownRecord(number, version, tuple(fields))
    cls, known_version = RECORD_TYPES[number]
    record, extra = from_plain(cls, fields)
    if extra or version > known_version:
        record = dataclasses.replace(record, unknown=Unknown(version, tuple(extra)))
    return record
