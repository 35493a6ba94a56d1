"""Metadata: brokers, topics, partitions and their leaders; every client's map of the cluster."""

from ..api import ApiKey
from ..schema import Bool, Int16, Int32, String, Uuid, field, nested, request, response
from ..types import ZERO_UUID

OPERATIONS_NOT_ASKED = -(2**31)


@nested
class MetadataRequestTopic:
    """A topic asked for by name, or from version 10 on by id."""

    topic_id: Uuid = field("10+", default=ZERO_UUID)
    name: String | None = field(default=None, nullable="10+")


@request(ApiKey.METADATA, versions="0-13", flexible="9+")
class MetadataRequest:
    """Ask for brokers and topics."""

    topics: list[MetadataRequestTopic] | None = field(default=None, nullable="1+")
    """The topics; None for all. An empty list means none, but all in version 0."""
    allow_auto_topic_creation: Bool = field("4+", default=True)
    """Create unknown topics if the broker's auto.create.topics.enable agrees."""
    include_cluster_authorized_operations: Bool = field("8-10", default=False)
    include_topic_authorized_operations: Bool = field("8+", default=False)


@nested
class MetadataResponseBroker:
    """A live broker as reached through the listener the request came by."""

    node_id: Int32
    host: String
    port: Int32
    rack: String | None = field("1+", default=None)


@nested
class MetadataResponsePartition:
    """One partition; its replicas as broker ids."""

    error_code: Int16 = field(default=0)
    """LEADER_NOT_AVAILABLE or LISTENER_NOT_FOUND do not make the other fields wrong."""
    partition_index: Int32
    leader_id: Int32
    """The leader's id; -1 if there is none."""
    leader_epoch: Int32 = field("7+", default=-1)
    replica_nodes: list[Int32]
    isr_nodes: list[Int32]
    offline_replicas: list[Int32] = field("5+", default=[])


@nested
class MetadataResponseTopic:
    """One topic, or the error for a topic that was asked for."""

    error_code: Int16 = field(default=0)
    name: String | None = field(nullable="12+")
    """None for an unknown id."""
    topic_id: Uuid = field("10+", default=ZERO_UUID)
    is_internal: Bool = field("1+", default=False)
    partitions: list[MetadataResponsePartition] = field(default=[])
    topic_authorized_operations: Int32 = field("8+", default=OPERATIONS_NOT_ASKED)
    """Bits of the operations allowed; the smallest int32 when not asked for."""


@response(ApiKey.METADATA)
class MetadataResponse:
    """The cluster as this broker knows it."""

    throttle_time_ms: Int32 = field("3+", default=0)
    brokers: list[MetadataResponseBroker]
    cluster_id: String | None = field("2+", default=None)
    controller_id: Int32 = field("1+", default=-1)
    """A live broker that takes admin requests, as controllers do not serve clients."""
    topics: list[MetadataResponseTopic]
    cluster_authorized_operations: Int32 = field("8-10", default=OPERATIONS_NOT_ASKED)
    error_code: Int16 = field("13+", default=0)
    """REBOOTSTRAP_REQUIRED sends the client back to its bootstrap servers (KIP-1102)."""
