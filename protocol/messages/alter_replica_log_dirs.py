"""AlterReplicaLogDirs: move replicas of a broker between its log directories (KIP-113)."""

from ..api import ApiKey
from ..schema import Int16, Int32, String, field, nested, request, response


@nested
class AlterReplicaLogDirTopic:
    """Partitions of one topic."""

    name: String
    partitions: list[Int32]


@nested
class AlterReplicaLogDir:
    """A directory, and the replicas that are to move to it."""

    path: String
    """The absolute path, as the broker's log.dirs has it."""
    topics: list[AlterReplicaLogDirTopic]


@request(ApiKey.ALTER_REPLICA_LOG_DIRS, versions="1-2", flexible="2+")
class AlterReplicaLogDirsRequest:
    """Ask one broker to move its own replicas; the answer does not wait for the moves."""

    dirs: list[AlterReplicaLogDir]


@nested
class AlterReplicaLogDirPartitionResult:
    """The result for one replica."""

    partition_index: Int32
    error_code: Int16 = field(default=0)


@nested
class AlterReplicaLogDirTopicResult:
    """The results of one topic."""

    topic_name: String
    partitions: list[AlterReplicaLogDirPartitionResult]


@response(ApiKey.ALTER_REPLICA_LOG_DIRS)
class AlterReplicaLogDirsResponse:
    """One result for each replica of the request."""

    throttle_time_ms: Int32 = field(default=0)
    results: list[AlterReplicaLogDirTopicResult] = field(default=[])
