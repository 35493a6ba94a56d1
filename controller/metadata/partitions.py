"""Changes of partitions: those a leader proposes, and those that a broker's fate brings about.

All of them pass through `PartitionChange`. Sweeps return records for the partitions they change
and nothing for the others.
"""

from collections.abc import Callable, Iterator

from ...protocol.control.image import BrokerRegistration, PartitionState, changed
from ...protocol.control.messages import (
    AlterPartitions,
    ChangedPartition,
    IsrMember,
    PartitionsAltered,
)
from ...protocol.control.messages import PartitionChange as Proposal
from ...protocol.control.records import PartitionChangeRecord
from ...protocol.errors import ApiError, ErrorCode
from ...protocol.types import NO_LEADER, TopicIdPartition, uuid_to_text
from .decision import Cluster, Decision
from .partition_change import PartitionChange

Acceptable = Callable[[int], bool]


def alter_partitions(cluster: Cluster, request: AlterPartitions) -> Decision[PartitionsAltered]:
    """Carry out what leaders propose, each partition on its own."""
    try:
        cluster.check_broker_epoch(request.broker_id, request.broker_epoch)
    except ApiError as error:
        return Decision(PartitionsAltered(error.code, error.detail))
    records: list[PartitionChangeRecord] = []
    results: list[ChangedPartition] = []
    touched: dict[TopicIdPartition, None] = {}
    for proposal in request.changes:
        partition = TopicIdPartition(proposal.topic_id, proposal.partition)
        try:
            state = _check(cluster, request.broker_id, proposal)
            if partition in touched:
                raise ApiError(ErrorCode.INVALID_UPDATE_VERSION, f"{partition} is named twice")
        except ApiError as error:
            results.append(_refused(proposal, error))
            continue
        record = PartitionChange(
            partition,
            state,
            cluster.is_active,
            isr=tuple(member.broker_id for member in proposal.isr),
            recovering=proposal.recovering,
        ).build()
        if record is not None:
            touched[partition] = None
            records.append(record)
            state = changed(state, record)
        results.append(_altered(proposal, state))
    return Decision(PartitionsAltered(ErrorCode.NONE, partitions=tuple(results)), records)


def _check(cluster: Cluster, sender: int, proposal: Proposal) -> PartitionState:
    """The partition's state if the proposal may be carried out; the order of checks is the law."""
    topic = cluster.image.topics.get(proposal.topic_id)
    if topic is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID, f"no topic {uuid_to_text(proposal.topic_id)}")
    where = f"{topic.name}-{proposal.partition}"
    state = topic.partitions.get(proposal.partition)
    if state is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"no partition {where}")
    theirs = f"{where}: leader epoch {proposal.leader_epoch}, partition epoch"
    theirs = f"{theirs} {proposal.partition_epoch}"
    ours = f"the newest are {state.leader_epoch} and {state.partition_epoch}"
    if proposal.leader_epoch > state.leader_epoch or (
        proposal.partition_epoch > state.partition_epoch
    ):
        # Nobody but a newer controller can have handed those out.
        raise ApiError(ErrorCode.NOT_CONTROLLER, f"{theirs}; here {ours}")
    if proposal.leader_epoch < state.leader_epoch:
        raise ApiError(ErrorCode.FENCED_LEADER_EPOCH, f"{theirs}; {ours}")
    if sender != state.leader:
        detail = f"{where}: broker {sender} proposes, {state.leader} leads"
        raise ApiError(ErrorCode.INVALID_REQUEST, detail)
    if proposal.partition_epoch < state.partition_epoch:
        raise ApiError(ErrorCode.INVALID_UPDATE_VERSION, f"{theirs}; {ours}")
    _check_isr(where, state, proposal)
    for member in proposal.isr:
        _check_member(cluster, where, member)
    return state


def _check_isr(where: str, state: PartitionState, proposal: Proposal) -> None:
    """A possible ISR, and a possible step of the recovery state."""
    isr = [member.broker_id for member in proposal.isr]
    wrong = None
    if not isr or len(dict.fromkeys(isr)) != len(isr):
        wrong = "an ISR is not empty and names nobody twice"
    elif any(member not in state.replicas for member in isr):
        wrong = f"the replicas are {list(state.replicas)}"
    elif state.leader not in isr:
        wrong = f"the leader {state.leader} is not in it"
    elif proposal.recovering and not state.recovering:
        wrong = "a recovered partition does not recover again"
    elif proposal.recovering and len(isr) > 1:
        wrong = "while the leader recovers it is alone"
    if wrong is not None:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"{where}: ISR {isr}: {wrong}")


