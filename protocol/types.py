"""The nouns that every room shares: ids, offsets, epochs, partitions.

Type hints and small values only; nothing here reads, writes or decides.
"""

import base64
import binascii
from typing import Final, NamedTuple, NewType

Offset = NewType("Offset", int)
"""Position of a record in a partition's log; the first record has offset 0."""

LeaderEpoch = NewType("LeaderEpoch", int)
"""Grows with each leader of a partition; -1 means unknown."""

PartitionEpoch = NewType("PartitionEpoch", int)
"""Grows by one with each change of a partition's metadata record."""

BrokerId = NewType("BrokerId", int)
BrokerEpoch = NewType("BrokerEpoch", int)
"""Offset of the registration record of one start of a broker."""

TopicId = NewType("TopicId", bytes)
"""16 random bytes, fixed at creation: a topic made again under its old name has another."""

ProducerId = NewType("ProducerId", int)

Buffer = bytes | bytearray | memoryview
"""Contiguous bytes that may be sent or written without a copy."""

NO_LEADER: Final = -1
NO_OFFSET: Final = -1
NO_EPOCH: Final = -1
NO_PRODUCER_ID: Final = -1
NO_TIMESTAMP: Final = -1
ZERO_UUID: Final = bytes(16)

INTERNAL_TOPICS: Final = ("__consumer_offsets", "__transaction_state", "__share_group_state")
"""Topics that coordinators keep, under Kafka's names: no client may write or delete there."""


class TopicPartition(NamedTuple):
    """A partition by its topic's name: for the API edge, where names live."""

    topic: str
    partition: int


class TopicIdPartition(NamedTuple):
    """A partition by its topic's id: its identity everywhere inside."""

    topic_id: bytes
    partition: int


class OffsetAndEpoch(NamedTuple):
    """A point in a log; unique across all replicas of the partition."""

    offset: int
    epoch: int


def uuid_to_text(uuid: bytes) -> str:
    """Write 16 bytes as Kafka does: URL-safe base64 without padding, 22 characters."""
    return base64.urlsafe_b64encode(uuid).rstrip(b"=").decode("ascii")


def uuid_from_text(text: str) -> bytes:
    """Read what `uuid_to_text` wrote; ValueError for anything else."""
    try:
        uuid = base64.b64decode(text + "==", altchars=b"-_", validate=True)
    except binascii.Error as error:
        raise ValueError(f"{text!r} is not a URL-safe base64 uuid") from error
    if len(uuid) != 16:
        raise ValueError(f"{text!r} holds {len(uuid)} bytes, a uuid has 16")
    return uuid
