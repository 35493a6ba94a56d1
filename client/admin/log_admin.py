"""The part of the admin that is about logs: records deleted, directories, whole configurations."""

from collections.abc import Iterable, Mapping, Sequence

from ...protocol.errors import ApiError, ErrorCode
from ...protocol.messages import alter_configs as ac
from ...protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from ...protocol.messages.describe_configs import ResourceType
from ...protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)
from ...protocol.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from ...protocol.types import TopicPartition
from ..net.connection import KafkaConnection
from ..offsets import ask_leaders
from .asking import Asking, Outcomes
from .config_types import ConfigResource
from .group_admin import raise_for
from .log_types import LogDirectory, ReplicaInfo


class LogAdmin(Asking):
    """What an admin can ask about logs, and delete from them."""

    async def delete_records(
        self, offsets: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """Delete everything before these offsets, -1: all; gives where the logs begin now.

        AdminError names partitions that were refused; the others were done.
        """

        async def ask(
            connection: KafkaConnection, asked: Mapping[TopicPartition, int]
        ) -> dict[TopicPartition, int | ApiError]:
            topics: dict[str, DeleteRecordsTopic] = {}
            for (name, index), offset in asked.items():
                wanted_of = topics.setdefault(name, DeleteRecordsTopic(name=name, partitions=[]))
                wanted_of.partitions.append(
                    DeleteRecordsPartition(partition_index=index, offset=offset)
                )
            request = DeleteRecordsRequest(
                topics=list(topics.values()), timeout_ms=self.config.request_timeout_ms
            )
            response: DeleteRecordsResponse = await self._request(connection, request)
            return {
                TopicPartition(topic.name, one.partition_index): ApiError(ErrorCode(one.error_code))
                if one.error_code
                else one.low_watermark
                for topic in response.topics
                for one in topic.partitions
            }

        self._check_open()
        wanted = {TopicPartition(*partition): offset for partition, offset in offsets.items()}
        timeout_ms = self.config.default_api_timeout_ms
        return await ask_leaders(self._metadata, wanted, ask, timeout_ms)

    async def describe_log_dirs(
        self,
        broker_ids: Iterable[int] | None = None,
        partitions: Iterable[TopicPartition] | None = None,
    ) -> dict[int, dict[str, LogDirectory]]:
        """Describe the directories of these brokers or all, by broker and path."""
        topics: list[DescribableLogDirTopic] | None = None
        if partitions is not None:
            by_topic: dict[str, list[int]] = {}
            for name, index in partitions:
                by_topic.setdefault(name, []).append(index)
            topics = [DescribableLogDirTopic(topic=t, partitions=p) for t, p in by_topic.items()]

        async def ask(connection: KafkaConnection) -> dict[str, LogDirectory]:
            request = DescribeLogDirsRequest(topics=topics)
            response: DescribeLogDirsResponse = await self._request(connection, request)
            raise_for(response.error_code, f"broker at {connection.address}")
            return {one.log_dir: _directory(one) for one in response.results}

        return await self._every_broker(ask, broker_ids)

    async def alter_configs(
        self,
        configs: Mapping[ConfigResource, Mapping[str, str]],
        *,
        validate_only: bool = False,
    ) -> None:
        """Replace whole configurations: what is not named goes back to its default.

        For older tools' sake; `incremental_alter_configs` changes single settings.
        """
        by_name = {str(resource): resource for resource in configs}

        async def ask(connection: KafkaConnection, names: list[str]) -> Outcomes[str]:
            request = ac.AlterConfigsRequest(
                resources=[
                    ac.AlterConfigsResource(
                        resource_type=by_name[name].type,
                        resource_name=by_name[name].name,
                        configs=[
                            ac.AlterableConfig(name=key, value=value)
                            for key, value in configs[by_name[name]].items()
                        ],
                    )
                    for name in names
                ],
                validate_only=validate_only,
            )
            response: ac.AlterConfigsResponse = await self._request(connection, request)
            return {
                (
                    name := str(ConfigResource(ResourceType(one.resource_type), one.resource_name))
                ): ApiError(ErrorCode(one.error_code), one.error_message or "")
                if one.error_code
                else name
                for one in response.responses
            }

        await self._each(list(by_name), ask)

    async def list_config_resources(
        self, types: Sequence[ResourceType] = ()
    ) -> list[ConfigResource]:
        """List what has settings of its own, of these types or of all."""

        async def ask(connection: KafkaConnection) -> list[ConfigResource]:
            request = ListConfigResourcesRequest(resource_types=[int(one) for one in types])
            response: ListConfigResourcesResponse = await self._request(connection, request)
            raise_for(response.error_code)
            return sorted(
                ConfigResource(ResourceType(one.resource_type), one.resource_name)
                for one in response.config_resources
            )

        return await self._somebody(ask)


def _directory(result: DescribeLogDirsResult) -> LogDirectory:
    code = ErrorCode(result.error_code)
    return LogDirectory(
        None if code is ErrorCode.NONE else ApiError(code),
        {
            TopicPartition(topic.name, one.partition_index): ReplicaInfo(
                one.partition_size, one.offset_lag, one.is_future_key
            )
            for topic in result.topics
            for one in topic.partitions
        },
        None if result.total_bytes < 0 else result.total_bytes,
        None if result.usable_bytes < 0 else result.usable_bytes,
    )
