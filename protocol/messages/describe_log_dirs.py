"""DescribeLogDirs: list a broker's log directories, their replicas and their free space."""

from ..api import ApiKey
from ..schema import Bool, Int16, Int32, Int64, String, field, nested, request, response


@nested
class DescribableLogDirTopic:
    """Partitions of one topic."""

    topic: String
    partitions: list[Int32]


@request(ApiKey.DESCRIBE_LOG_DIRS, versions="1-5", flexible="2+")
class DescribeLogDirsRequest:
    """Ask one broker about its own log directories."""

    topics: list[DescribableLogDirTopic] | None
    """The partitions to describe; None means all."""


@nested
class DescribeLogDirsPartition:
    """One replica."""

    partition_index: Int32
    partition_size: Int64
    """Size of the replica's segments in bytes."""
    offset_lag: Int64
    """The number of records between the replica's log end and the high watermark; 0 for a leader.
    For a replica that moves to this directory, the number of records still to be copied."""
    is_future_key: Bool = field(default=False)
    """True for a replica that is being moved to this directory from another one."""


@nested
class DescribeLogDirsTopic:
    """Replicas of one topic."""

    name: String
    partitions: list[DescribeLogDirsPartition]


@nested
class DescribeLogDirsResult:
    """One log directory."""

    error_code: Int16 = field(default=0)
    log_dir: String
    topics: list[DescribeLogDirsTopic] = field(default=[])
    total_bytes: Int64 = field("4+", default=-1)
    """Size of the volume in bytes; -1 if it is unknown."""
    usable_bytes: Int64 = field("4+", default=-1)
    is_cordoned: Bool = field("5+", default=False)
    """True if the directory gets no new replicas (KIP-1066)."""


@response(ApiKey.DESCRIBE_LOG_DIRS)
class DescribeLogDirsResponse:
    """One item for each directory, with those of the requested replicas that are in it."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16 = field("3+", default=0)
    results: list[DescribeLogDirsResult] = field(default=[])
