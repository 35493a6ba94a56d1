"""Requests and answers of the control protocol, each registered under a number, its kind.

A request class names its answer in its type: `RegisterBroker(Request[BrokerRegistered])`. Every
answer carries `error` (a Kafka error code) and `message` (a text for people). `Refused` may answer
any request. Topic, directory and incarnation ids are 16 raw bytes; times are milliseconds.
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
    """Declare a message class under the number `kind`, which no other message may ever use."""

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
    """Return the number of a message class; raise LocalProtocolError if it was not declared."""
    try:
        return _kind_of[cls]
    except KeyError:
        raise LocalProtocolError(f"{cls.__name__} is not a control message") from None


@packed
class Endpoint:
    """The address of a listener, as other nodes connect to it."""

    name: str
    host: str
    port: Port
    security_protocol: str = "PLAINTEXT"


@packed
class VersionRange:
    """The lowest and highest level of a feature that a node can work with."""

    lowest: Int16
    highest: Int16


@packed
class Answer:
    """The fields with which every answer begins."""

    error: Int16
    message: str = ""


@message(1)
class Refused(Answer):
    """The request was not carried out; this may answer any request."""

    active_controller: Endpoint | None = None
    """With NOT_CONTROLLER, the address of the active controller, if it is known."""


@message(2)
class HelloAnswer(Answer):
    """The answer to Hello; if it has an error, the connection is closed after it is sent."""

    cluster_id: str | None = None
    version: Int16 = PROTOCOL_VERSION_MAX
    node_id: NodeId = -1
    active_controller: Endpoint | None = None
    """The address of the quorum's leader; None if it is not known."""
    active_id: NodeId = -1
    """The id of the quorum's leader as this controller knows it; -1 if it is not known."""
    datagram_key: bytes = b""
    """The key that authenticates heartbeats beside a connection with TLS; empty on others."""


@message(3)
class Hello(Request[HelloAnswer]):
    """The first message on a connection: who the node is, its cluster, the versions it speaks."""

    cluster_id: str | None
    """The cluster's id; None if the node does not know it yet."""
    min_version: Int16
    max_version: Int16
    node_id: NodeId
    role: Int16
    incarnation_id: bytes


@message(4)
class BrokerRegistered(Answer):
    """The broker is registered; later requests of this incarnation name it by `broker_epoch`."""

    broker_epoch: Offset = -1


@message(5)
class RegisterBroker(Request[BrokerRegistered]):
    """Register an incarnation of a broker, fenced at first; again if its endpoints change."""

    broker_id: NodeId
    incarnation_id: bytes
    directory_ids: tuple[bytes, ...]
    endpoints: tuple[Endpoint, ...]
    """The broker's listeners; the first is the inter-broker listener, which controllers probe."""
    rack: str | None
    features: dict[str, VersionRange]
    previous_broker_epoch: Offset = -1
    """The broker epoch in the clean-shutdown file; -1 after an unclean stop."""


@message(6)
class HeartbeatAnswer(Answer):
    """The answer to a heartbeat.

    It says how the controller sees the broker, and what the broker should do.
    """

    is_caught_up: bool = False
    is_fenced: bool = True
    should_shut_down: bool = False
    lease_ms: int = 0
    """The ms, counted from the sending of the heartbeat, for which the broker may act as a leader.
    0 means that leases are off, -1 that no lease is granted."""
    clock_ahead_ms: int | None = None
    """How far the broker's wall clock is ahead of the other brokers'; None if that is not known."""


@message(7)
class BrokerHeartbeat(Request[HeartbeatAnswer]):
    """Report that the broker is alive, the state it wants, and how far it has applied the log."""

    broker_id: NodeId
    broker_epoch: Offset
    metadata_offset: Offset
    """Offset of the last metadata record that the broker applied; -1 for none."""
    want_fence: bool
    want_shutdown: bool
    offline_directory_ids: tuple[bytes, ...] = ()
    wall_ms: int = -1
    """The broker's wall clock; -1 of a broker that does not tell it."""


@packed
class SnapshotId:
    """A snapshot of all records before `end_offset`; `epoch` is the last record's epoch."""

    end_offset: Offset
    epoch: Epoch


@message(8)
class MetadataFetched(Answer):
    """Whole metadata batches from the requested offset on, or the snapshot to load first.

    The error is OFFSET_OUT_OF_RANGE if the reader has records that this log lacks; the reader must
    then start again at offset 0.
    """

    high_watermark: Offset = -1
    epoch: Epoch = -1
    """The epoch of the active controller."""
    records: bytes = b""
    snapshot: SnapshotId | None = None


