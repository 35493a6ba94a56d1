"""Looks up offsets by time, deletes records, describes log directories, and moves replicas."""

import asyncio
from collections.abc import Iterable, Mapping

from ...protocol.errors import ApiError
from ...protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from ...protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from ...protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)
from ...protocol.types import TopicPartition
from ..net.connection import KafkaConnection
from ..offsets import ListedOffset
from ..offsets import list_offsets as look_up
from ..outcomes import done_of, error_of, raise_for
from ..partitions import by_topic, values_by_topic
from .asking import Asking
from .log_types import LogDirectory, ReplicaInfo, TopicPartitionReplica


async def list_offsets(
    asking: Asking, timestamps: Mapping[TopicPartition, int], *, isolation_level: int = 0
) -> dict[TopicPartition, ListedOffset]:
    """Look up the first offset at or after each time, in ms since the epoch.

    The time -1 means the end of the log, -2 its start. Raise ApiError if a leader refuses for good.
    """
    return await look_up(
        asking.metadata,
        {TopicPartition(*partition): when for partition, when in timestamps.items()},
        timeout_ms=asking.config.default_api_timeout_ms,
        isolation_level=isolation_level,
    )


async def delete_records(
    asking: Asking, offsets: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Delete the records before these offsets; return the new first offset of each partition.

    The offset -1 means the high watermark. Raise AdminError with the partitions that were refused;
    the others were done.
    """

    async def ask(
        connection: KafkaConnection, asked: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int | ApiError]:
        request = DeleteRecordsRequest(
            topics=[
                DeleteRecordsTopic(
                    name=topic,
                    partitions=[
                        DeleteRecordsPartition(partition_index=index, offset=offset)
                        for index, offset in values
                    ],
                )
                for topic, values in values_by_topic(asked).items()
            ],
            timeout_ms=asking.config.request_timeout_ms,
        )
        response: DeleteRecordsResponse = await asking.request(connection, request)
        return {
            TopicPartition(topic.name, one.partition_index): error_of(one.error_code)
            or one.low_watermark
            for topic in response.topics
            for one in topic.partitions
        }

    wanted = {TopicPartition(*partition): offset for partition, offset in offsets.items()}
    return await asking.leaders(wanted, ask)


async def describe_log_dirs(
    asking: Asking,
    broker_ids: Iterable[int] | None = None,
    partitions: Iterable[TopicPartition] | None = None,
) -> dict[int, dict[str, LogDirectory]]:
    """Describe the log directories of these brokers, or of all, by broker and path.

    If `partitions` is given, describe only their replicas. Raise ApiError if a broker refuses.
    """
    topics = (
        None
        if partitions is None
        else [
            DescribableLogDirTopic(topic=topic, partitions=indexes)
            for topic, indexes in by_topic(partitions).items()
        ]
    )

    async def ask(connection: KafkaConnection) -> dict[str, LogDirectory]:
        request = DescribeLogDirsRequest(topics=topics)
        response: DescribeLogDirsResponse = await asking.request(connection, request)
        raise_for(response.error_code, f"broker at {connection.address}")
        return {one.log_dir: _directory(one) for one in response.results}

    return await asking.every_broker(ask, broker_ids)


async def alter_replica_log_dirs(
    asking: Asking, directories: Mapping[TopicPartitionReplica, str]
) -> None:
    """Ask brokers to move replicas of theirs to these directories, paths in their log.dirs.

    The moves continue after the call; `describe_log_dirs` shows them. A broker that does not have
    the replica yet remembers the directory for it, and the replica is refused with
    REPLICA_NOT_AVAILABLE. Raise AdminError with the replicas that were refused; the others were
    accepted.
    """
    wanted: dict[int, dict[str, list[TopicPartition]]] = {}
    for (topic, index, broker), path in directories.items():
        of_broker = wanted.setdefault(broker, {})
        of_broker.setdefault(path, []).append(TopicPartition(topic, index))

    async def ask(broker: int) -> dict[TopicPartitionReplica, ApiError | None]:
        request = AlterReplicaLogDirsRequest(
            dirs=[
                AlterReplicaLogDir(
                    path=path,
                    topics=[
                        AlterReplicaLogDirTopic(name=topic, partitions=indexes)
                        for topic, indexes in by_topic(partitions).items()
                    ],
                )
                for path, partitions in wanted[broker].items()
            ]
        )

        async def once(connection: KafkaConnection) -> AlterReplicaLogDirsResponse:
            response: AlterReplicaLogDirsResponse = await asking.request(connection, request)
            return response

        response = await asking.one_broker(once, broker)
        return {
            TopicPartitionReplica(topic.topic_name, one.partition_index, broker): error_of(
                one.error_code
            )
            for topic in response.results
            for one in topic.partitions
        }

    asking.check_open()
    answers = await asyncio.gather(*(ask(broker) for broker in sorted(wanted)))
    done_of({replica: error for answer in answers for replica, error in answer.items()})


def _directory(result: DescribeLogDirsResult) -> LogDirectory:
    return LogDirectory(
        error_of(result.error_code),
        {
            TopicPartition(topic.name, one.partition_index): ReplicaInfo(
                one.partition_size, one.offset_lag, one.is_future_key
            )
            for topic in result.topics
            for one in topic.partitions
        },
        None if result.total_bytes < 0 else result.total_bytes,
        None if result.usable_bytes < 0 else result.usable_bytes,
    )
