"""Questions about topics that a consumer need not read: which partitions, which offsets.

They never move a position.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from ...protocol.types import TopicPartition
from ..records import OffsetAndTimestamp
from .engine import Engine

Partition = TopicPartition | tuple[str, int]
DEFAULT_TIMEOUT_MS: Final = 60_000


async def partitions_for(engine: Engine, topic: str, timeout_ms: int) -> list[int]:
    """List a topic's partitions; UnknownTopic if it does not exist after `timeout_ms`."""
    engine.check_usable()
    await engine.metadata.wait_for_topics([topic], timeout_ms)
    return sorted(engine.metadata.view.topics[topic].partitions)


async def offsets_at(
    engine: Engine, partitions: Iterable[Partition], timestamp: int, timeout_ms: int
) -> dict[TopicPartition, int]:
    """Look up one offset in each partition: EARLIEST_TIMESTAMP asks for the first."""
    wanted = {TopicPartition(*partition): timestamp for partition in partitions}
    engine.check_usable()
    found = await engine.list_offsets(wanted, timeout_ms)
    return {partition: listed.offset for partition, listed in found.items()}


async def offsets_for_times(
    engine: Engine, times: Mapping[TopicPartition, int], timeout_ms: int
) -> dict[TopicPartition, OffsetAndTimestamp | None]:
    """Look up the first record at or after each time in ms since the epoch; None if none is."""
    engine.check_usable()
    wanted = {TopicPartition(*partition): when for partition, when in times.items()}
    found = await engine.list_offsets(wanted, timeout_ms)
    return {
        tp: OffsetAndTimestamp(*listed) if listed.offset >= 0 else None
        for tp, listed in found.items()
    }
