"""Elections that an operator, a changed setting, a timer or reported logs cause.

Elections that a change of a broker causes are in `sweeps`. An unclean election has two steps: the
partition is put into `electing` and its live replicas report their logs; then the replica with the
longest log is elected.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from ...protocol.control.image import PartitionState
from ...protocol.control.records import PartitionChangeRecord
from ...protocol.errors import ApiError, ErrorCode
from ...protocol.messages.elect_leaders import (
    ElectionType,
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from ...protocol.types import NO_LEADER, TopicIdPartition
from .decision import DECISION_RECORDS_MAX, Cluster, Decision
from .partition_change import Election
from .sweeps import change_of, every_partition, records_of

BALANCED_AT_ONCE = 1_000
"""The most leaders that one decision of `balance` moves."""


def elect_uncleanly(cluster: Cluster, names: Iterable[str]) -> list[PartitionChangeRecord]:
    """Return the records that begin elections in leaderless partitions of these topics.

    The topics now allow unclean elections.
    """
    return records_of(
        change_of(cluster, TopicIdPartition(topic.topic_id, index))
        for name in names
        if (topic := cluster.image.topic(name)) is not None
        for index, state in topic.partitions.items()
        if state.leader == NO_LEADER
    )


def elect_longest(cluster: Cluster, longest: Mapping[TopicIdPartition, int]) -> Decision[None]:
    """Elect the given replicas, which have the longest logs, in partitions still electing."""
    changes = (
        replace(change_of(cluster, partition), longest=broker_id)
        for partition, broker_id in longest.items()
        if (state := cluster.image.partition(*partition)) is not None
        and state.electing
        and broker_id in state.replicas
    )
    return Decision(None, records_of(changes))


def balance(cluster: Cluster, percentage: int) -> Decision[int]:
    """Elect preferred leaders again for brokers that lead too few of their preferred partitions.

    They are too few if more than `percentage` percent of them have another leader, or none.

    The answer is the number of partitions whose leader changes. If it is BALANCED_AT_ONCE, more may
    be left to move.
    """
    preferred: dict[int, int] = {}
    astray: dict[int, list[TopicIdPartition]] = {}
    for partition, state, _ in every_partition(cluster):
        first = state.replicas[0]
        preferred[first] = preferred.get(first, 0) + 1
        if state.leader != first:
            astray.setdefault(first, []).append(partition)
    wanted = [
        partition
        for broker_id in sorted(astray)
        if len(astray[broker_id]) * 100 > preferred[broker_id] * percentage
        for partition in astray[broker_id]
    ]
    changes = (
        replace(change_of(cluster, partition), election=Election.PREFERRED)
        for partition in wanted
        if _prefers(cluster, partition)
    )
    records = records_of(changes)[:BALANCED_AT_ONCE]
    return Decision(len(records), records)


def elect_leaders(cluster: Cluster, request: ElectLeadersRequest) -> Decision[ElectLeadersResponse]:
    """Elect leaders as the request asks, each partition independently."""
    try:
        election = ElectionType(request.election_type)
    except ValueError:
        return Decision(ElectLeadersResponse(error_code=ErrorCode.INVALID_REQUEST))
    named = _named(cluster, request)
    records: list[PartitionChangeRecord] = []
    results: dict[str, list[PartitionResult]] = {}
    seen: dict[tuple[str, int], None] = {}
    for topic, index in named:
        result = PartitionResult(partition_id=index)
        try:
            if (topic, index) in seen:
                raise ApiError(ErrorCode.INVALID_REQUEST, f"{topic}-{index} is named twice")
            if len(records) >= DECISION_RECORDS_MAX:
                raise ApiError(ErrorCode.POLICY_VIOLATION, "too many at once: ask for fewer")
            seen[topic, index] = None
            records.append(_elect(cluster, topic, index, election))
        except ApiError as error:
            if request.topic_partitions is None and error.code == ErrorCode.ELECTION_NOT_NEEDED:
                continue
            result.error_code, result.error_message = error.code, error.detail
        results.setdefault(topic, []).append(result)
    response = ElectLeadersResponse(
        replica_election_results=[
            ReplicaElectionResult(topic=topic, partition_result=partitions)
            for topic, partitions in results.items()
        ]
    )
    return Decision(response, records)


def _named(cluster: Cluster, request: ElectLeadersRequest) -> list[tuple[str, int]]:
    if request.topic_partitions is not None:
        return [
            (each.topic, index) for each in request.topic_partitions for index in each.partitions
        ]
    topics = cluster.image.topics.values()
    return [(topic.name, index) for topic in topics for index in topic.partitions]


def _elect(
    cluster: Cluster, name: str, index: int, election: ElectionType
) -> PartitionChangeRecord:
    """Return the election's record.

    Raise ApiError if none is needed or no candidate is available.
    """
    topic = cluster.image.topic(name)
    state = None if topic is None else topic.partitions.get(index)
    if topic is None or state is None:
        detail = f"there is no partition {name}-{index}"
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, detail)
    change = change_of(cluster, TopicIdPartition(topic.topic_id, index))
    if election is ElectionType.PREFERRED:
        if state.leader == state.replicas[0]:
            detail = f"{name}-{index}: {state.leader} leads already"
            raise ApiError(ErrorCode.ELECTION_NOT_NEEDED, detail)
        record = replace(change, election=Election.PREFERRED).build()
        # With leases nobody leads until the old leader has stopped; then the first replica does.
        waits = record is not None and record.leader == NO_LEADER and _is_ready(cluster, state)
        if record is None or (record.leader != state.replicas[0] and not waits):
            detail = f"{name}-{index}: broker {state.replicas[0]} is not alive and in sync"
            raise ApiError(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, detail)
        return record
    if state.leader != NO_LEADER:
        detail = f"{name}-{index}: broker {state.leader} leads"
        raise ApiError(ErrorCode.ELECTION_NOT_NEEDED, detail)
    record = replace(change, election=Election.UNCLEAN).build()
    if record is None or (record.leader is None and not record.electing):
        detail = f"{name}-{index}: no replica is alive, or they are being asked already"
        raise ApiError(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, detail)
    return record


def _prefers(cluster: Cluster, partition: TopicIdPartition) -> bool:
    """True if the preferred leader is ready to lead."""
    state = cluster.image.partition(*partition)
    return state is not None and _is_ready(cluster, state)


def _is_ready(cluster: Cluster, state: PartitionState) -> bool:
    first = state.replicas[0]
    return first in state.isr and first not in state.offline and cluster.is_active(first)
