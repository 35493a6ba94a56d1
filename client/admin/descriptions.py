"""Questions about topics, cluster and settings, put to one broker, answered as plain values.

Knows the messages and their versions. Never retries and never chooses the broker.
"""

from collections.abc import Mapping, Sequence

from ...protocol.api import ApiKey
from ...protocol.errors import ApiError, ErrorCode
from ...protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from ...protocol.messages.describe_configs import (
    ConfigSource,
    ConfigType,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    ResourceType,
)
from ...protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseTopic,
    TopicRequest,
)
from ...protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ...protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ...protocol.types import uuid_to_text
from ..net.connection import KafkaConnection
from .cluster_types import BrokerDescription, ClusterDescription
from .config_types import ConfigChange, ConfigEntry, ConfigResource
from .topic_types import PartitionDescription, TopicDescription, TopicListing


async def list_topics(connection: KafkaConnection) -> list[TopicListing]:
    """List all topics by name."""
    # Version 0 has no null: there an empty list means all.
    everything: list[MetadataRequestTopic] | None = (
        None if connection.version_of(ApiKey.METADATA) else []
    )
    request = MetadataRequest(topics=everything, allow_auto_topic_creation=False)
    response: MetadataResponse = await connection.request(request)
    listed = [
        TopicListing(topic.name, uuid_to_text(topic.topic_id), topic.is_internal)
        for topic in response.topics
        if topic.name is not None
    ]
    return sorted(listed)


async def describe_topics(
    connection: KafkaConnection, names: list[str]
) -> dict[str, TopicDescription | ApiError]:
    """Describe topics, with eligible leader replicas where the broker knows of them."""
    if connection.supports(ApiKey.DESCRIBE_TOPIC_PARTITIONS):
        return await _describe_by_page(connection, names)
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in names],
        allow_auto_topic_creation=False,
    )
    response: MetadataResponse = await connection.request(request)
    described: dict[str, TopicDescription | ApiError] = {}
    for topic in response.topics:
        if topic.name is None:
            continue
        if topic.error_code:
            described[topic.name] = ApiError(ErrorCode(topic.error_code))
            continue
        partitions = [
            PartitionDescription(
                one.partition_index,
                one.leader_id,
                one.leader_epoch,
                tuple(one.replica_nodes),
                tuple(one.isr_nodes),
                tuple(one.offline_replicas),
            )
            for one in topic.partitions
        ]
        described[topic.name] = TopicDescription(
            topic.name, uuid_to_text(topic.topic_id), topic.is_internal, _in_order(partitions)
        )
    return described


async def _describe_by_page(
    connection: KafkaConnection, names: list[str]
) -> dict[str, TopicDescription | ApiError]:
    described: dict[str, TopicDescription | ApiError] = {}
    request = DescribeTopicPartitionsRequest(topics=[TopicRequest(name=name) for name in names])
    while True:
        response: DescribeTopicPartitionsResponse = await connection.request(request)
        for topic in response.topics:
            if topic.name is None:
                continue
            if topic.error_code:
                described[topic.name] = ApiError(ErrorCode(topic.error_code))
                continue
            before = described.get(topic.name)
            earlier = before.partitions if isinstance(before, TopicDescription) else ()
            described[topic.name] = TopicDescription(
                topic.name,
                uuid_to_text(topic.topic_id),
                topic.is_internal,
                _in_order([*earlier, *_partitions(topic)]),
            )
        if response.next_cursor is None:
            return described
        request.cursor = response.next_cursor


def _partitions(topic: DescribeTopicPartitionsResponseTopic) -> list[PartitionDescription]:
    return [
        PartitionDescription(
            one.partition_index,
            one.leader_id,
            one.leader_epoch,
            tuple(one.replica_nodes),
            tuple(one.isr_nodes),
            tuple(one.offline_replicas),
            None if one.eligible_leader_replicas is None else tuple(one.eligible_leader_replicas),
            None if one.last_known_elr is None else tuple(one.last_known_elr),
        )
        for one in topic.partitions
    ]


