"""Describes the lag of readers and groups, by asking the partitions' leaders.

The message DescribeLag exists only in minikafka. Brokers without it are asked for their high
watermarks.
"""

from collections.abc import Callable, Mapping
from functools import partial

from ...protocol.api import ApiKey
from ...protocol.errors import ApiError, ErrorCode
from ...protocol.messages import describe_lag as dl
from ...protocol.messages.list_offsets import ListOffsetsResponse, request_of_ends
from ...protocol.types import TopicPartition
from ..net.connection import KafkaConnection
from ..outcomes import error_of, raise_for
from ..partitions import by_topic, values_by_topic
from .asking import Asking
from .group_offsets import list_group_offsets
from .lag_types import PartitionLag
from .topics import leaders_by_metadata

Lags = dict[TopicPartition, PartitionLag | ApiError]


async def describe_group_lag(
    asking: Asking, group_id: str, *, timeout_ms: int | None = None
) -> Lags:
    """Return the lag of a group in the partitions for which it has committed offsets.

    A partition may have an error instead of a lag, as in `describe_lag`. Raise ApiError if the
    group's coordinator refuses.
    """
    committed = await list_group_offsets(asking, group_id)
    offsets = {partition: each.offset for partition, each in committed.items()}
    return await describe_lag(asking, offsets, timeout_ms=timeout_ms)


async def describe_lag(
    asking: Asking, offsets: Mapping[TopicPartition, int], *, timeout_ms: int | None = None
) -> Lags:
    """Return the lag of a reader that has these offsets to read next, by partition.

    Each leader is asked once. A partition has an error instead of a lag: NETWORK_EXCEPTION if its
    leader is down, REQUEST_TIMED_OUT if it does not answer within `timeout_ms` (default
    request_timeout_ms), UNKNOWN_TOPIC_OR_PARTITION if there is no such partition,
    LEADER_NOT_AVAILABLE or NOT_LEADER_OR_FOLLOWER if it has no leader at the moment.
    """
    wanted = {TopicPartition(*partition): offset for partition, offset in offsets.items()}
    topics = list(dict.fromkeys(topic for topic, _ in wanted))
    leaders = await asking.outcomes(topics, leaders_by_metadata)
    found: Lags = {}
    led: dict[int, dict[TopicPartition, int]] = {}
    for partition, offset in wanted.items():
        known = leaders[partition.topic]
        if isinstance(known, ApiError):
            found[partition] = known
            continue
        leader = known.get(partition.partition)
        if leader is None:
            found[partition] = ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        elif leader < 0:
            found[partition] = ApiError(ErrorCode.LEADER_NOT_AVAILABLE)
        else:
            led.setdefault(leader, {})[partition] = offset
    ask = partial(_ask, asking.wall_ms)
    told = await asking.at_once(led, ask, at_most=dl.MOST_PARTITIONS, timeout_ms=timeout_ms)
    for answers in told.values():
        found.update(answers)
    return {partition: found[partition] for partition in wanted}


async def _ask(
    wall_ms: Callable[[], int], connection: KafkaConnection, asked: Mapping[TopicPartition, int]
) -> Lags:
    if not connection.versions.supports(ApiKey.DESCRIBE_LAG):
        return await _ask_ends(connection, asked)
    topics = [
        dl.CommittedTopic(
            name=topic,
            partitions=[
                dl.CommittedPartition(partition_index=index, committed_offset=offset)
                for index, offset in values
            ],
        )
        for topic, values in values_by_topic(asked).items()
    ]
    response: dl.DescribeLagResponse = await connection.request(
        dl.DescribeLagRequest(topics=topics)
    )
    raise_for(response.error_code, response.error_message)
    now_ms = wall_ms()
    found: Lags = {}
    for topic in response.topics:
        for one in topic.partitions:
            partition = TopicPartition(topic.name, one.partition_index)
            found[partition] = error_of(one.error_code) or _lag(one, asked[partition], now_ms)
    return found


def _lag(one: dl.PartitionLag, offset: int, now_ms: int) -> PartitionLag:
    seconds: float | None = None
    if not one.records:
        seconds = 0.0
    elif one.oldest_timestamp >= 0:
        seconds = max(now_ms - one.oldest_timestamp, 0) / 1000
    return PartitionLag(
        offset,
        one.high_watermark,
        one.last_stable_offset,
        one.records,
        one.size_bytes,
        seconds,
        one.is_estimated,
    )


async def _ask_ends(connection: KafkaConnection, asked: Mapping[TopicPartition, int]) -> Lags:
    """Ask a broker without DescribeLag for the high watermarks of the partitions."""
    request = request_of_ends(by_topic(asked))
    response: ListOffsetsResponse = await connection.request(request)
    found: Lags = {}
    for topic in response.topics:
        for one in topic.partitions:
            partition = TopicPartition(topic.name, one.partition_index)
            error = error_of(one.error_code)
            found[partition] = error or PartitionLag(asked[partition], one.offset)
    return found
