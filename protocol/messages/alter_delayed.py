"""AlterDelayed, our own API: leaders cancel records of delay topics, or change their times."""

from typing import Final

from ..api import ApiKey
from ..schema import Int16, Int32, Int64, String, field, nested, request, response

MOST_CHANGES: Final = 1_000
"""The most changes of one request."""
CANCEL: Final = -1
"""The time that cancels a record."""
AT_ONCE: Final = -2
"""The time that makes a record due at once."""


@nested
class DelayedChange:
    """A change of one record that waits."""

    offset: Int64
    due_ms: Int64
    """The time at which it is due from now on, in ms since the epoch, or CANCEL or AT_ONCE."""


@nested
class ChangedPartition:
    """Changes in one partition, each record named once."""

    partition_index: Int32
    changes: list[DelayedChange]


@nested
class ChangedTopic:
    """Partitions of one topic."""

    name: String
    partitions: list[ChangedPartition]


@request(ApiKey.ALTER_DELAYED, versions="0", flexible="0+")
class AlterDelayedRequest:
    """Make at most MOST_CHANGES changes; repeated changes have the same outcome."""

    topics: list[ChangedTopic]
    timeout_ms: Int32 = field(default=30_000)
    """How long to wait until the changes are committed."""


@nested
class ChangedRecordResult:
    """The outcome of one change."""

    offset: Int64
    error_code: Int16 = field(default=0)
    """INVALID_RECORD_STATE if the record is forwarded or over, OFFSET_OUT_OF_RANGE if it is not in
    the log, INVALID_TIMESTAMP if the time is further away than `minikafka.delay.max.ms`."""


@nested
class ChangedPartitionResult:
    """The outcome of one partition's changes."""

    partition_index: Int32
    error_code: Int16 = field(default=0)
    """An error of all; REQUEST_TIMED_OUT says that some may be made yet."""
    records: list[ChangedRecordResult] = field(default=[])


@nested
class ChangedTopicResult:
    """One topic's partitions."""

    name: String
    partitions: list[ChangedPartitionResult]


@response(ApiKey.ALTER_DELAYED)
class AlterDelayedResponse:
    """One item for each partition; no items and INVALID_REQUEST if there were too many changes."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16 = field(default=0)
    topics: list[ChangedTopicResult] = field(default=[])
