"""DescribeProducers: the producers that replicas know, and their open transactions.

Operators use this API to find hanging transactions (KIP-664). Any replica may be asked, so each
broker reports all partitions of which it has a replica.
"""

from ...protocol.errors import ErrorCode
from ...protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from ...storage.producer_state import Producer
from ..net.answer import Call
from ..partition.reading import refuse


def handle(call: Call, request: DescribeProducersRequest) -> DescribeProducersResponse:
    """Describe the producers of every partition that has a replica here."""
    topics = [
        TopicResponse(
            name=topic.name,
            partitions=[_partition(call, topic.name, index) for index in topic.partition_indexes],
        )
        for topic in request.topics
    ]
    return DescribeProducersResponse(topics=topics)


def _partition(call: Call, topic: str, index: int) -> PartitionResponse:
    partition = call.edge.partitions.find(topic, index)
    if isinstance(partition, ErrorCode):
        return PartitionResponse(partition_index=index, error_code=partition, active_producers=[])
    partition.write_staged()
    error = refuse(partition, -1, leader_only=False)
    if error:
        return PartitionResponse(partition_index=index, error_code=error, active_producers=[])
    producers = [_described(producer_id, known) for producer_id, known in partition.log.producers]
    return PartitionResponse(partition_index=index, active_producers=producers)


def _described(producer_id: int, known: Producer) -> ProducerState:
    return ProducerState(
        producer_id=producer_id,
        producer_epoch=known.epoch,
        last_sequence=known.batches[-1].last_sequence if known.batches else -1,
        last_timestamp=known.batches[-1].timestamp if known.batches else known.last_seen_ms,
        coordinator_epoch=known.coordinator_epoch,
        current_txn_start_offset=known.transaction_start,
    )
