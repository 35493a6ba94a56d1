"""Changes of partitions that their leaders propose: AlterPartitions, its checks and its answers.

The order of the checks matters, because the leader acts differently on each error. All changes pass
through `PartitionChange`.
"""

from dataclasses import replace

from ...protocol.control.image import PartitionState, changed
from ...protocol.control.messages import (
    AlterPartitions,
    ChangedPartition,
    IsrMember,
    PartitionsAltered,
)
from ...protocol.control.messages import PartitionChange as Proposal
from ...protocol.control.records import PartitionChangeRecord
from ...protocol.errors import ApiError, ErrorCode
from ...protocol.types import TopicIdPartition, uuid_to_text
from .decision import Cluster, Decision
from .partition_change import PartitionChange
from .sweeps import change_of


def alter_partitions(cluster: Cluster, request: AlterPartitions) -> Decision[PartitionsAltered]:
    """Decide on each proposed ISR change independently."""
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
        record = _change(cluster, partition, state, proposal).build()
        if record is not None:
            touched[partition] = None
            records.append(record)
            state = changed(state, record)
        results.append(_altered(cluster, request.broker_id, proposal, state))
    return Decision(PartitionsAltered(ErrorCode.NONE, partitions=tuple(results)), records)


def _change(
    cluster: Cluster, partition: TopicIdPartition, state: PartitionState, proposal: Proposal
) -> PartitionChange:
    isr = tuple(member.broker_id for member in proposal.isr)
    if not cluster.is_active(state.leader):
        # In controlled shutdown, the leader stayed until another had caught up, which leads now.
        isr = tuple(member for member in isr if cluster.is_active(member)) or isr
    return replace(change_of(cluster, partition), isr=isr, recovering=proposal.recovering)


def _check(cluster: Cluster, sender: int, proposal: Proposal) -> PartitionState:
    """Return the partition's state if the proposal is valid, else raise ApiError.

    The order of checks matters.
    """
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
        # Only a newer controller can have given out these epochs.
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
        _check_member(cluster, where, state, member)
    return state


def _check_isr(where: str, state: PartitionState, proposal: Proposal) -> None:
    """Raise ApiError if the proposed ISR or the change of `recovering` is not possible."""
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


def _check_member(cluster: Cluster, where: str, state: PartitionState, member: IsrMember) -> None:
    """Raise ApiError if the broker may not join an ISR in its present state (KIP-841, 903)."""
    broker = cluster.image.brokers.get(member.broker_id)
    if broker is None:
        why = "is not registered"
    elif broker.in_controlled_shutdown and broker.broker_id != state.leader:
        why = "is shutting down"
    elif broker.fenced:
        why = "is fenced"
    elif member.broker_id in state.offline:
        why = "lost the directory that held this replica"
    elif member.broker_epoch not in (-1, broker.broker_epoch):
        why = f"has epoch {broker.broker_epoch}, the proposal means {member.broker_epoch}"
    else:
        return
    raise ApiError(ErrorCode.INELIGIBLE_REPLICA, f"{where}: broker {member.broker_id} {why}")


def _refused(proposal: Proposal, error: ApiError) -> ChangedPartition:
    return ChangedPartition(proposal.topic_id, proposal.partition, error.code, message=error.detail)


def _altered(
    cluster: Cluster, sender: int, proposal: Proposal, state: PartitionState
) -> ChangedPartition:
    """Answer with the partition as it is after the change.

    If another broker leads the partition then, the answer is NEW_LEADER_ELECTED, the only error
    after which the change has been made.
    """
    return ChangedPartition(
        proposal.topic_id,
        proposal.partition,
        ErrorCode.NONE if state.leader == sender else ErrorCode.NEW_LEADER_ELECTED,
        leader=state.leader,
        leader_epoch=state.leader_epoch,
        partition_epoch=state.partition_epoch,
        isr=state.isr,
        recovering=state.recovering,
        min_isr=cluster.min_isr(cluster.image.topics[proposal.topic_id].name),
    )
