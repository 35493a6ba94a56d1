"""Metadata: read the cluster's brokers, topics, partitions, and the partitions' leaders."""

from ..api import ApiKey
from ..schema import Bool, Int16, Int32, String, Uuid, field, nested, request, response
from ..types import ZERO_UUID

OPERATIONS_NOT_ASKED = -(2**31)


@nested
class MetadataRequestTopic:
    """A topic, given by its name, or from version 10 on by its id."""

    topic_id: Uuid = field("10+", default=ZERO_UUID)
    name: String | None = field(default=None, nullable="10+")


@request(ApiKey.METADATA, versions="0-13", flexible="9+")
class MetadataRequest:
    """Ask for the brokers and for some topics."""

    topics: list[MetadataRequestTopic] | None = field(default=None, nullable="1+")
    """The topics. None means all, and an empty list none; in version 0 an empty list means all."""
    allow_auto_topic_creation: Bool = field("4+", default=True)
    """If true, create unknown topics, if the broker's auto.create.topics.enable is on as well."""
    include_cluster_authorized_operations: Bool = field("8-10", default=False)
    include_topic_authorized_operations: Bool = field("8+", default=False)


@nested
class MetadataResponseBroker:
    """A live broker, with its address on the listener that received the request."""

    node_id: Int32
    host: String
    port: Int32
    rack: String | None = field("1+", default=None)


@nested
class MetadataResponsePartition:
    """One partition; replicas are given as broker ids."""

    error_code: Int16 = field(default=0)
    """The error; with LEADER_NOT_AVAILABLE or LISTENER_NOT_FOUND the other fields are valid too."""
    partition_index: Int32
    leader_id: Int32
    """The leader's id; -1 if there is none."""
    leader_epoch: Int32 = field("7+", default=-1)
    replica_nodes: list[Int32]
    isr_nodes: list[Int32]
    offline_replicas: list[Int32] = field("5+", default=[])


@nested
class MetadataResponseTopic:
    """One topic, or the error for a topic of the request."""

    error_code: Int16 = field(default=0)
    name: String | None = field(nullable="12+")
    """The topic's name; None if the request gave an unknown id."""
    topic_id: Uuid = field("10+", default=ZERO_UUID)
    is_internal: Bool = field("1+", default=False)
    partitions: list[MetadataResponsePartition] = field(default=[])
    topic_authorized_operations: Int32 = field("8+", default=OPERATIONS_NOT_ASKED)
    """The allowed operations as a bit set; the smallest int32 if they were not asked for."""


@response(ApiKey.METADATA)
class MetadataResponse:
    """The cluster as this broker knows it."""

    throttle_time_ms: Int32 = field("3+", default=0)
    brokers: list[MetadataResponseBroker]
    cluster_id: String | None = field("2+", default=None)
    controller_id: Int32 = field("1+", default=-1)
    """The id of a live broker that forwards admin requests, since controllers serve no clients."""
    topics: list[MetadataResponseTopic]
    cluster_authorized_operations: Int32 = field("8-10", default=OPERATIONS_NOT_ASKED)
    error_code: Int16 = field("13+", default=0)
    """The error; REBOOTSTRAP_REQUIRED tells the client to start again from its bootstrap servers
    (KIP-1102)."""
