"""The asyncio admin: topics, partitions, settings, cluster; its other parts have modules beside.

One method per thing asked for, each with a deadline of default_api_timeout_ms. Where a call names
many things and some are refused, the others are done and AdminError says which were not.
"""

from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self, Unpack

from ...protocol.api import ApiKey
from ...protocol.errors import ApiError, ErrorCode
from ...protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from ...protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ...protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from ...protocol.types import TopicPartition, uuid_to_text
from ...runtime.runtime import Runtime, SystemRuntime
from ..config import AdminConfig, AdminSettings, Servers, configured
from ..errors import AdminError, ClientClosed
from ..metadata import Metadata, pool_for
from ..net.connection import KafkaConnection
from ..offsets import ListedOffset, list_offsets
from .asking import Outcomes
from .cluster_types import ClusterDescription
from .commit_group_admin import CommitGroupAdmin
from .config_types import ConfigChange, ConfigEntry, ConfigResource
from .descriptions import (
    alter_configs,
    describe_cluster,
    describe_configs,
    describe_topics,
    list_topics,
)
from .log_admin import LogAdmin
from .replication_admin import ReplicationAdmin
from .topic_types import CreatedTopic, NewTopic, TopicDescription, TopicListing

BY_ID_VERSION: Final = 6


class Admin(ReplicationAdmin, CommitGroupAdmin, LogAdmin):
    """Administers a cluster.

        async with Admin("localhost:9092") as admin:
            await admin.create_topics([NewTopic("flights", num_partitions=6)])

    Raises AdminError where the cluster refused, RequestTimedOut after default_api_timeout_ms.
    """

    def __init__(
        self,
        bootstrap_servers: Servers | None = None,
        *,
        runtime: Runtime | None = None,
        **settings: Unpack[AdminSettings],
    ) -> None:
        self.config = configured(AdminConfig, bootstrap_servers, settings)
        self._runtime = runtime or SystemRuntime("admin")
        self._pool = pool_for(self._runtime, self.config)
        self._metadata = Metadata(self._runtime, self.config, self._pool)
        self._coordinators = {}
        self._is_started = self._is_closed = False

    @classmethod
    def from_config(cls, config: Mapping[str, Any], **arguments: Any) -> Self:
        """Make an admin from a mapping with Kafka's dotted keys, and arguments as above."""
        return cls(**dict(config), **arguments)

    async def start(self) -> Self:
        """Reach the cluster; `async with` does it. BootstrapError after bootstrap_timeout_ms."""
        if self._is_closed:
            raise ClientClosed("the admin is closed")
        if not self._is_started:
            try:
                await self._metadata.start()
            except BaseException:
                await self._pool.close()
                raise
            self._is_started = True
        return self

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End."""
        self._is_closed = True
        await self._metadata.close()
        await self._pool.close()

    # -- topics

    async def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False
    ) -> dict[str, CreatedTopic]:
        """Create topics; with `validate_only` say whether they could be created."""
        by_name = {topic.name: _creatable(topic) for topic in topics}

        async def ask(connection: KafkaConnection, names: list[str]) -> Outcomes[CreatedTopic]:
            request = CreateTopicsRequest(
                topics=[by_name[name] for name in names],
                timeout_ms=self.config.default_api_timeout_ms,
                validate_only=validate_only,
            )
            response: CreateTopicsResponse = await self._request(connection, request)
            return {
                one.name: _refusal(one.error_code, one.error_message)
                or CreatedTopic(
                    one.name,
                    uuid_to_text(one.topic_id),
                    one.num_partitions,
                    one.replication_factor,
                )
                for one in response.topics
            }

        return await self._each(list(by_name), ask)

    async def delete_topics(self, names: Sequence[str]) -> None:
        """Delete topics and all their records."""

        async def ask(connection: KafkaConnection, names: list[str]) -> Outcomes[str]:
            version = connection.version_of(ApiKey.DELETE_TOPICS)
            request = DeleteTopicsRequest(timeout_ms=self.config.default_api_timeout_ms)
            if version >= BY_ID_VERSION:
                request.topics = [DeleteTopicState(name=name) for name in names]
            else:
                request.topic_names = names
            response: DeleteTopicsResponse = await self._request(connection, request)
            return {
                one.name: _refusal(one.error_code, one.error_message) or one.name
                for one in response.responses
                if one.name is not None
            }

        await self._each(list(dict.fromkeys(names)), ask)

    async def create_partitions(
        self,
        counts: Mapping[str, int],
        *,
        assignments: Mapping[str, Sequence[Sequence[int]]] | None = None,
        validate_only: bool = False,
    ) -> None:
        """Raise topics to so many partitions; `assignments` names brokers per new partition."""
        placed = assignments or {}

        async def ask(connection: KafkaConnection, names: list[str]) -> Outcomes[str]:
            topics = [
                CreatePartitionsTopic(
                    name=name,
                    count=counts[name],
                    assignments=[
                        CreatePartitionsAssignment(broker_ids=list(brokers))
                        for brokers in placed[name]
                    ]
                    if name in placed
                    else None,
                )
                for name in names
            ]
            request = CreatePartitionsRequest(
                topics=topics,
                timeout_ms=self.config.default_api_timeout_ms,
                validate_only=validate_only,
            )
            response: CreatePartitionsResponse = await self._request(connection, request)
            return {
                one.name: _refusal(one.error_code, one.error_message) or one.name
                for one in response.results
            }

        await self._each(list(counts), ask)

    async def list_topics(self, *, include_internal: bool = False) -> list[TopicListing]:
        """List all topics by name."""
        found = await self._somebody(list_topics)
        return [topic for topic in found if include_internal or not topic.is_internal]

    async def describe_topics(self, names: Sequence[str]) -> dict[str, TopicDescription]:
        """Describe topics; AdminError names those that do not exist."""

        async def ask(connection: KafkaConnection, names: list[str]) -> Outcomes[TopicDescription]:
            return await describe_topics(connection, names)

        return await self._each(list(dict.fromkeys(names)), ask)

    # -- cluster and settings

    async def describe_cluster(self, *, include_fenced: bool = False) -> ClusterDescription:
        """Describe the cluster: its id, its brokers, who takes admin requests."""
        return await self._somebody(
            lambda connection: describe_cluster(connection, include_fenced=include_fenced)
        )

    async def describe_configs(
        self, resources: Iterable[ConfigResource], *, keys: Sequence[str] | None = None
    ) -> dict[ConfigResource, dict[str, ConfigEntry]]:
        """Give the settings of topics and brokers, or only `keys` of them."""
        described: dict[ConfigResource, dict[str, ConfigEntry]] = {}
        errors: dict[str, ApiError] = {}
        for node_id, part in self._by_broker(resources).items():
            found = await self._somebody(
                lambda connection, part=part: describe_configs(connection, part, keys),  # type: ignore[misc]
                node_id,
            )
            for resource, answer in found.items():
                if isinstance(answer, ApiError):
                    errors[str(resource)] = answer
                else:
                    described[resource] = answer
        if errors:
            raise AdminError(errors)
        return described

    async def incremental_alter_configs(
        self,
        changes: Mapping[ConfigResource, Sequence[ConfigChange]],
        *,
        validate_only: bool = False,
    ) -> None:
        """Change single settings of topics and brokers, leaving others as they are."""
        by_name = {str(resource): resource for resource in changes}

        async def ask(connection: KafkaConnection, names: list[str]) -> Outcomes[str]:
            part = {by_name[name]: changes[by_name[name]] for name in names}
            return await alter_configs(connection, part, validate_only=validate_only)

        await self._each(list(by_name), ask)

    async def list_offsets(
        self, timestamps: Mapping[TopicPartition, int], *, isolation_level: int = 0
    ) -> dict[TopicPartition, ListedOffset]:
        """Look up the first offset at or after each time in ms; -1: the end, -2: the start."""
        return await list_offsets(
            self._metadata,
            {TopicPartition(*partition): when for partition, when in timestamps.items()},
            timeout_ms=self.config.default_api_timeout_ms,
            isolation_level=isolation_level,
        )

    def _by_broker(
        self, resources: Iterable[ConfigResource]
    ) -> dict[int | None, list[ConfigResource]]:
        """A broker's own settings are known to that broker only."""
        parts: dict[int | None, list[ConfigResource]] = {}
        for resource in resources:
            is_broker = resource == ConfigResource(ConfigResource.broker(0).type, resource.name)
            node = int(resource.name) if is_broker and resource.name.isdecimal() else None
            parts.setdefault(node, []).append(ConfigResource(*resource))
        return parts


def _refusal(code: int, message: str | None) -> ApiError | None:
    return None if code == 0 else ApiError(ErrorCode(code), message or "")


def _creatable(topic: NewTopic) -> CreatableTopic:
    return CreatableTopic(
        name=topic.name,
        num_partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=list(brokers))
            for index, brokers in (topic.assignments or {}).items()
        ],
        configs=[CreatableTopicConfig(name=k, value=v) for k, v in topic.configs.items()],
    )
