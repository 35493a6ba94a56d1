"""Describes the replicas of partitions by asking the brokers that have them.

The message DescribeReplicas exists only in minikafka.
"""

from collections.abc import Iterable, Mapping

from ...protocol.errors import ApiError, ErrorCode
from ...protocol.messages.describe_replicas import (
    MOST_REPLICAS,
    DescribeReplicasRequest,
    DescribeReplicasResponse,
    PartitionResponse,
    ReplicaRole,
    TopicRequest,
)
from ...protocol.types import TopicPartition, uuid_to_text
from ..errors import UnsupportedVersion
from ..net.connection import KafkaConnection
from ..outcomes import error_of, raise_for
from ..partitions import by_topic
from .asking import Asking
from .replica_types import EpochStart, FollowerState, ReplicaState, UndecidedTransaction


async def describe_replicas(
    asking: Asking,
    replicas: Mapping[TopicPartition, Iterable[int]],
    *,
    timeout_ms: int | None = None,
) -> dict[TopicPartition, dict[int, ReplicaState | ApiError]]:
    """Describe replicas; `replicas` maps each partition to the ids of the brokers to ask.

    `describe_topics` returns those brokers (`PartitionDescription.replicas`). All are asked at the
    same time. A replica has an error instead of a state: NETWORK_EXCEPTION if its broker is down,
    REQUEST_TIMED_OUT if it does not answer within `timeout_ms` (default request_timeout_ms),
    NOT_LEADER_OR_FOLLOWER if it has no such replica, KAFKA_STORAGE_ERROR if its disk failed,
    UNSUPPORTED_VERSION if the broker is too old. Raise UnsupportedVersion if all brokers are too
    old or Apache Kafka's.
    """
    wanted = {TopicPartition(*each): list(brokers) for each, brokers in replicas.items()}
    of_broker: dict[int, dict[TopicPartition, None]] = {}
    for partition, brokers in wanted.items():
        for broker_id in brokers:
            of_broker.setdefault(broker_id, {})[partition] = None
    told = await asking.at_once(of_broker, _ask, at_most=MOST_REPLICAS, timeout_ms=timeout_ms)
    every = [answer for answers in told.values() for answer in answers.values()]
    if every and all(_is_unsupported(answer) for answer in every):
        raise UnsupportedVersion("these brokers do not describe replicas: it is minikafka's own")
    states = {
        broker_id: {
            partition: _state(broker_id, answer)
            if isinstance(answer, PartitionResponse)
            else answer
            for partition, answer in answers.items()
        }
        for broker_id, answers in told.items()
    }
    return {
        partition: {broker_id: states[broker_id][partition] for broker_id in brokers}
        for partition, brokers in wanted.items()
    }


async def _ask(
    connection: KafkaConnection, asked: Mapping[TopicPartition, None]
) -> dict[TopicPartition, PartitionResponse | ApiError]:
    topics = [TopicRequest(name=t, partition_indexes=p) for t, p in by_topic(asked).items()]
    response: DescribeReplicasResponse = await connection.request(
        DescribeReplicasRequest(topics=topics)
    )
    raise_for(response.error_code, response.error_message)
    return {
        TopicPartition(topic.name, one.partition_index): error_of(one.error_code) or one
        for topic in response.topics
        for one in topic.partitions
    }


def _is_unsupported(answer: object) -> bool:
    return isinstance(answer, ApiError) and answer.code is ErrorCode.UNSUPPORTED_VERSION


def _state(broker_id: int, one: PartitionResponse) -> ReplicaState:
    return ReplicaState(
        broker_id=broker_id,
        role=ReplicaRole(one.role),
        leader_id=one.leader_id,
        leader_epoch=one.leader_epoch,
        log_start_offset=one.log_start_offset,
        log_end_offset=one.log_end_offset,
        high_watermark=one.high_watermark,
        last_stable_offset=one.last_stable_offset,
        size_bytes=one.size_bytes,
        segment_count=one.segment_count,
        directory_id=uuid_to_text(one.directory_id),
        epochs=tuple(EpochStart(each.leader_epoch, each.start_offset) for each in one.epochs),
        isr=tuple(one.isr_nodes),
        followers=tuple(
            FollowerState(
                each.broker_id,
                _known(each.log_end_offset),
                _known(each.held_offset),
                each.behind_ms,
            )
            for each in one.followers
        ),
        open_transactions=tuple(
            UndecidedTransaction(
                each.producer_id, each.producer_epoch, each.first_offset, _known(each.started_ms)
            )
            for each in one.open_transactions
        ),
    )


def _known(number: int) -> int | None:
    """Return `number`, or None if it is negative, which means unknown in the message."""
    return None if number < 0 else number
