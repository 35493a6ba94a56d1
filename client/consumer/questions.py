"""Queries for the partitions and offsets of topics, whether or not the consumer reads them.

The queries never change a position.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from ...protocol.messages.list_offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from ...protocol.types import TopicPartition
from ..records import OffsetAndTimestamp
from ..telemetry.reporter import INSTANCE_ID_TIMEOUT_MS
from .engine import Engine

Partition = TopicPartition | tuple[str, int]
DEFAULT_TIMEOUT_MS: Final = 60_000


async def partitions_for(
    engine: Engine, topic: str, *, timeout_ms: int = DEFAULT_TIMEOUT_MS
) -> list[int]:
    """List a topic's partition numbers; raise UnknownTopic if it is not found in `timeout_ms`."""
    engine.check_usable()
    await engine.metadata.wait_for_topics([topic], timeout_ms)
    return sorted(engine.metadata.view.topics[topic].partitions)


async def beginning_offsets(
    engine: Engine, partitions: Iterable[Partition], *, timeout_ms: int = DEFAULT_TIMEOUT_MS
) -> dict[TopicPartition, int]:
    """Look up the first offset of each partition."""
    return await _offsets_at(engine, partitions, EARLIEST_TIMESTAMP, timeout_ms)


async def end_offsets(
    engine: Engine, partitions: Iterable[Partition], *, timeout_ms: int = DEFAULT_TIMEOUT_MS
) -> dict[TopicPartition, int]:
    """Look up the offset behind the last readable record of each partition.

    That is the high watermark, or under read_committed the last stable offset.
    """
    return await _offsets_at(engine, partitions, LATEST_TIMESTAMP, timeout_ms)


async def _offsets_at(
    engine: Engine, partitions: Iterable[Partition], timestamp: int, timeout_ms: int
) -> dict[TopicPartition, int]:
    wanted = {TopicPartition(*partition): timestamp for partition in partitions}
    engine.check_usable()
    found = await engine.list_offsets(wanted, timeout_ms)
    return {partition: listed.offset for partition, listed in found.items()}


async def offsets_for_times(
    engine: Engine,
    times: Mapping[TopicPartition, int],
    *,
    timeout_ms: int = DEFAULT_TIMEOUT_MS,
) -> dict[TopicPartition, OffsetAndTimestamp | None]:
    """Look up the first record at or after each time, in ms since the epoch.

    The value is None if the partition has no record that late.
    """
    engine.check_usable()
    wanted = {TopicPartition(*partition): when for partition, when in times.items()}
    found = await engine.list_offsets(wanted, timeout_ms)
    return {
        tp: OffsetAndTimestamp(*listed) if listed.offset >= 0 else None
        for tp, listed in found.items()
    }


async def client_instance_id(engine: Engine, *, timeout_ms: int = INSTANCE_ID_TIMEOUT_MS) -> str:
    """Return the id that a broker gave to this client for its metrics (KIP-714).

    It identifies the client in the metrics that the client pushes. Raise ValueError if
    enable.metrics.push is false, RequestTimedOut if no broker has given one in `timeout_ms`.
    """
    engine.check_usable()
    return await engine.reporter.instance_id(timeout_ms)
