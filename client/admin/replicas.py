"""Replicas: how each copy of a partition stands, asked of the broker that has it.

Knows the message DescribeReplicas, which is ours: other clusters lack it.
"""

import asyncio
from collections.abc import Iterable, Mapping

from ...protocol.errors import ApiError, ErrorCode, ProtocolError
from ...protocol.messages.describe_replicas import (
    MOST_REPLICAS,
    DescribeReplicasRequest,
    DescribeReplicasResponse,
    PartitionResponse,
    ReplicaRole,
    TopicRequest,
)
from ...protocol.types import TopicPartition, uuid_to_text
from ..errors import ClientClosed, ClientError, RequestTimedOut, UnsupportedVersion
from .asking import Asking
from .outcomes import error_of, raise_for
from .partitions import by_topic
from .replica_types import EpochStart, FollowerState, ReplicaState, UndecidedTransaction

Found = dict[TopicPartition, ReplicaState | ApiError]


async def describe_replicas(
    asking: Asking,
    replicas: Mapping[TopicPartition, Iterable[int]],
    *,
    timeout_ms: int | None = None,
) -> dict[TopicPartition, dict[int, ReplicaState | ApiError]]:
    """Describe replicas, each as its broker has it: the brokers to ask for each partition.

    `describe_topics` gives those brokers (`PartitionDescription.replicas`). Each is asked once, all
    at the same time, and one that is down or silent for `timeout_ms` (default request_timeout_ms)
    keeps nothing from the others: in the place of its replicas stands the error, NETWORK_EXCEPTION
    or REQUEST_TIMED_OUT. An error also stands where a broker has no such replica
    (NOT_LEADER_OR_FOLLOWER), lost its disk (KAFKA_STORAGE_ERROR) or is too old
    (UNSUPPORTED_VERSION). UnsupportedVersion if all of them are, as those of Apache Kafka.
    """
    asking.check_open()
    wanted = {TopicPartition(*each): list(brokers) for each, brokers in replicas.items()}
    of_broker: dict[int, list[TopicPartition]] = {}
    for partition, brokers in wanted.items():
        for broker_id in brokers:
            of_broker.setdefault(broker_id, []).append(partition)
    limit_ms = asking.config.request_timeout_ms if timeout_ms is None else timeout_ms
    answers = await asyncio.gather(
        *(_asked_once(asking, broker_id, asked, limit_ms) for broker_id, asked in of_broker.items())
    )
    unsupported = [isinstance(answer, UnsupportedVersion) for answer in answers]
    if answers and all(unsupported):
        raise UnsupportedVersion("these brokers do not describe replicas: it is minikafka's own")
    told = dict(zip(of_broker, answers, strict=True))
    return {
        partition: {broker_id: _of(told[broker_id], partition) for broker_id in brokers}
        for partition, brokers in wanted.items()
    }


async def _asked_once(
    asking: Asking, broker_id: int, partitions: list[TopicPartition], limit_ms: int
) -> Found | Exception:
    """Ask a broker, in as many requests as it takes; the error in place of an answer."""
    found: Found = {}
    try:
        async with asyncio.timeout(limit_ms / 1000):
            connection = await asking.metadata.connection_to(broker_id)
            for at in range(0, len(partitions), MOST_REPLICAS):
                part = by_topic(partitions[at : at + MOST_REPLICAS])
                request = DescribeReplicasRequest(
                    topics=[TopicRequest(name=t, partition_indexes=p) for t, p in part.items()]
                )
                response: DescribeReplicasResponse = await asking.request(connection, request)
                raise_for(response.error_code, response.error_message)
                for topic in response.topics:
                    for one in topic.partitions:
                        key = TopicPartition(topic.name, one.partition_index)
                        found[key] = error_of(one.error_code) or _state(broker_id, one)
    except ClientClosed:
        raise
    except (ApiError, ClientError, ProtocolError, TimeoutError) as error:
        asking.metadata.refresh_soon()
        return error
    return found


def _of(answer: Found | Exception, partition: TopicPartition) -> ReplicaState | ApiError:
    if isinstance(answer, dict):
        return answer.get(partition) or ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, "not answered")
    if isinstance(answer, ApiError):
        return answer
    if isinstance(answer, UnsupportedVersion):
        return ApiError(ErrorCode.UNSUPPORTED_VERSION, str(answer))
    if isinstance(answer, TimeoutError | RequestTimedOut):
        return ApiError(ErrorCode.REQUEST_TIMED_OUT, str(answer) or "no answer in the time allowed")
    return ApiError(ErrorCode.NETWORK_EXCEPTION, str(answer))


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
    """Give a number that is -1 on the wire where nothing is known."""
    return None if number < 0 else number
