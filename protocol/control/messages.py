"""Requests and answers of the control protocol, each registered under its kind.

A request class names its answer in its type: `RegisterBroker(Request[BrokerRegistered])`.
Every answer carries `error` (a Kafka error code) and `message` (for people: what, where, what to
do). `Refused` may answer anything. Ids are 16 raw bytes; times are milliseconds.
"""

from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar, dataclass_transform, get_args

from ..errors import LocalProtocolError
from .packing import Epoch, Index, Int16, NodeId, Offset, Port, packed

PROTOCOL_VERSION_MIN: Final = 1
PROTOCOL_VERSION_MAX: Final = 1
ROLE_BROKER: Final = 1
ROLE_CONTROLLER: Final = 2
ROLE_TOOL: Final = 3
"""The role of a client that is no node of the cluster; its node id is -1."""

A_co = TypeVar("A_co", covariant=True)
T = TypeVar("T")

KINDS: dict[int, type[Any]] = {}
"""The message class of each kind."""
ANSWERS: dict[type[Any], type[Any]] = {}
"""The answer that each request class expects."""
_kind_of: dict[type[Any], int] = {}


class Request(Generic[A_co]):
    """A message that is answered by an `A_co` or by `Refused`."""

    __slots__ = ()


@dataclass_transform(frozen_default=True)
def message(kind: int) -> Callable[[type[T]], type[T]]:
    """Declare a message under its number, which is never given to another one."""

    def declare(cls: type[T]) -> type[T]:
        declared = packed(cls)
        assert kind not in KINDS, f"kind {kind} is taken"
        KINDS[kind] = declared
        _kind_of[declared] = kind
        if issubclass(declared, Request):
            (request,) = (b for b in declared.__orig_bases__)  # type: ignore[attr-defined]
            ANSWERS[declared] = get_args(request)[0]
        return declared

    return declare


def kind_of(cls: type[Any]) -> int:
    """The number a message class was declared under."""
    try:
        return _kind_of[cls]
    except KeyError:
        raise LocalProtocolError(f"{cls.__name__} is not a control message") from None


@packed
class Endpoint:
    """The address of a listener, as seen from outside."""

    name: str
    host: str
    port: Port
    security_protocol: str = "PLAINTEXT"


@packed
class VersionRange:
    """The levels of a feature that a node can work with."""

    lowest: Int16
    highest: Int16


@packed
class Answer:
    """The beginning of every answer."""

    error: Int16
    message: str = ""


@message(1)
class Refused(Answer):
    """The request was not carried out; may answer any request."""

    active_controller: Endpoint | None = None
    """After NOT_CONTROLLER: the address of the active controller, if known."""


@message(2)
class HelloAnswer(Answer):
    """The first frame back. After an error the connection is closed."""

    cluster_id: str | None = None
    version: Int16 = PROTOCOL_VERSION_MAX
    node_id: NodeId = -1
    active_controller: Endpoint | None = None
    """The active controller's address, if this controller is not the active one."""
    active_id: NodeId = -1
    """The quorum's leader as far as this controller knows; its own id if it leads."""


@message(3)
class Hello(Request[HelloAnswer]):
    """The first frame on a connection: the node, its cluster and the versions that it speaks."""

    cluster_id: str | None
    """None until the node has learnt the id."""
    min_version: Int16
    max_version: Int16
    node_id: NodeId
    role: Int16
    incarnation_id: bytes


@message(4)
class BrokerRegistered(Answer):
    """The broker epoch names this start of the broker in everything it asks from now on."""

    broker_epoch: Offset = -1


@message(5)
class RegisterBroker(Request[BrokerRegistered]):
    """Join the cluster, fenced. The same incarnation may repeat it to change its endpoints."""

    broker_id: NodeId
    incarnation_id: bytes
    directory_ids: tuple[bytes, ...]
    endpoints: tuple[Endpoint, ...]
    """The first is the inter-broker listener, the one that the controller probes."""
    rack: str | None
    features: dict[str, VersionRange]
    previous_broker_epoch: Offset = -1
    """The epoch in the clean-shutdown file; -1 after an unclean stop."""


@message(6)
class HeartbeatAnswer(Answer):
    """The broker's standing with the controller."""

    is_caught_up: bool = False
    is_fenced: bool = True
    should_shut_down: bool = False
    lease_ms: int = 0
    """Milliseconds, from the sending of the heartbeat, in which the broker may act as a leader. 0:
    leases are off; -1: none is granted."""


@message(7)
class BrokerHeartbeat(Request[HeartbeatAnswer]):
    """The state that the broker wants, and how far it has applied the metadata log."""

    broker_id: NodeId
    broker_epoch: Offset
    metadata_offset: Offset
    """Offset of the last record applied, -1 for none."""
    want_fence: bool
    want_shutdown: bool
    offline_directory_ids: tuple[bytes, ...] = ()


