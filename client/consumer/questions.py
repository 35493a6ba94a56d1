"""Queries for the partitions and offsets of topics, whether or not the consumer reads them.

They never change a position.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from ...protocol.types import TopicPartition
from ..records import OffsetAndTimestamp
from .engine import Engine

Partition = TopicPartition | tuple[str, int]
DEFAULT_TIMEOUT_MS: Final = 60_000


async def partitions_for(engine: Engine, topic: str, timeout_ms: int) -> list[int]:
    """List a topic's partition numbers; UnknownTopic if it does not exist after `timeout_ms`."""
    engine.check_usable()
    await engine.metadata.wait_for_topics([topic], timeout_ms)
    return sorted(engine.metadata.view.topics[topic].partitions)


async def offsets_at(
    engine: Engine, partitions: Iterable[Partition], timestamp: int, timeout_ms: int
) -> dict[TopicPartition, int]:
    """Look up the offset for one timestamp in each partition, such as EARLIEST_TIMESTAMP."""
    wanted = {TopicPartition(*partition): timestamp for partition in partitions}
    engine.check_usable()
    found = await engine.list_offsets(wanted, timeout_ms)
    return {partition: listed.offset for partition, listed in found.items()}


async def offsets_for_times(
    engine: Engine, times: Mapping[TopicPartition, int], timeout_ms: int
) -> dict[TopicPartition, OffsetAndTimestamp | None]:
    """Look up the first record at or after each time in ms since the epoch.

    The value is None if the partition has no record that late.
    """
    engine.check_usable()
    wanted = {TopicPartition(*partition): when for partition, when in times.items()}
    found = await engine.list_offsets(wanted, timeout_ms)
    return {
        tp: OffsetAndTimestamp(*listed) if listed.offset >= 0 else None
        for tp, listed in found.items()
    }
