"""Asks a leader where its logs begin and end, for followers whose fetch was outside of them."""

from collections.abc import Sequence

from ...client.net.connection import KafkaConnection
from ...protocol.messages.list_offsets import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ..partition.partition import Partition


async def leader_offsets(
    connection: KafkaConnection, asker: int, partitions: Sequence[Partition]
) -> list[tuple[int, int] | None]:
    """Return log start and log end for each partition; None where the leader gave an error."""
    starts = await _list_offsets(connection, asker, partitions, EARLIEST_TIMESTAMP)
    ends = await _list_offsets(connection, asker, partitions, LATEST_TIMESTAMP)
    found: list[tuple[int, int] | None] = []
    for partition in partitions:
        key = (partition.topic, partition.index)
        found.append((starts[key], ends[key]) if key in starts and key in ends else None)
    return found


async def _list_offsets(
    connection: KafkaConnection, asker: int, partitions: Sequence[Partition], timestamp: int
) -> dict[tuple[str, int], int]:
    topics: dict[str, list[ListOffsetsPartition]] = {}
    for partition in partitions:
        topics.setdefault(partition.topic, []).append(
            ListOffsetsPartition(
                partition_index=partition.index,
                current_leader_epoch=partition.leader_epoch,
                timestamp=timestamp,
            )
        )
    request = ListOffsetsRequest(
        replica_id=asker,
        topics=[ListOffsetsTopic(name=each, partitions=topics[each]) for each in topics],
    )
    answer: ListOffsetsResponse = await connection.request(request)
    return {
        (topic.name, found.partition_index): found.offset
        for topic in answer.topics
        for found in topic.partitions
        if not found.error_code and found.offset >= 0
    }
