"""The part of the admin that is about copies: elections, reassignments, the quorum, features.

Knows the messages; how often a question is asked and of whom is `Asking`'s.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from ...protocol.api import ApiKey
from ...protocol.control.records import METADATA_TOPIC
from ...protocol.errors import ApiError, ErrorCode
from ...protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from ...protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ...protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    QuorumPartition,
    QuorumTopic,
    ReplicaState,
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
from ...protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from ...protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
    UpgradeType,
)
from ...protocol.types import TopicPartition, uuid_to_text
from ..errors import AdminError, UnsupportedVersion
from ..net.connection import SOFTWARE_NAME, SOFTWARE_VERSION, KafkaConnection
from .asking import Asking, Outcomes
from .cluster_types import (
    FeatureLevels,
    FeatureMetadata,
    FeatureUpdate,
    MetadataQuorum,
    QuorumReplica,
)
from .topic_types import Reassignment

V = TypeVar("V")
Partitions = Iterable[TopicPartition | tuple[str, int]]
Targets = Mapping[TopicPartition, Sequence[int] | None]


class ReplicationAdmin(Asking):
    """What an admin can ask about copies of partitions and of the metadata."""

    async def elect_leaders(
        self, election_type: ElectionType, partitions: Partitions | None = None
    ) -> dict[TopicPartition, ApiError | None]:
        """Elect leaders of these partitions, or of all that need it.

        The result of each: None where a leader was elected, else why not (ELECTION_NOT_NEEDED:
        a valid one leads already). For all partitions only those with news are told of.
        """
        wanted = None if partitions is None else _by_topic(partitions)

        async def ask(connection: KafkaConnection) -> dict[TopicPartition, ApiError | None]:
            if election_type and connection.version_of(ApiKey.ELECT_LEADERS) == 0:
                raise UnsupportedVersion(f"{connection.address}: elects preferred leaders only")
            request = ElectLeadersRequest(
                election_type=election_type,
                topic_partitions=None
                if wanted is None
                else [TopicPartitions(topic=t, partitions=p) for t, p in wanted.items()],
                timeout_ms=self.config.default_api_timeout_ms,
            )
            response: ElectLeadersResponse = await self._request(connection, request)
            _raise_for(response.error_code, None)
            return {
                TopicPartition(topic.topic, one.partition_id): _error(
                    one.error_code, one.error_message
                )
                for topic in response.replica_election_results
                for one in topic.partition_result
            }

        return await self._somebody(ask)

    async def alter_partition_reassignments(
        self, targets: Targets, *, allow_replication_factor_change: bool = True
    ) -> None:
        """Begin to move partitions to these brokers, preferred leader first; None cancels.

        Returns when the moves have begun. AdminError names the partitions that were refused.
        """
        by_name = {str_of(partition): TopicPartition(*partition) for partition in targets}

        async def ask(connection: KafkaConnection, names: list[str]) -> Outcomes[str]:
            version = connection.version_of(ApiKey.ALTER_PARTITION_REASSIGNMENTS)
            if not allow_replication_factor_change and version == 0:
                raise UnsupportedVersion(f"{connection.address}: cannot hold the number of copies")
            topics: dict[str, list[ReassignablePartition]] = {}
            for partition in (by_name[name] for name in names):
                target = targets[partition]
                moved = ReassignablePartition(
                    partition_index=partition.partition,
                    replicas=None if target is None else list(target),
                )
                topics.setdefault(partition.topic, []).append(moved)
            request = AlterPartitionReassignmentsRequest(
                timeout_ms=self.config.default_api_timeout_ms,
                allow_replication_factor_change=allow_replication_factor_change,
                topics=[ReassignableTopic(name=t, partitions=p) for t, p in topics.items()],
            )
            response: AlterPartitionReassignmentsResponse = await self._request(connection, request)
            _raise_for(response.error_code, response.error_message)
            return {
                (name := f"{topic.name}-{one.partition_index}"): _error(
                    one.error_code, one.error_message
                )
                or name
                for topic in response.responses
                for one in topic.partitions
            }

        await self._each(list(by_name), ask)

    async def list_partition_reassignments(
        self, partitions: Partitions | None = None
    ) -> dict[TopicPartition, Reassignment]:
        """Find which of these partitions, or of all, are moving, and where to."""
        wanted = None if partitions is None else _by_topic(partitions)

        async def ask(connection: KafkaConnection) -> dict[TopicPartition, Reassignment]:
            request = ListPartitionReassignmentsRequest(
                timeout_ms=self.config.default_api_timeout_ms,
                topics=None
                if wanted is None
                else [
                    ListPartitionReassignmentsTopics(name=topic, partition_indexes=indexes)
                    for topic, indexes in wanted.items()
                ],
            )
            response: ListPartitionReassignmentsResponse = await self._request(connection, request)
            _raise_for(response.error_code, response.error_message)
            return {
                TopicPartition(topic.name, one.partition_index): Reassignment(
                    tuple(one.replicas), tuple(one.adding_replicas), tuple(one.removing_replicas)
                )
                for topic in response.topics
                for one in topic.partitions
            }

        return await self._somebody(ask)

    async def describe_metadata_quorum(self) -> MetadataQuorum:
        """Describe the controllers' quorum: who leads, who votes, how far each is."""

        async def ask(connection: KafkaConnection) -> MetadataQuorum:
            response = await self._request(connection, quorum_question())
            return quorum_of(response)

        return await self._somebody(ask)

    async def describe_features(self) -> FeatureMetadata:
        """Give the levels of features: finalised in the cluster, supported by one broker."""

        async def ask(connection: KafkaConnection) -> FeatureMetadata:
            request = ApiVersionsRequest(
                client_software_name=SOFTWARE_NAME, client_software_version=SOFTWARE_VERSION
            )
            response: ApiVersionsResponse = await self._request(connection, request)
            _raise_for(response.error_code, None)
            epoch = response.finalized_features_epoch
            return FeatureMetadata(
                {one.name: one.max_version_level for one in response.finalized_features},
                {
                    one.name: FeatureLevels(one.min_version, one.max_version)
                    for one in response.supported_features
                },
                None if epoch < 0 else epoch,
            )

        return await self._somebody(ask)

    async def update_features(
        self, updates: Mapping[str, FeatureUpdate], *, validate_only: bool = False
    ) -> None:
        """Finalise levels of features, all or none; AdminError says why not.

        `validate_only` only asks whether it could be done.
        """

        async def ask(connection: KafkaConnection) -> UpdateFeaturesResponse:
            version = connection.version_of(ApiKey.UPDATE_FEATURES)
            if validate_only and version == 0:
                raise UnsupportedVersion(f"{connection.address}: cannot only validate")
            request = UpdateFeaturesRequest(
                timeout_ms=self.config.default_api_timeout_ms,
                feature_updates=[
                    FeatureUpdateKey(
                        feature=name,
                        max_version_level=update.level,
                        allow_downgrade=update.upgrade_type != UpgradeType.UPGRADE,
                        upgrade_type=update.upgrade_type,
                    )
                    for name, update in updates.items()
                ],
                validate_only=validate_only,
            )
            response: UpdateFeaturesResponse = await self._request(connection, request)
            if response.error_code == ErrorCode.NOT_CONTROLLER:
                _raise_for(response.error_code, response.error_message)
            return response

        response = await self._somebody(ask)
        errors = {
            one.feature: refused
            for one in response.results
            if (refused := _error(one.error_code, one.error_message)) is not None
        }
        if not errors and response.error_code:
            # From version 2 on there is one error for all.
            refused = ApiError(ErrorCode(response.error_code), response.error_message or "")
            errors = {", ".join(updates): refused}
        if errors:
            raise AdminError(errors)

    async def unregister_broker(self, broker_id: int) -> None:
        """Have the cluster forget a broker that will not come back; ApiError if it knows none.

        It is in sync nowhere then. Replicas that it should hold stay its own: move them first, by
        `alter_partition_reassignments`. One that still runs registers again by itself, and counts
        as one that was killed.
        """

        async def ask(connection: KafkaConnection) -> None:
            request = UnregisterBrokerRequest(broker_id=broker_id)
            response: UnregisterBrokerResponse = await self._request(connection, request)
            _raise_for(response.error_code, response.error_message)

        await self._somebody(ask)