@message(9)
class FetchMetadata(Request[MetadataFetched]):
    """Fetch committed metadata from `offset` on; the answer waits until there is some."""

    offset: Offset
    """The first offset wanted: one after the last record applied."""
    epoch: Epoch
    """The epoch of the last record applied; -1 at offset 0."""
    max_wait_ms: int
    max_bytes: int = 1 << 20


@message(10)
class SnapshotFetched(Answer):
    """A part of a snapshot, from byte `position` on.

    The part that reaches `size`, the snapshot's bytes, is the last.
    """

    size: int = 0
    position: int = 0
    data: bytes = b""


@message(11)
class FetchSnapshot(Request[SnapshotFetched]):
    """Fetch one part of the snapshot that a `MetadataFetched` named."""

    snapshot: SnapshotId
    position: int
    max_bytes: int = 1 << 20


@packed
class IsrMember:
    """A broker that the leader found in sync, and its broker epoch as the leader knows it."""

    broker_id: NodeId
    broker_epoch: Offset
    """The broker's epoch; -1 if the leader does not know it."""


@packed
class PartitionChange:
    """A leader's proposal to change the ISR of one partition."""

    topic_id: bytes
    partition: Index
    leader_epoch: Epoch
    partition_epoch: Epoch
    isr: tuple[IsrMember, ...]
    recovering: bool = False


@packed
class ChangedPartition:
    """The result of one proposal: the partition as the controller has it now, or an error."""

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
    """The min.insync.replicas that the controller used; the leader may not know this value yet."""


@message(12)
class PartitionsAltered(Answer):
    """One result per proposal, in the order of the request; `error` is about the whole request."""

    partitions: tuple[ChangedPartition, ...] = ()


@message(13)
class AlterPartitions(Request[PartitionsAltered]):
    """Propose ISR changes of partitions that the sender leads."""

    broker_id: NodeId
    broker_epoch: Offset
    changes: tuple[PartitionChange, ...]


@message(14)
class ForwardedAnswer(Answer):
    """The Kafka response body, in the version of the forwarded request."""

    body: bytes = b""


@message(15)
class ForwardedRequest(Request[ForwardedAnswer]):
    """A client's admin request, forwarded by the broker that received it."""

    api_key: Int16
    api_version: Int16
    body: bytes
    """The Kafka request body, without its header."""
    principal: str
    """The client's principal as `Type:name`; empty if the broker asks in its own name."""
    deadline_ms: int
    """Milliseconds left, counted from the arrival of this message, since hosts' clocks differ."""
    idempotency_key: bytes = b""
    """A key shared by all retries of a request, so that each gets the answer of the first."""
    host: str = ""
    """The client's IP address."""
    listener: str = ""
    """The name of the broker's listener that the client is connected to."""
    client_id: str = ""
    """The client's id; empty if it has none."""


@message(16)
class ProducerIdsAllocated(Answer):
    """The block [first_id, first_id + count), which belongs to the asking broker alone."""

    first_id: Offset = -1
    count: Epoch = 0


@message(17)
class AllocateProducerIds(Request[ProducerIdsAllocated]):
    """Reserve a block of producer ids for the sender; no block is given out twice."""

    broker_id: NodeId
    broker_epoch: Offset


@message(32)
class Noted(Answer):
    """The controller has accepted the message; changes that follow appear in the metadata."""


@packed
class LogEnd:
    """The end of one replica's log; the controller elects the replica with the longest log."""

    topic_id: bytes
    partition: Index
    leader_epoch: Epoch
    """The partition's present leader epoch, which has no leader, so that no replica's log changes.
    """
    last_epoch: Epoch
    """The leader epoch of the last record, even if that record was deleted; -1 if unknown."""
    log_end_offset: Offset
    high_watermark: Offset = -1
    """The highest high watermark that this replica knew; electing a shorter log loses records."""


@message(30)
class ReportLogEnds(Request[Noted]):
    """Report the log ends of replicas while their partitions are `electing`, repeatedly."""

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
    """Report replicas that the sender cannot serve until it restarts, so that others lead them."""

    broker_id: NodeId
    broker_epoch: Offset
    replicas: tuple[LostReplica, ...]


@message(33)
class SealAccepted(Answer):
    """The seal that the controller chose from the offer; all later frames are sealed, both ways."""

    version: Int16 = 1
    key_id: bytes = b""
    nonce: bytes = b""


@message(34)
class SealOffer(Request[SealAccepted]):
    """Offer a seal, before Hello, with the sender's keys; see `security/control_seal.py`."""

    max_version: Int16
    """The newest version of the seal that the sender supports; it supports all from 1 on."""
    key_ids: tuple[bytes, ...]
    """The ids of the sender's keys, the preferred one first."""
    nonce: bytes
