"""Subscriptions and assignments of consumers: the bytes inside JoinGroup and SyncGroup.

If a group's protocol type is `consumer`, JoinGroup's `metadata` and SyncGroup's `assignment` are an
int16 version, then one of the messages below. A newer version is read as the newest known here,
because Kafka promises that versions only append fields. Pure.
"""

from typing import Final

from .schema import Bytes, Int32, String, data, field, nested
from .versioned import decode_versioned, encode_versioned

PROTOCOL_TYPE: Final = "consumer"
NO_GENERATION: Final = -1
_NEWEST: Final = 3


@nested
class TopicPartitions:
    """Partitions of one topic."""

    topic: String
    partitions: list[Int32]


@data(versions="0-3", flexible="none")
class ConsumerProtocolSubscription:
    """The topics that a member wants and the partitions that it owns."""

    topics: list[String]
    user_data: Bytes | None = field(default=None)
    """Bytes that only the assignor of the group reads."""
    owned_partitions: list[TopicPartitions] = field("1+", default=[])
    """The partitions that the member owns at the time of joining (KIP-429)."""
    generation_id: Int32 = field("2+", default=NO_GENERATION)
    """The generation in which the member got `owned_partitions` (KIP-792)."""
    rack_id: String | None = field("3+", default=None)
    """The member's rack (KIP-881)."""


@data(versions="0-3", flexible="none")
class ConsumerProtocolAssignment:
    """The partitions that a member is given."""

    assigned_partitions: list[TopicPartitions]
    user_data: Bytes | None = field(default=None)


def encode_subscription(
    subscription: ConsumerProtocolSubscription, version: int = _NEWEST
) -> bytes:
    """Encode a member's metadata for JoinGroup."""
    return encode_versioned(subscription, version)


def decode_subscription(encoded: bytes) -> ConsumerProtocolSubscription:
    """Decode a member's metadata of JoinGroup; raise RemoteProtocolError if it is malformed."""
    return decode_versioned(
        ConsumerProtocolSubscription, encoded, ConsumerProtocolSubscription.__name__
    )[1]


def topics_of(metadata: bytes) -> tuple[str, ...]:
    """Return the topics in a consumer's metadata, sorted.

    Raise RemoteProtocolError if the metadata is malformed.
    """
    return tuple(sorted(decode_subscription(metadata).topics))


def encode_assignment(assignment: ConsumerProtocolAssignment, version: int = _NEWEST) -> bytes:
    """Encode a member's assignment for SyncGroup."""
    return encode_versioned(assignment, version)


def decode_assignment(encoded: bytes) -> ConsumerProtocolAssignment:
    """Decode a member's assignment of SyncGroup; empty bytes stand for no partitions.

    Raise RemoteProtocolError if the assignment is malformed.
    """
    if not encoded:
        return ConsumerProtocolAssignment(assigned_partitions=[])
    return decode_versioned(
        ConsumerProtocolAssignment, encoded, ConsumerProtocolAssignment.__name__
    )[1]
