"""Moving partitions to other brokers: begin, change, cancel, list (KIP-455).

    replicas   the target, then the replicas that are removed in the end: old and new together
    adding     replicas of the target that were not there before
    removing   replicas from before that are not in the target

`PartitionChange` completes a reassignment with the ISR change that brings in the last new replica.
A new target replaces an earlier one and drops the replicas that only the earlier one added. So a
cancelled reassignment always leads back to `replicas` without `adding`.
"""

from dataclasses import replace

from ...protocol.control.image import PartitionState
from ...protocol.control.records import PartitionChangeRecord
from ...protocol.errors import ApiError, ErrorCode
from ...protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from ...protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from ...protocol.types import TopicIdPartition
from .decision import DECISION_RECORDS_MAX, Cluster, Decision
from .partition_change import PartitionChange, Placement, without
from .sweeps import change_of


def alter_reassignments(
    cluster: Cluster, request: AlterPartitionReassignmentsRequest
) -> Decision[AlterPartitionReassignmentsResponse]:
    """Begin, change or cancel the reassignment of each partition independently."""
    records: list[PartitionChangeRecord] = []
    responses: list[ReassignableTopicResponse] = []
    seen: dict[tuple[str, int], None] = {}
    keeps_count = not request.allow_replication_factor_change
    for topic in request.topics:
        results: list[ReassignablePartitionResponse] = []
        for wanted in topic.partitions:
            index = wanted.partition_index
            result = ReassignablePartitionResponse(partition_index=index)
            try:
                if (topic.name, index) in seen:
                    detail = f"{topic.name}-{index} is named twice"
                    raise ApiError(ErrorCode.INVALID_REQUEST, detail)
                if len(records) >= DECISION_RECORDS_MAX:
                    raise ApiError(ErrorCode.POLICY_VIOLATION, "too many at once: ask for fewer")
                seen[topic.name, index] = None
                change = _change(cluster, topic.name, wanted, keeps_count)
                if (record := change.build()) is not None:
                    records.append(record)
            except ApiError as error:
                result.error_code, result.error_message = error.code, error.detail
            results.append(result)
        responses.append(ReassignableTopicResponse(name=topic.name, partitions=results))
    response = AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        responses=responses,
    )
    return Decision(response, records)


def _change(
    cluster: Cluster, name: str, wanted: ReassignablePartition, keeps_count: bool
) -> PartitionChange:
    """Return the change that begins or cancels the reassignment.

    Raise ApiError if it is not possible.
    """
    topic = cluster.image.topic(name)
    state = None if topic is None else topic.partitions.get(wanted.partition_index)
    if topic is None or state is None:
        detail = f"there is no partition {name}-{wanted.partition_index}"
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, detail)
    where = f"{name}-{wanted.partition_index}"
    now = Placement(state.replicas, state.adding, state.removing)
    if wanted.replicas is None:
        if not now.adding and not now.removing:
            raise ApiError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, f"{where} is not moving")
        placement = Placement(now.original)
    else:
        target = tuple(int(each) for each in wanted.replicas)
        _check_target(cluster, where, target)
        if keeps_count and len(target) != len(now.original):
            detail = f"{where} has {len(now.original)} replicas, the target {len(target)}"
            raise ApiError(ErrorCode.INVALID_REPLICATION_FACTOR, detail)
        placement = Placement(
            target + without(now.original, target),
            adding=without(target, now.original),
            removing=without(now.original, target),
        )
    isr = tuple(each for each in state.isr if each in placement.replicas)
    _check_isr(where, state, placement, isr)
    change = change_of(cluster, TopicIdPartition(topic.topic_id, wanted.partition_index))
    return replace(change, isr=isr, placement=placement)


def _check_target(cluster: Cluster, where: str, target: tuple[int, ...]) -> None:
    unknown = [each for each in target if each not in cluster.image.brokers]
    wrong = None
    if not target or len(dict.fromkeys(target)) != len(target):
        wrong = "a partition has replicas, on different brokers"
    elif unknown:
        wrong = f"brokers {unknown} are not registered"
    if wrong is not None:
        detail = f"{where}: replicas {list(target)}: {wrong}"
        raise ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, detail)


def _check_isr(
    where: str, state: PartitionState, placement: Placement, isr: tuple[int, ...]
) -> None:
    """Raise ApiError for a placement that would drop the last replicas that have all records."""
    had = state.isr or state.elr or state.last_known_elr
    if had and not any(each in placement.replicas for each in had):
        detail = f"{where}: only {list(had)} have all records: let others catch up first"
        raise ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, detail)


def list_reassignments(
    cluster: Cluster, request: ListPartitionReassignmentsRequest
) -> Decision[ListPartitionReassignmentsResponse]:
    """List the ongoing reassignments of the named partitions, or of all.

    Partitions without a reassignment are left out.
    """
    image = cluster.image
    asked: dict[str, list[int] | None]
    if request.topics is None:
        asked = {topic.name: None for topic in image.topics.values()}
    else:
        asked = {
            each.name: [int(index) for index in each.partition_indexes] for each in request.topics
        }
    found: list[OngoingTopicReassignment] = []
    for name, indexes in asked.items():
        topic = image.topic(name)
        if topic is None:
            continue
        moving = [
            _ongoing(index, state)
            for index, state in topic.partitions.items()
            if (state.adding or state.removing) and (indexes is None or index in indexes)
        ]
        if moving:
            found.append(OngoingTopicReassignment(name=name, partitions=moving))
    return Decision(ListPartitionReassignmentsResponse(topics=found))


def _ongoing(index: int, state: PartitionState) -> OngoingPartitionReassignment:
    return OngoingPartitionReassignment(
        partition_index=index,
        replicas=list(state.replicas),
        adding_replicas=list(state.adding),
        removing_replicas=list(state.removing),
    )