@packed
class SnapshotId:
    """A snapshot holds everything before `end_offset`; `epoch` is that of the record before it."""

    end_offset: Offset
    epoch: Epoch


@message(8)
class MetadataFetched(Answer):
    """Whole metadata batches from the offset asked for, or the snapshot to load first.

    OFFSET_OUT_OF_RANGE: the reader holds records that this log lacks; it starts again at offset 0.
    """

    high_watermark: Offset = -1
    epoch: Epoch = -1
    """Epoch of the active controller."""
    records: bytes = b""
    snapshot: SnapshotId | None = None


@message(9)
class FetchMetadata(Request[MetadataFetched]):
    """Fetch committed metadata from `offset` on; the answer comes as soon as there is some."""

    offset: Offset
    """The first offset wanted: one after the last record applied."""
    epoch: Epoch
    """Epoch of the last record applied, -1 at offset 0."""
    max_wait_ms: int
    max_bytes: int = 1 << 20


@message(10)
class SnapshotFetched(Answer):
    """A part of a snapshot; it is complete when `position + len(data)` reaches `size`."""

    size: int = 0
    position: int = 0
    data: bytes = b""


@message(11)
class FetchSnapshot(Request[SnapshotFetched]):
    """One part of the snapshot that a `MetadataFetched` named."""

    snapshot: SnapshotId
    position: int
    max_bytes: int = 1 << 20


@packed
class IsrMember:
    """A broker that the leader found in sync, and the start of it that the leader saw."""

    broker_id: NodeId
    broker_epoch: Offset
    """-1 when the leader does not know it."""


@packed
class PartitionChange:
    """A leader's proposal for one partition."""

    topic_id: bytes
    partition: Index
    leader_epoch: Epoch
    partition_epoch: Epoch
    isr: tuple[IsrMember, ...]
    recovering: bool = False


@packed
class ChangedPartition:
    """The result of one proposal: the partition as the controller now has it, or an error."""

    topic_id: bytes
    partition: Index
    error: Int16
    leader: NodeId = -1
    leader_epoch: Epoch = -1
    partition_epoch: Epoch = -1
    isr: tuple[NodeId, ...] = ()
    recovering: bool = False
    message: str = ""
    min_isr: Epoch = -1
    """The min.insync.replicas that the controller decided by: the leader may not know it yet."""


@message(12)
class PartitionsAltered(Answer):
    """One result per proposal, in the order asked; `error` is for all of them."""

    partitions: tuple[ChangedPartition, ...] = ()


@message(13)
class AlterPartitions(Request[PartitionsAltered]):
    """ISR changes of partitions that the sender leads."""

    broker_id: NodeId
    broker_epoch: Offset
    changes: tuple[PartitionChange, ...]


@message(14)
class ForwardedAnswer(Answer):
    """The Kafka response body, in the version the request was forwarded in."""

    body: bytes = b""


@message(15)
class ForwardedRequest(Request[ForwardedAnswer]):
    """A client's admin request, passed on by the broker it reached."""

    api_key: Int16
    api_version: Int16
    body: bytes
    """The Kafka request body, without its header."""
    principal: str
    deadline_ms: int
    """Milliseconds left, counted by the receiver from arrival: clocks of two hosts differ."""
    idempotency_key: bytes = b""
    """Equal in every retry of one request: a retry gets the answer of the first."""


@message(16)
class ProducerIdsAllocated(Answer):
    """The block [first_id, first_id + count) belongs to the asking broker alone."""

    first_id: Offset = -1
    count: Epoch = 0


@message(17)
class AllocateProducerIds(Request[ProducerIdsAllocated]):
    """Reserve a block of producer ids that no one ever gets again."""

    broker_id: NodeId
    broker_epoch: Offset


@message(32)
class Noted(Answer):
    """The controller has accepted the message; the consequences show in the metadata."""


@packed
class LogEnd:
    """The end of one replica's log, while its partition looks for the longest log."""

    topic_id: bytes
    partition: Index
    leader_epoch: Epoch
    """The leaderless epoch that asks; the log does not change before the next epoch."""
    last_epoch: Epoch
    """Leader epoch of the last record, deleted or not; -1 where none is known of."""
    log_end_offset: Offset
    high_watermark: Offset = -1
    """The highest watermark that this replica knew; an election below it loses records."""


@message(30)
class ReportLogEnds(Request[Noted]):
    """Ends of replicas whose partitions are `electing`; repeated as long as they are."""

    broker_id: NodeId
    broker_epoch: Offset
    ends: tuple[LogEnd, ...]


@packed
class LostReplica:
    """A replica whose directory failed."""

    topic_id: bytes
    partition: Index


@message(31)
class OfflinePartitions(Request[Noted]):
    """Replicas that the sender cannot serve until it restarts: other brokers must lead them."""

    broker_id: NodeId
    broker_epoch: Offset
    replicas: tuple[LostReplica, ...]