def _in_order(partitions: list[PartitionDescription]) -> tuple[PartitionDescription, ...]:
    return tuple(sorted(partitions, key=lambda one: one.partition))


async def describe_cluster(
    connection: KafkaConnection, *, include_fenced: bool
) -> ClusterDescription:
    """Describe the cluster; fenced brokers only where the broker can tell of them."""
    if not connection.supports(ApiKey.DESCRIBE_CLUSTER):
        metadata: MetadataResponse = await connection.request(MetadataRequest(topics=[]))
        seen = [BrokerDescription(b.node_id, b.host, b.port, b.rack) for b in metadata.brokers]
        return ClusterDescription(
            metadata.cluster_id or "", metadata.controller_id, tuple(sorted(seen))
        )
    request = DescribeClusterRequest(include_fenced_brokers=include_fenced)
    response: DescribeClusterResponse = await connection.request(request)
    if response.error_code:
        raise ApiError(ErrorCode(response.error_code), response.error_message or "")
    brokers = [
        BrokerDescription(b.broker_id, b.host, b.port, b.rack, b.is_fenced)
        for b in response.brokers
    ]
    return ClusterDescription(
        response.cluster_id,
        response.controller_id,
        tuple(sorted(brokers, key=lambda broker: broker.node_id)),
    )


async def describe_configs(
    connection: KafkaConnection, resources: Sequence[ConfigResource], keys: Sequence[str] | None
) -> dict[ConfigResource, dict[str, ConfigEntry] | ApiError]:
    """Give the settings of each resource, or its refusal."""
    request = DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(
                resource_type=resource.type,
                resource_name=resource.name,
                configuration_keys=None if keys is None else list(keys),
            )
            for resource in resources
        ],
        include_synonyms=True,
        include_documentation=True,
    )
    response: DescribeConfigsResponse = await connection.request(request)
    described: dict[ConfigResource, dict[str, ConfigEntry] | ApiError] = {}
    for result in response.results:
        resource = ConfigResource(ResourceType(result.resource_type), result.resource_name)
        if result.error_code:
            code = ErrorCode(result.error_code)
            described[resource] = ApiError(code, result.error_message or "")
        else:
            described[resource] = {entry.name: _entry(entry) for entry in result.configs}
    return described


def _entry(entry: DescribeConfigsResourceResult) -> ConfigEntry:
    return ConfigEntry(
        entry.name,
        entry.value,
        _source(entry.config_source),
        entry.read_only,
        entry.is_sensitive,
        ConfigType(entry.config_type)
        if entry.config_type in ConfigType.__members__.values()
        else ConfigType.UNKNOWN,
        entry.documentation,
        tuple((one.name, one.value, _source(one.source)) for one in entry.synonyms),
    )


def _source(number: int) -> ConfigSource:
    # A newer broker may know sources that we do not.
    known = number in ConfigSource.__members__.values()
    return ConfigSource(number) if known else ConfigSource.UNKNOWN


async def alter_configs(
    connection: KafkaConnection,
    changes: Mapping[ConfigResource, Sequence[ConfigChange]],
    *,
    validate_only: bool,
) -> dict[str, str | ApiError]:
    """Change settings; the outcome by the resource's text."""
    request = IncrementalAlterConfigsRequest(
        resources=[
            AlterConfigsResource(
                resource_type=resource.type,
                resource_name=resource.name,
                configs=[
                    AlterableConfig(
                        name=change.name, config_operation=change.operation, value=change.value
                    )
                    for change in wanted
                ],
            )
            for resource, wanted in changes.items()
        ],
        validate_only=validate_only,
    )
    response: IncrementalAlterConfigsResponse = await connection.request(request)
    outcomes: dict[str, str | ApiError] = {}
    for result in response.responses:
        name = str(ConfigResource(ResourceType(result.resource_type), result.resource_name))
        code = ErrorCode(result.error_code)
        outcomes[name] = ApiError(code, result.error_message or "") if code else name
    return outcomes
