"""Creates, deletes, lists and describes topics, and adds partitions to them."""

from collections.abc import Mapping, Sequence
from typing import Final, TypeVar

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
from ...protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseTopic,
    TopicRequest,
)
from ...protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ...protocol.types import uuid_to_text
from ..net.connection import KafkaConnection
from ..outcomes import Outcomes, error_of
from .asking import Asking
from .topic_types import (
    CreatedTopic,
    NewTopic,
    PartitionDescription,
    TopicDescription,
    TopicListing,
)

T = TypeVar("T")

BY_ID_VERSION: Final = 6
MOST_NAMED: Final = 500
"""The most topics that a request names. For more, all topics are requested, because our brokers
cache that answer."""


async def create_topics(
    asking: Asking, topics: Sequence[NewTopic], *, validate_only: bool = False
) -> dict[str, CreatedTopic]:
    """Create topics; with `validate_only`, only check whether they could be created.

    Raise AdminError with the topics that are refused; the others are created.
    """
    by_name = {topic.name: _creatable(topic) for topic in topics}

    async def ask(connection: KafkaConnection, names: list[str]) -> Outcomes[CreatedTopic]:
        request = CreateTopicsRequest(
            topics=[by_name[name] for name in names],
            timeout_ms=asking.config.default_api_timeout_ms,
            validate_only=validate_only,
        )
        response: CreateTopicsResponse = await asking.request(connection, request)
        return {
            one.name: error_of(one.error_code, one.error_message)
            or CreatedTopic(
                one.name,
                uuid_to_text(one.topic_id),
                one.num_partitions,
                one.replication_factor,
            )
            for one in response.topics
        }

    return await asking.each(list(by_name), ask)


async def delete_topics(asking: Asking, names: Sequence[str]) -> None:
    """Delete topics and all their records.

    Raise AdminError with the topics that are refused; the others are deleted.
    """

    async def ask(connection: KafkaConnection, names: list[str]) -> Outcomes[str]:
        version = connection.versions.of(ApiKey.DELETE_TOPICS)
        request = DeleteTopicsRequest(timeout_ms=asking.config.default_api_timeout_ms)
        if version >= BY_ID_VERSION:
            request.topics = [DeleteTopicState(name=name) for name in names]
        else:
            request.topic_names = names
        response: DeleteTopicsResponse = await asking.request(connection, request)
        return {
            one.name: error_of(one.error_code, one.error_message) or one.name
            for one in response.responses
            if one.name is not None
        }

    await asking.each(list(dict.fromkeys(names)), ask)


async def create_partitions(
    asking: Asking,
    counts: Mapping[str, int],
    *,
    assignments: Mapping[str, Sequence[Sequence[int]]] | None = None,
    validate_only: bool = False,
) -> None:
    """Add partitions to topics, up to the total numbers in `counts`.

    `assignments` lists for each topic the brokers of each new partition, preferred leader first.
    Raise AdminError with the topics that are refused; the others are changed.
    """
    placed = assignments or {}

    async def ask(connection: KafkaConnection, names: list[str]) -> Outcomes[str]:
        topics = [
            CreatePartitionsTopic(
                name=name,
                count=counts[name],
                assignments=[
                    CreatePartitionsAssignment(broker_ids=list(brokers)) for brokers in placed[name]
                ]
                if name in placed
                else None,
            )
            for name in names
        ]
        request = CreatePartitionsRequest(
            topics=topics,
            timeout_ms=asking.config.default_api_timeout_ms,
            validate_only=validate_only,
        )
        response: CreatePartitionsResponse = await asking.request(connection, request)
        return {
            one.name: error_of(one.error_code, one.error_message) or one.name
            for one in response.results
        }

    await asking.each(list(counts), ask)


