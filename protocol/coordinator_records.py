"""Records of `__consumer_offsets` and `__transaction_state`, in Kafka's own format.

A key is an int16 for its kind, then the key's fields. A value is an int16 for its version, then the
value's fields; a record without a value is a tombstone. Pure: broker/coordinator decides what the
records mean. Source: Kafka's schemas GroupMetadataKey, OffsetCommitValue, TransactionLogValue and
so on; KIP-915 (from the first flexible version on, versions only gain tagged fields).
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from . import codec
from .errors import RemoteProtocolError
from .schema import (
    Bytes,
    Int8,
    Int16,
    Int32,
    Int64,
    String,
    data,
    field,
    nested,
    shape_of,
)
from .types import NO_EPOCH, NO_PRODUCER_ID, NO_TIMESTAMP

_KIND: Final = struct.Struct(">h")


@data(versions="0-1", flexible="none")
class OffsetCommitKey:
    """The group and the partition of a committed offset."""

    group: String
    topic: String
    partition: Int32


@data(versions="0-4", flexible="4+")
class OffsetCommitValue:
    """An offset that a group has committed in a partition."""

    offset: Int64
    leader_epoch: Int32 = field("3+", default=NO_EPOCH)
    """The leader epoch of the last record read; -1 if unknown."""
    metadata: String = field(default="")
    commit_timestamp: Int64
    """The wall-clock time of the commit, in ms since the epoch."""
    expire_timestamp: Int64 = field("1", default=NO_TIMESTAMP)
    """The expiry time in ms since the epoch, if the client asked for a retention time. It is -1 if
    the broker's retention applies."""


@data(versions="2", flexible="none")
class GroupMetadataKey:
    """The name of a group."""

    group: String


@nested
class MemberMetadata:
    """A member of a group of the classic protocol."""

    member_id: String
    group_instance_id: String | None = field("3+", default=None)
    client_id: String
    client_host: String
    rebalance_timeout: Int32 = field("1+", default=-1)
    """Milliseconds that a rebalance waits for the member; -1 if the session timeout applies."""
    session_timeout: Int32
    """Milliseconds without a heartbeat after which the member is removed."""
    subscription: Bytes
    assignment: Bytes


@data(versions="0-4", flexible="4+")
class GroupMetadataValue:
    """A generation of a group of the classic protocol."""

    protocol_type: String
    generation: Int32
    protocol: String | None
    leader: String | None
    current_state_timestamp: Int64 = field("2+", default=NO_TIMESTAMP)
    """The wall-clock time of the newest change of state, in ms since the epoch."""
    members: list[MemberMetadata]


@data(versions="0", flexible="none")
class TransactionLogKey:
    """The transactional id that the value is about."""

    transactional_id: String


@nested
class TransactionPartitions:
    """Partitions of one topic that a transaction wrote to."""

    topic: String
    partition_ids: list[Int32]


@data(versions="0-1", flexible="1+")
class TransactionLogValue:
    """The state of a transactional id. The tagged fields do not exist in version 0."""

    producer_id: Int64
    previous_producer_id: Int64 = field("1+", default=NO_PRODUCER_ID, tag=0)
    """The producer id of the newest transaction that has ended."""
    next_producer_id: Int64 = field("1+", default=NO_PRODUCER_ID, tag=1)
    """The producer id that replaces `producer_id` when its epochs are used up; -1 if none does."""
    producer_epoch: Int16
    transaction_timeout_ms: Int32
    transaction_status: Int8
    """0 empty, 1 ongoing, 2 prepared to commit, 3 prepared to abort, 4 committed, 5 aborted."""
    transaction_partitions: list[TransactionPartitions] | None = field(default=[])
    """The partitions of the transaction; None or empty if it has none."""
    transaction_last_update_timestamp_ms: Int64
    transaction_start_timestamp_ms: Int64 = field(default=NO_TIMESTAMP)
    client_transaction_version: Int16 = field("1+", default=0, tag=2)
    """The level of `transaction.version` that the client uses (KIP-890)."""


@data(versions="30000", flexible="none")
class CommitGroupKey:
    """The name of a commit group."""

    group: String


@data(versions="0", flexible="0+")
class CommitGroupValue:
    """The last decision about a commit group, and the runs that may decide next."""

    generation: Int64
    """The generation of the group's newest run."""
    batch_id: Int64
    """The id of the newest committed batch; -1 if none was committed."""
    runs: list[String]
    """The ids of the group's runs, the newest last."""
    last_used_timestamp_ms: Int64
    """The wall-clock time of the last use, in ms since the epoch."""


@dataclass(frozen=True, slots=True)
class OffsetCommitRecord:
    """A group's committed offset in a partition; a value of None removes it."""

    key: OffsetCommitKey
    value: OffsetCommitValue | None


