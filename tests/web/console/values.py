"""Values as an admin answers them, for tests of views."""

from minikafka.client.admin.cluster_types import (
    BrokerDescription,
    ClusterDescription,
    MetadataQuorum,
    QuorumReplica,
)
from minikafka.client.admin.replica_types import (
    EpochStart,
    FollowerState,
    ReplicaRole,
    ReplicaState,
)
from minikafka.client.admin.topic_types import PartitionDescription, TopicDescription
from minikafka.web.console.views.sight import Sight

NOW_MS = 1_700_000_000_000


def partition(
    index: int, isr: tuple[int, ...] = (1, 2, 3), leader: int | None = None
) -> PartitionDescription:
    """A partition with replicas 1, 2 and 3, led by the first in sync."""
    if leader is None:
        leader = isr[0] if isr else -1
    return PartitionDescription(index, leader, 4, (1, 2, 3), isr)


def topic(name: str, *partitions: PartitionDescription, internal: bool = False) -> TopicDescription:
    return TopicDescription(name, "id", internal, partitions or (partition(0),))


def sight(*topics: TopicDescription, fenced: int | None = None, **more: object) -> Sight:
    """Three brokers, one of them fenced where that is wanted, and one controller."""
    brokers = tuple(BrokerDescription(n, "host", 9090 + n, None, n == fenced) for n in (1, 2, 3))
    quorum = MetadataQuorum(100, 7, 50, (QuorumReplica(100, "d", 50, None, NOW_MS),))
    values: dict[str, object] = {"quorum": quorum, **more}
    return Sight(
        NOW_MS,
        ClusterDescription("cluster", 1, brokers),
        {one.name: one for one in topics},
        **values,  # type: ignore[arg-type]
    )


def replica(broker: int, end: int, **more: object) -> ReplicaState:
    """A replica of a partition that 1 leads, with two leader epochs."""
    leads = broker == 1
    values: dict[str, object] = {
        "log_start_offset": 0,
        "high_watermark": end,
        "last_stable_offset": end,
        "size_bytes": 10,
        "segment_count": 1,
        "directory_id": "d",
        "epochs": (EpochStart(0, 0), EpochStart(1, 60)),
        "isr": (1, 2, 3) if leads else (),
        **more,
    }
    role = ReplicaRole.LEADER if leads else ReplicaRole.FOLLOWER
    return ReplicaState(
        broker_id=broker,
        role=role,
        leader_id=1,
        leader_epoch=1,
        log_end_offset=end,
        **values,  # type: ignore[arg-type]
    )


def follower(broker: int, end: int | None, behind_ms: int = 0) -> FollowerState:
    return FollowerState(broker, end, end, behind_ms)