async def list_topics(asking: Asking, *, include_internal: bool = False) -> list[TopicListing]:
    """List all topics, sorted by name."""

    async def ask(connection: KafkaConnection) -> list[TopicListing]:
        response = await _metadata_of_all(connection)
        return sorted(
            TopicListing(topic.name, uuid_to_text(topic.topic_id), topic.is_internal)
            for topic in response.topics
            if topic.name is not None and (include_internal or not topic.is_internal)
        )

    return await asking.one_broker(ask)


async def describe_topics(
    asking: Asking, names: Sequence[str] | None = None
) -> dict[str, TopicDescription]:
    """Describe topics; AdminError names those that do not exist.

    Eligible leader replicas are included if the broker that is asked supports them. If `names` is
    None, describe all topics, internal ones too, sorted by name and without eligible leader
    replicas. This takes one Metadata response, which brokers cache, instead of many pages.
    """
    if names is None:
        return await asking.one_broker(_describe_all)

    async def ask(connection: KafkaConnection, names: list[str]) -> Outcomes[TopicDescription]:
        if connection.versions.supports(ApiKey.DESCRIBE_TOPIC_PARTITIONS):
            return await _describe_by_page(connection, names)
        return await describe_by_metadata(connection, names)

    return await asking.each(list(dict.fromkeys(names)), ask)


async def describe_by_metadata(
    connection: KafkaConnection, names: list[str]
) -> Outcomes[TopicDescription]:
    """Describe topics without their eligible leader replicas, by one Metadata request."""
    found = _described(await _metadata_of(connection, names))
    return _each(names, found)


async def leaders_by_metadata(
    connection: KafkaConnection, names: list[str]
) -> Outcomes[dict[int, int]]:
    """Return the leader of each partition of these topics, by partition; -1 if it has none."""
    found: Outcomes[dict[int, int]] = {
        topic.name: error_of(topic.error_code)
        or {one.partition_index: one.leader_id for one in topic.partitions}
        for topic in (await _metadata_of(connection, names)).topics
        if topic.name is not None
    }
    return _each(names, found)


def _each(names: list[str], found: Outcomes[T]) -> Outcomes[T]:
    missing = ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return {name: found.get(name, missing) for name in names}


async def _metadata_of(connection: KafkaConnection, names: list[str]) -> MetadataResponse:
    """Request the metadata of these topics, or of all topics if these are more than MOST_NAMED."""
    if len(names) > MOST_NAMED:
        return await _metadata_of_all(connection)
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in names],
        allow_auto_topic_creation=False,
    )
    response: MetadataResponse = await connection.request(request)
    return response


async def _describe_all(connection: KafkaConnection) -> dict[str, TopicDescription]:
    found = _described(await _metadata_of_all(connection))
    return {name: one for name, one in sorted(found.items()) if isinstance(one, TopicDescription)}


async def _metadata_of_all(connection: KafkaConnection) -> MetadataResponse:
    # Version 0 has no null; in it an empty list means all topics.
    everything: list[MetadataRequestTopic] | None = (
        None if connection.versions.of(ApiKey.METADATA) else []
    )
    request = MetadataRequest(topics=everything, allow_auto_topic_creation=False)
    response: MetadataResponse = await connection.request(request)
    return response


def _described(response: MetadataResponse) -> Outcomes[TopicDescription]:
    described: Outcomes[TopicDescription] = {}
    for topic in response.topics:
        if topic.name is None:
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
        described[topic.name] = error_of(topic.error_code) or TopicDescription(
            topic.name, uuid_to_text(topic.topic_id), topic.is_internal, _in_order(partitions)
        )
    return described


async def _describe_by_page(
    connection: KafkaConnection, names: list[str]
) -> Outcomes[TopicDescription]:
    described: Outcomes[TopicDescription] = {}
    request = DescribeTopicPartitionsRequest(topics=[TopicRequest(name=name) for name in names])
    while True:
        response: DescribeTopicPartitionsResponse = await connection.request(request)
        for topic in response.topics:
            if topic.name is None:
                continue
            if error := error_of(topic.error_code):
                described[topic.name] = error
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