def _check_member(cluster: Cluster, where: str, member: IsrMember) -> None:
    """Only a broker that would not be fenced out of it again may be in an ISR (KIP-841, 903)."""
    broker = cluster.image.brokers.get(member.broker_id)
    if broker is None:
        why = "is not registered"
    elif broker.in_controlled_shutdown:
        why = "is shutting down"
    elif broker.fenced:
        why = "is fenced"
    elif member.broker_epoch not in (-1, broker.broker_epoch):
        why = f"has epoch {broker.broker_epoch}, the proposal means {member.broker_epoch}"
    else:
        return
    raise ApiError(ErrorCode.INELIGIBLE_REPLICA, f"{where}: broker {member.broker_id} {why}")


def _refused(proposal: Proposal, error: ApiError) -> ChangedPartition:
    return ChangedPartition(proposal.topic_id, proposal.partition, error.code, message=error.detail)


def _altered(proposal: Proposal, state: PartitionState) -> ChangedPartition:
    return ChangedPartition(
        proposal.topic_id,
        proposal.partition,
        ErrorCode.NONE,
        leader=state.leader,
        leader_epoch=state.leader_epoch,
        partition_epoch=state.partition_epoch,
        isr=state.isr,
        recovering=state.recovering,
    )


def without_broker(cluster: Cluster, broker_id: int) -> list[PartitionChangeRecord]:
    """Take the broker out of every ISR and every lead: it is fenced, or on its way out."""

    def acceptable(other: int) -> bool:
        return other != broker_id and cluster.is_active(other)

    return [
        record
        for topic_name, partition, state in _partitions(cluster)
        if broker_id in state.isr or broker_id == state.leader
        if (
            record := PartitionChange(
                partition,
                state,
                acceptable,
                unclean_allowed=cluster.unclean_election(topic_name),
                isr=tuple(member for member in state.isr if member != broker_id),
            ).build()
        )
    ]


def with_broker(cluster: Cluster, broker_id: int) -> list[PartitionChangeRecord]:
    """Give a leader to every partition that has none, now that this broker is back."""

    def acceptable(other: int) -> bool:
        return other == broker_id or cluster.is_active(other)

    return [
        record
        for topic_name, partition, state in _partitions(cluster)
        if state.leader == NO_LEADER and broker_id in state.replicas
        if (
            record := PartitionChange(
                partition,
                state,
                acceptable,
                unclean_allowed=cluster.unclean_election(topic_name),
                copy_is_away=_copy_is_away(cluster, state),
            ).build()
        )
    ]


def remember_copies(cluster: Cluster, old: BrokerRegistration) -> list[PartitionChangeRecord]:
    """The broker comes back without all of its directories: note where the last copies were."""
    return [
        PartitionChangeRecord(*partition, directories=old.directory_ids)
        for _, partition, state in _partitions(cluster)
        if state.isr == (old.broker_id,) and not state.directories
    ]


def _copy_is_away(cluster: Cluster, state: PartitionState) -> bool:
    registered = [
        directory
        for member in state.isr
        if (broker := cluster.image.brokers.get(member)) is not None
        for directory in broker.directory_ids
    ]
    return any(directory not in registered for directory in state.directories)


def elect_uncleanly(cluster: Cluster, topic_names: list[str]) -> list[PartitionChangeRecord]:
    """Give a leader to every leaderless partition of topics that now allow an unclean one."""
    return [
        record
        for name in topic_names
        if (topic := cluster.image.topic(name)) is not None
        for index, state in topic.partitions.items()
        if state.leader == NO_LEADER
        if (
            record := PartitionChange(
                TopicIdPartition(topic.topic_id, index),
                state,
                cluster.is_active,
                unclean_allowed=True,
                copy_is_away=_copy_is_away(cluster, state),
            ).build()
        )
    ]


def led_count(cluster: Cluster, broker_id: int) -> int:
    """How many partitions the broker leads."""
    return sum(state.leader == broker_id for _, state in cluster.image.partitions())


def _partitions(cluster: Cluster) -> Iterator[tuple[str, TopicIdPartition, PartitionState]]:
    for topic in cluster.image.topics.values():
        for index, state in topic.partitions.items():
            yield topic.name, TopicIdPartition(topic.topic_id, index), state
