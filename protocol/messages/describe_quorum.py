"""DescribeQuorum: the leader, voters and observers of the metadata log, and their positions."""

from ..api import ApiKey
from ..schema import Int16, Int32, Int64, String, UInt16, Uuid, field, nested, request, response
from ..types import ZERO_UUID


@nested
class QuorumPartition:
    """A partition to describe; the metadata log has only partition 0."""

    partition_index: Int32


@nested
class QuorumTopic:
    """A topic to describe; only the metadata log has a quorum."""

    topic_name: String
    partitions: list[QuorumPartition]


@request(ApiKey.DESCRIBE_QUORUM, versions="0-2", flexible="0+")
class DescribeQuorumRequest:
    """Ask about the quorum of the controllers; the active controller answers."""

    topics: list[QuorumTopic]


@nested
class ReplicaState:
    """One replica of the metadata log, as the leader knows it."""

    replica_id: Int32
    replica_directory_id: Uuid = field("2+", default=ZERO_UUID)
    log_end_offset: Int64
    """The replica's log end offset; -1 if it is unknown."""
    last_fetch_timestamp: Int64 = field("1+", default=-1)
    """The time of the replica's newest fetch by the leader's wall clock, in ms since the epoch. It
    is -1 for the leader itself, and if it is unknown."""
    last_caught_up_timestamp: Int64 = field("1+", default=-1)
    """The wall-clock time, in ms, when the replica last had the whole log; -1 if unknown."""


@nested
class QuorumPartitionData:
    """The metadata log and its replicas."""

    partition_index: Int32
    error_code: Int16 = field(default=0)
    error_message: String | None = field("2+", default="")
    leader_id: Int32 = field(default=-1)
    """The leader's id; -1 if none is known."""
    leader_epoch: Int32 = field(default=-1)
    high_watermark: Int64 = field(default=-1)
    current_voters: list[ReplicaState] = field(default=[])
    observers: list[ReplicaState] = field(default=[])


@nested
class QuorumTopicData:
    """A topic of the request."""

    topic_name: String
    partitions: list[QuorumPartitionData]


@nested
class QuorumListener:
    """An address at which a controller can be reached."""

    name: String
    host: String
    port: UInt16


@nested
class QuorumNode:
    """A controller and its addresses."""

    node_id: Int32
    listeners: list[QuorumListener]


@response(ApiKey.DESCRIBE_QUORUM)
class DescribeQuorumResponse:
    """The quorum as its leader sees it."""

    error_code: Int16 = field(default=0)
    error_message: String | None = field("2+", default="")
    topics: list[QuorumTopicData] = field(default=[])
    nodes: list[QuorumNode] = field("2+", default=[])
