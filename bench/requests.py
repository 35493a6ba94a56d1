"""Prebuilt requests: one Produce of one batch, one Fetch from an offset."""

from typing import NamedTuple

from minikafka.protocol import codec
from minikafka.protocol.compression import Codec
from minikafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from minikafka.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from minikafka.protocol.records.records import build

PRODUCE_VERSION = 8
"""The newest without tagged fields: the batch ends the frame, so the floor finds it."""
FETCH_VERSION = 12
BATCH_OVERHEAD = 61 + 10
TIMESTAMP_MS = 1_700_000_000_000


class Produce(NamedTuple):
    """A framed request, where its batch begins, and how many records of what size it holds."""

    frame: bytes
    batch_at: int
    records: int
    acks: int


def produce(
    topic: str,
    *,
    record_bytes: int,
    batch_bytes: int,
    acks: int,
    compression: Codec = Codec.NONE,
) -> Produce:
    """Build a request with one batch of about `batch_bytes` (one record when that is less).

    So many before they are compressed: records are zeros.
    """
    count = max(1, (batch_bytes - BATCH_OVERHEAD) // (record_bytes + 8))
    records = [(TIMESTAMP_MS, None, bytes(record_bytes))] * count
    batch = bytes(build(records, compression=compression))
    request = ProduceRequest(
        acks=acks,
        timeout_ms=10_000,
        topic_data=[
            TopicProduceData(
                name=topic, partition_data=[PartitionProduceData(index=0, records=batch)]
            )
        ],
    )
    frame = b"".join(codec.frame_request(request, PRODUCE_VERSION, 1, "bench"))
    return Produce(frame, len(frame) - len(batch), count, acks)


def check_produced(response: bytes) -> None:
    """Raise when a produce response (without its size) tells of an error."""
    _, answer = codec.decode_response_frame(ProduceResponse, PRODUCE_VERSION, response)
    for topic in answer.responses:
        for partition in topic.partition_responses:
            if partition.error_code:
                raise RuntimeError(f"the broker answered error {partition.error_code}")


def fetch(topic: str, offset: int, max_bytes: int) -> bytes:
    """Build a sessionless Fetch of partition 0 from `offset`."""
    partition = FetchPartition(
        partition=0, fetch_offset=offset, partition_max_bytes=max_bytes, current_leader_epoch=-1
    )
    request = FetchRequest(
        max_wait_ms=100,
        min_bytes=1,
        max_bytes=max_bytes,
        topics=[FetchTopic(topic=topic, partitions=[partition])],
    )
    return b"".join(codec.frame_request(request, FETCH_VERSION, 1, "bench"))
