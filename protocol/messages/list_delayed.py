"""ListDelayed, our own API: leaders list the records of delay topics that wait."""

from enum import IntEnum
from typing import Final

from ..api import ApiKey
from ..schema import Int8, Int16, Int32, Int64, String, field, nested, request, response

MOST_LISTED: Final = 1_000
"""The most records that a request gets of one partition."""
MOST_PARTITIONS: Final = 50
"""The most partitions that one request may name."""


@nested
class ListedPartition:
    """A partition, and where its list begins."""

    partition_index: Int32
    after_due_ms: Int64 = field(default=-1)
    after_offset: Int64 = field(default=-1)
    """List what follows the record with this time and offset, in the order of times."""
    before_due_ms: Int64 = field(default=-1)
    """List only what is due before this time, in ms since the epoch; -1 for everything."""
    offsets: list[Int64] = field(default=[])
    """Tell the states of the records at these offsets, at most MOST_LISTED, instead of a list."""


@nested
class ListedTopic:
    """Partitions of one topic."""

    name: String
    partitions: list[ListedPartition]


@request(ApiKey.LIST_DELAYED, versions="0", flexible="0+")
class ListDelayedRequest:
    """Ask the leaders of at most MOST_PARTITIONS partitions."""

    topics: list[ListedTopic]
    max_records: Int32 = field(default=MOST_LISTED)
    """The most records of each partition; there are never more than MOST_LISTED."""


@nested
class DelayedRecord:
    """A record that waits."""

    due_ms: Int64
    """The time at which it is due, in ms since the epoch."""
    offset: Int64


class State(IntEnum):
    """The state of a record."""

    WAITS = 0
    PLANNED = 1
    """It is on its way to its target."""
    CANCELLED = 2
    OVER = 3
    """It is forwarded, a dead letter, has expired, or was cancelled long ago; or there is none."""


@nested
class StateOfRecord:
    """The state of one record."""

    offset: Int64
    state: Int8 = field(default=0)
    """See `State`."""
    due_ms: Int64 = field(default=-1)
    """The time at which it is due if that was changed, in ms since the epoch; -1 if it was not."""
    error_code: Int16 = field(default=0)
    """OFFSET_OUT_OF_RANGE if the offset is not in the log."""


@nested
class ListedPartitionResult:
    """The records of one partition, in the order in which they are due."""

    partition_index: Int32
    error_code: Int16 = field(default=0)
    """INVALID_REQUEST if the topic is no delay topic."""
    records: list[DelayedRecord] = field(default=[])
    next_due_ms: Int64 = field(default=-1)
    next_offset: Int64 = field(default=-1)
    """The position after which the list goes on; -1 and -1 at its end."""
    states: list[StateOfRecord] = field(default=[])


@nested
class ListedTopicResult:
    """One topic's partitions."""

    name: String
    partitions: list[ListedPartitionResult]


@response(ApiKey.LIST_DELAYED)
class ListDelayedResponse:
    """One item for each partition; no items and INVALID_REQUEST if the request named too many."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16 = field(default=0)
    topics: list[ListedTopicResult] = field(default=[])