@dataclass(frozen=True, slots=True)
class GroupMetadataRecord:
    """A group's newest generation; a value of None removes the group."""

    key: GroupMetadataKey
    value: GroupMetadataValue | None


@dataclass(frozen=True, slots=True)
class TransactionRecord:
    """A transactional id's state; a value of None removes the id."""

    key: TransactionLogKey
    value: TransactionLogValue | None


@dataclass(frozen=True, slots=True)
class CommitGroupRecord:
    """A commit group's state; a value of None removes the group."""

    key: CommitGroupKey
    value: CommitGroupValue | None


@dataclass(frozen=True, slots=True)
class UnknownRecord:
    """A record of an unknown kind or version, from a newer broker; this broker ignores it."""

    kind: int
    key: bytes
    value: bytes | None


Unread = RemoteProtocolError | UnknownRecord
"""The reason why a coordinator skips a record: malformed bytes, or an unknown kind or version."""
Record = OffsetCommitRecord | GroupMetadataRecord | TransactionRecord | CommitGroupRecord
GroupRecord = OffsetCommitRecord | GroupMetadataRecord | UnknownRecord
TransactionStateRecord = TransactionRecord | CommitGroupRecord | UnknownRecord

_Kinds = Mapping[int, tuple[Any, type, type]]
_OFFSET_COMMIT: Final = (OffsetCommitRecord, OffsetCommitKey, OffsetCommitValue)
_GROUP_METADATA: Final = (GroupMetadataRecord, GroupMetadataKey, GroupMetadataValue)
# Kind 0 was written by brokers before 0.9; its layout is that of kind 1.
_GROUP_KINDS: _Kinds = {0: _OFFSET_COMMIT, 1: _OFFSET_COMMIT, 2: _GROUP_METADATA}
# Kind 30000 is our own: Kafka's tools and older brokers ignore it.
_TRANSACTION_KINDS: _Kinds = {
    0: (TransactionRecord, TransactionLogKey, TransactionLogValue),
    30_000: (CommitGroupRecord, CommitGroupKey, CommitGroupValue),
}
_KEY_VERSIONS: Final = {
    OffsetCommitKey: 1,
    GroupMetadataKey: 2,
    TransactionLogKey: 0,
    CommitGroupKey: 30_000,
}
_VALUE_VERSIONS: Final = {
    OffsetCommitValue: 3,
    GroupMetadataValue: 3,
    TransactionLogValue: 1,
    CommitGroupValue: 0,
}
"""The version in which each value is written unless the caller names one, as in Kafka 4.3."""


def encode_record(record: Record, *, version: int | None = None) -> tuple[bytes, bytes | None]:
    """Encode a record as key and value; `version` is the value's, by default that of Kafka 4.3."""
    key, value = record.key, record.value
    key_bytes = _encode(key, _KEY_VERSIONS[type(key)])
    if value is None:
        return key_bytes, None
    if version is None:
        version = _VALUE_VERSIONS[type(value)]
        if isinstance(value, OffsetCommitValue) and value.expire_timestamp != NO_TIMESTAMP:
            version = 1  # the only one that has the field, as in Kafka
    return key_bytes, _encode(value, version)


def decode_group_record(key: bytes, value: bytes | None) -> GroupRecord:
    """Decode a record of `__consumer_offsets`: an UnknownRecord if its kind or version is unknown.

    Raise RemoteProtocolError if it is malformed.
    """
    found: GroupRecord = _decode(_GROUP_KINDS, key, value)
    return found


def decode_transaction_record(key: bytes, value: bytes | None) -> TransactionStateRecord:
    """Decode a record of `__transaction_state`: an UnknownRecord if its kind or version is unknown.

    Raise RemoteProtocolError if it is malformed.
    """
    found: TransactionStateRecord = _decode(_TRANSACTION_KINDS, key, value)
    return found


def _decode(kinds: _Kinds, key: bytes, value: bytes | None) -> Any:
    kind = _kind(key, "key")
    if kind in kinds:
        record, key_class, value_class = kinds[kind]
        found: Any = codec.decode_at(key_class, kind, memoryview(key), _KIND.size)
        if value is None:
            return record(found, None)
        version = _kind(value, "value")
        if version in shape_of(value_class).versions:
            state: Any = codec.decode_at(value_class, version, memoryview(value), _KIND.size)
            return record(found, state)
    return UnknownRecord(kind, key, value)


def _encode(message: object, version: int) -> bytes:
    return _KIND.pack(version) + codec.encode_bytes(message, version)


def _kind(encoded: bytes, what: str) -> int:
    if len(encoded) < _KIND.size:
        raise RemoteProtocolError(f"a coordinator's record has a {what} of {len(encoded)} bytes")
    (kind,) = _KIND.unpack_from(encoded)
    return int(kind)
