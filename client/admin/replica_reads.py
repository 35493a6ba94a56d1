"""Reads the log of each replica of partitions, leaders and followers alike, to compare them.

Sends Fetch with the replica id that Kafka reserves for tools that read from any replica.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from ...protocol.api import ApiKey
from ...protocol.errors import ApiError
from ...protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ...protocol.types import TopicPartition
from ..net.connection import KafkaConnection
from ..outcomes import error_of, raise_for
from ..partitions import values_by_topic
from .asking import Asking
from .replica_types import ReplicaRead

READER_OF_REPLICAS: Final = -2
"""The replica id of a consumer that may read from followers as well as leaders."""
VERSION_WITH_NAMES: Final = 12
"""The last version of Fetch that names topics by name; later ones name them by id."""
PARTITIONS_PER_FETCH: Final = 100_000
BYTES_PER_FETCH: Final = 64 << 20


async def read_replicas(
    asking: Asking,
    offsets: Mapping[TopicPartition, int],
    replicas: Mapping[TopicPartition, Iterable[int]],
    *,
    max_bytes: int,
    max_wait_ms: int,
) -> dict[TopicPartition, dict[int, ReplicaRead | ApiError]]:
    """Read each replica from its partition's offset up to the high watermark that it knows.

    `replicas` maps each partition to the brokers to ask. All brokers are asked at the same time;
    each waits up to `max_wait_ms` for a first batch, and returns at most `max_bytes` of a partition
    and 64 MiB of all, in the order of `offsets`. As in `describe_replicas`, a replica that cannot
    be read has an error instead of data.
    """
    of_broker: dict[int, dict[TopicPartition, int]] = {}
    for partition, offset in offsets.items():
        for broker_id in replicas[partition]:
            of_broker.setdefault(broker_id, {})[partition] = offset

    async def ask(
        connection: KafkaConnection, asked: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, ReplicaRead | ApiError]:
        request = FetchRequest(
            replica_id=READER_OF_REPLICAS,
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=BYTES_PER_FETCH,
            topics=[
                FetchTopic(
                    topic=topic,
                    partitions=[
                        FetchPartition(
                            partition=index, fetch_offset=offset, partition_max_bytes=max_bytes
                        )
                        for index, offset in values
                    ],
                )
                for topic, values in values_by_topic(asked).items()
            ],
        )
        version = connection.versions.of(ApiKey.FETCH, VERSION_WITH_NAMES)
        response: FetchResponse = await connection.request(request, version=version)
        raise_for(response.error_code)
        return {
            TopicPartition(topic.topic, one.partition_index): error_of(one.error_code)
            or ReplicaRead(one.high_watermark, one.records or b"")
            for topic in response.responses
            for one in topic.partitions
        }

    told = await asking.at_once(of_broker, ask, at_most=PARTITIONS_PER_FETCH, timeout_ms=None)
    return {
        partition: {
            broker_id: told[broker_id][partition]
            for broker_id in replicas[partition]
            if partition in told[broker_id]
        }
        for partition in offsets
    }
