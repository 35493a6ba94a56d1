"""Builds Produce requests, and chooses their version.

Pure. The caller has decided which batches go to which broker.
"""

from typing import Final

from ...protocol.api import ApiKey
from ...protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ...protocol.types import ZERO_UUID
from ..cluster import ClusterView
from ..config import ProducerConfig
from ..net.connection import KafkaConnection
from .accumulator import Parcel

TOPIC_ID_VERSION: Final = 13
"""From this version on a produce request names topics by id."""
IMPLICIT_VERSION: Final = 12
"""From this version on a produce request adds its partitions to the transaction (KIP-890)."""


def produce_version(
    connection: KafkaConnection, view: ClusterView, parcel: Parcel, *, adds_partitions: bool
) -> int:
    """Choose the version of a parcel's request.

    The version is below TOPIC_ID_VERSION if a topic has no id. It is below IMPLICIT_VERSION unless
    the request `adds_partitions` to the transaction.
    """
    most = None if adds_partitions else IMPLICIT_VERSION - 1
    version = connection.versions.of(ApiKey.PRODUCE, most)
    if version >= TOPIC_ID_VERSION:
        ids = [view.topic_id(queue.partition.topic) for queue, _ in parcel.batches]
        if ZERO_UUID in ids:
            return TOPIC_ID_VERSION - 1
    return version


def produce_request(
    config: ProducerConfig, view: ClusterView, parcel: Parcel, version: int
) -> ProduceRequest:
    """Build the request for a parcel, and encode its batches if they are not encoded yet."""
    topics: dict[str, TopicProduceData] = {}
    for queue, batch in parcel.batches:
        name, index = queue.partition
        topic = topics.get(name)
        if topic is None:
            topic = topics[name] = TopicProduceData(name=name, partition_data=[])
            if version >= TOPIC_ID_VERSION:
                topic.topic_id = view.topic_id(name)
        topic.partition_data.append(PartitionProduceData(index=index, records=batch.encode()))
    return ProduceRequest(
        transactional_id=config.transactional_id,
        acks=config.acks_number,
        timeout_ms=config.request_timeout_ms,
        topic_data=list(topics.values()),
    )
