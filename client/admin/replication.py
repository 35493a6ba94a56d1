"""Elects leaders of partitions, and moves replicas to other brokers."""

from collections.abc import Mapping, Sequence

from ...protocol.api import ApiKey
from ...protocol.errors import ApiError
from ...protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from ...protocol.messages.elect_leaders import (
    ElectionType,
    ElectLeadersRequest,
    ElectLeadersResponse,
    TopicPartitions,
)
from ...protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
)
from ...protocol.types import TopicPartition
from ..errors import UnsupportedVersion
from ..net.connection import KafkaConnection
from ..outcomes import Outcomes, error_of, raise_for
from ..partitions import Partitions, by_topic, name_of, values_by_topic
from .asking import Asking
from .topic_types import Reassignment

Targets = Mapping[TopicPartition, Sequence[int] | None]


async def elect_leaders(
    asking: Asking, election_type: ElectionType, partitions: Partitions | None = None
) -> dict[TopicPartition, ApiError | None]:
    """Elect leaders of these partitions, or of all that need it.

    A value is None if a leader was elected, else the error, such as ELECTION_NOT_NEEDED if a valid
    leader leads already. If `partitions` is None, the result has only the partitions that needed an
    election.
    """
    wanted = None if partitions is None else by_topic(partitions)

    async def ask(connection: KafkaConnection) -> dict[TopicPartition, ApiError | None]:
        if election_type and connection.versions.of(ApiKey.ELECT_LEADERS) == 0:
            raise UnsupportedVersion(f"{connection.address}: elects preferred leaders only")
        request = ElectLeadersRequest(
            election_type=election_type,
            topic_partitions=None
            if wanted is None
            else [TopicPartitions(topic=t, partitions=p) for t, p in wanted.items()],
            timeout_ms=asking.config.default_api_timeout_ms,
        )
        response: ElectLeadersResponse = await asking.request(connection, request)
        raise_for(response.error_code)
        return {
            TopicPartition(topic.topic, one.partition_id): error_of(
                one.error_code, one.error_message
            )
            for topic in response.replica_election_results
            for one in topic.partition_result
        }

    return await asking.one_broker(ask)


async def alter_partition_reassignments(
    asking: Asking, targets: Targets, *, allow_replication_factor_change: bool = True
) -> None:
    """Begin to move partitions to these brokers, preferred leader first; None cancels a move.

    Return when the moves have begun. Raise AdminError with the partitions that were refused.
    """
    by_name = {name_of(partition): TopicPartition(*partition) for partition in targets}

    async def ask(connection: KafkaConnection, names: list[str]) -> Outcomes[str]:
        version = connection.versions.of(ApiKey.ALTER_PARTITION_REASSIGNMENTS)
        if not allow_replication_factor_change and version == 0:
            raise UnsupportedVersion(f"{connection.address}: cannot hold the number of copies")
        wanted = {by_name[name]: targets[by_name[name]] for name in names}
        request = AlterPartitionReassignmentsRequest(
            timeout_ms=asking.config.default_api_timeout_ms,
            allow_replication_factor_change=allow_replication_factor_change,
            topics=[
                ReassignableTopic(
                    name=topic,
                    partitions=[
                        ReassignablePartition(
                            partition_index=index,
                            replicas=None if target is None else list(target),
                        )
                        for index, target in moves
                    ],
                )
                for topic, moves in values_by_topic(wanted).items()
            ],
        )
        response: AlterPartitionReassignmentsResponse = await asking.request(connection, request)
        raise_for(response.error_code, response.error_message)
        return {
            (name := f"{topic.name}-{one.partition_index}"): error_of(
                one.error_code, one.error_message
            )
            or name
            for topic in response.responses
            for one in topic.partitions
        }

    await asking.each(list(by_name), ask)


async def list_partition_reassignments(
    asking: Asking, partitions: Partitions | None = None
) -> dict[TopicPartition, Reassignment]:
    """Return the reassignments under way of these partitions, or if None, of all.

    Raise ApiError if the broker refuses.
    """
    wanted = None if partitions is None else by_topic(partitions)

    async def ask(connection: KafkaConnection) -> dict[TopicPartition, Reassignment]:
        request = ListPartitionReassignmentsRequest(
            timeout_ms=asking.config.default_api_timeout_ms,
            topics=None
            if wanted is None
            else [
                ListPartitionReassignmentsTopics(name=topic, partition_indexes=indexes)
                for topic, indexes in wanted.items()
            ],
        )
        response: ListPartitionReassignmentsResponse = await asking.request(connection, request)
        raise_for(response.error_code, response.error_message)
        return {
            TopicPartition(topic.name, one.partition_index): Reassignment(
                tuple(one.replicas), tuple(one.adding_replicas), tuple(one.removing_replicas)
            )
            for topic in response.topics
            for one in topic.partitions
        }

    return await asking.one_broker(ask)