def quorum_question() -> DescribeQuorumRequest:
    """Ask about the metadata log, as a broker or a controller is asked."""
    partition = QuorumPartition(partition_index=0)
    return DescribeQuorumRequest(
        topics=[QuorumTopic(topic_name=METADATA_TOPIC, partitions=[partition])]
    )


def quorum_of(response: DescribeQuorumResponse) -> MetadataQuorum:
    """Read the answer; ApiError where it says that there is none."""
    _raise_for(response.error_code, response.error_message)
    partitions = [one for topic in response.topics for one in topic.partitions]
    if len(partitions) != 1:
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{len(partitions)} metadata partitions")
    (found,) = partitions
    _raise_for(found.error_code, found.error_message)
    return MetadataQuorum(
        found.leader_id,
        found.leader_epoch,
        found.high_watermark,
        tuple(_replica(one) for one in found.current_voters),
        tuple(_replica(one) for one in found.observers),
        {
            node.node_id: tuple(f"{one.name}://{one.host}:{one.port}" for one in node.listeners)
            for node in response.nodes
        },
    )


def _replica(state: ReplicaState) -> QuorumReplica:
    def when(timestamp: int) -> int | None:
        return None if timestamp < 0 else timestamp

    return QuorumReplica(
        state.replica_id,
        uuid_to_text(state.replica_directory_id),
        state.log_end_offset,
        when(state.last_fetch_timestamp),
        when(state.last_caught_up_timestamp),
    )


def str_of(partition: TopicPartition | tuple[str, int]) -> str:
    """A partition as Kafka writes it, `topic-0`."""
    return f"{partition[0]}-{partition[1]}"


def _by_topic(partitions: Partitions) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for topic, index in partitions:
        found.setdefault(topic, []).append(index)
    return found


def _error(code: int, message: str | None) -> ApiError | None:
    return ApiError(ErrorCode(code), message or "") if code else None


def _raise_for(code: int, message: str | None) -> None:
    if code:
        raise ApiError(ErrorCode(code), message or "")
