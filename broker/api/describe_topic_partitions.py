"""DescribeTopicPartitions: topics by name, page by page, with eligible leaders (KIP-966)."""

from ...protocol.acls import Operation, Resource
from ...protocol.api import ApiKey
from ...protocol.control.image import PartitionState, Topic
from ...protocol.errors import ErrorCode
from ...protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from ...protocol.types import INTERNAL_TOPICS, NO_LEADER, ZERO_UUID
from ..net.answer import Call
from ..whereabouts import replicas_offline
from .common import is_legal_topic_name, operations_told

PAGE_MAX = 2000

Page = DescribeTopicPartitionsResponse


def handle(call: Call, request: DescribeTopicPartitionsRequest) -> Page:
    """Return the page of partitions that begins at the cursor."""
    image = call.edge.image
    rights, asked = call.rights, dict.fromkeys(topic.name for topic in request.topics)
    names = sorted(asked or image.topic_ids)
    cursor = request.cursor
    if cursor is not None:
        names = [name for name in names if name >= cursor.topic_name]
    room = min(max(request.response_partition_limit, 1), PAGE_MAX)
    page = DescribeTopicPartitionsResponse(topics=[])
    for name in names:
        if rights is not None and not rights.may(Operation.DESCRIBE, Resource.TOPIC, name):
            if asked:
                call.demand(
                    ApiKey.DESCRIBE_TOPIC_PARTITIONS, Operation.DESCRIBE, Resource.TOPIC, name
                )
                page.topics.append(_failed(name, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
            continue
        topic = image.topic(name)
        if topic is None:
            page.topics.append(_unknown(name))
            continue
        is_first = cursor is not None and cursor.topic_name == name
        start = cursor.partition_index if cursor is not None and is_first else 0
        indexes = [index for index in sorted(topic.partitions) if index >= max(start, 0)]
        if indexes and room == 0:
            page.next_cursor = Cursor(topic_name=name, partition_index=indexes[0])
            break
        page.topics.append(_topic(call, topic, indexes[:room]))
        if len(indexes) > room:
            page.next_cursor = Cursor(topic_name=name, partition_index=indexes[room])
            break
        room -= len(indexes)
    return page


def _unknown(name: str) -> DescribeTopicPartitionsResponseTopic:
    is_legal = is_legal_topic_name(name)
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_legal else ErrorCode.INVALID_TOPIC_EXCEPTION
    return _failed(name, error)


def _failed(name: str, error: ErrorCode) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(error_code=error, name=name, topic_id=ZERO_UUID)


def _topic(call: Call, topic: Topic, indexes: list[int]) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=[_partition(call, index, topic.partitions[index]) for index in indexes],
        topic_authorized_operations=operations_told(call, Resource.TOPIC, topic.name),
    )


def _partition(
    call: Call, index: int, state: PartitionState
) -> DescribeTopicPartitionsResponsePartition:
    image = call.edge.image
    leader = image.brokers.get(state.leader)
    is_led = leader is not None and not leader.fenced
    return DescribeTopicPartitionsResponsePartition(
        error_code=ErrorCode.NONE if is_led else ErrorCode.LEADER_NOT_AVAILABLE,
        partition_index=index,
        leader_id=state.leader if is_led else NO_LEADER,
        leader_epoch=state.leader_epoch,
        replica_nodes=list(state.replicas),
        isr_nodes=list(state.isr),
        eligible_leader_replicas=list(state.elr),
        last_known_elr=list(state.last_known_elr),
        offline_replicas=replicas_offline(image, state.replicas),
    )
