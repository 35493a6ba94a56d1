"""Looks for records by a header: reads partitions from a time on, within a bound."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from ...protocol.types import TopicPartition
from .consumer import Consumer
from .retry_batch import Raw

POLL_MS: Final = 500
FOUND_MAX: Final = 1_000
"""The most records that are returned."""


class Searched(NamedTuple):
    """The records that were found, and how far the search went."""

    found: Sequence[Raw]
    looked_at: int
    is_cut: bool
    """True if the search ended at a bound, before it had read everything."""


async def find_by_header(
    consumer: Consumer[bytes, bytes],
    topic: str,
    wanted: tuple[str, bytes],
    since_ms: int,
    most: int,
) -> Searched:
    """Return the records since a time (ms) that have a header, after reading `most` at most.

    Everything that is in the topic when the search begins is looked at, partition beside partition.
    """
    places = [TopicPartition(topic, index) for index in await consumer.partitions_for(topic)]
    starts = await consumer.offsets_for_times(dict.fromkeys(places, since_ms))
    ends = await consumer.end_offsets(places)
    left = {
        place: end
        for place, end in ends.items()
        if (start := starts[place]) is not None and start.offset < end
    }
    consumer.assign(list(left))
    for place in left:
        start = starts[place]
        assert start is not None
        consumer.seek(place, start.offset)
    found: list[Raw] = []
    looked_at = 0
    while left and looked_at < most and len(found) < FOUND_MAX:
        for record in await consumer.poll(POLL_MS):
            if record.offset >= ends[record.topic_partition]:
                continue
            looked_at += 1
            if wanted in record.headers and len(found) < FOUND_MAX:
                found.append(record)
        for place in [*left]:
            if await consumer.position(place) >= left[place]:
                del left[place]
                consumer.pause(place)
    return Searched(found, looked_at, bool(left))
