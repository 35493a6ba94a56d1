"""The types and constants that all packages share: ids, offsets, epochs, partitions.

They are type hints and small values, and two functions that convert ids.
"""

import base64
import binascii
from typing import Final, NamedTuple, NewType

Offset = NewType("Offset", int)
"""The position of a record in a partition's log; the first record of a log has offset 0."""

LeaderEpoch = NewType("LeaderEpoch", int)
"""A number that grows with each election of a partition's leader; -1 means unknown."""

PartitionEpoch = NewType("PartitionEpoch", int)
"""A number that grows by one with each change of a partition's metadata."""

BrokerId = NewType("BrokerId", int)
BrokerEpoch = NewType("BrokerEpoch", int)
"""The offset of a broker's registration record, which is new at each start of the broker."""

TopicId = NewType("TopicId", bytes)
"""A topic's id, 16 bytes made at its creation; a topic created later under its name has another."""

ProducerId = NewType("ProducerId", int)

Buffer = bytes | bytearray | memoryview
"""Contiguous bytes that may be sent or written without a copy."""

NO_LEADER: Final = -1
NO_OFFSET: Final = -1
NO_EPOCH: Final = -1
NO_PRODUCER_ID: Final = -1
NO_TIMESTAMP: Final = -1
ZERO_UUID: Final = bytes(16)

AUDIT_TOPIC: Final = "__minikafka_audit"
"""The topic of changes and denials, which its leader writes."""
TRACE_TOPIC: Final = "__minikafka_trace"
"""The topic of trace points, which brokers write. Unlike the other internal ones it may be deleted:
nothing rests on it."""
INTERNAL_TOPICS: Final = (
    "__consumer_offsets",
    "__transaction_state",
    "__share_group_state",
    AUDIT_TOPIC,
    TRACE_TOPIC,
)
"""The cluster's own topics; clients may not produce to them or delete their records."""
WRITTEN_BY_BROKERS: Final = (AUDIT_TOPIC, TRACE_TOPIC)
"""Internal topics that only brokers create."""


class TopicPartition(NamedTuple):
    """A partition by its topic's name, as clients name it."""

    topic: str
    partition: int


class TopicIdPartition(NamedTuple):
    """A partition by its topic's id, as it is named inside the cluster."""

    topic_id: bytes
    partition: int


class OffsetAndEpoch(NamedTuple):
    """An offset and the leader epoch there: a point in a log, the same in all replicas."""

    offset: int
    epoch: int


def uuid_to_text(uuid: bytes) -> str:
    """Encode 16 bytes as Kafka does: URL-safe base64 without padding, 22 characters."""
    return base64.urlsafe_b64encode(uuid).rstrip(b"=").decode("ascii")


def uuid_from_text(text: str) -> bytes:
    """Decode a text of `uuid_to_text`; raise ValueError for anything else."""
    try:
        uuid = base64.b64decode(text + "==", altchars=b"-_", validate=True)
    except binascii.Error as error:
        raise ValueError(f"{text!r} is not a URL-safe base64 uuid") from error
    if len(uuid) != 16:
        raise ValueError(f"{text!r} holds {len(uuid)} bytes, a uuid has 16")
    return uuid
