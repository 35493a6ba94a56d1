"""DescribeProducers: list the producers whose state a partition's leader keeps (KIP-664)."""

from ..api import ApiKey
from ..schema import Int16, Int32, Int64, String, field, nested, request, response


@nested
class TopicRequest:
    """Partitions of one topic."""

    name: String
    partition_indexes: list[Int32]


@request(ApiKey.DESCRIBE_PRODUCERS, versions="0", flexible="0+")
class DescribeProducersRequest:
    """Ask for the producers of some partitions; the leader of each must be asked."""

    topics: list[TopicRequest]


@nested
class ProducerState:
    """The state kept for one producer."""

    producer_id: Int64
    producer_epoch: Int32
    last_sequence: Int32 = field(default=-1)
    last_timestamp: Int64 = field(default=-1)
    """The greatest timestamp of the producer's newest batch, in ms since the epoch. If no batch of
    its epoch is known, as after a marker, our brokers return the time at which they appended that
    marker, or read it again after a restart."""
    coordinator_epoch: Int32
    """The coordinator's epoch in the producer's newest marker; -1 if there is no marker."""
    current_txn_start_offset: Int64 = field(default=-1)
    """First offset of the producer's open transaction; -1 if none is open."""


@nested
class PartitionResponse:
    """Producers of one partition."""

    partition_index: Int32
    error_code: Int16 = field(default=0)
    error_message: String | None = field(default=None)
    active_producers: list[ProducerState] = field(default=[])


@nested
class TopicResponse:
    """Producers of one topic's partitions."""

    name: String
    partitions: list[PartitionResponse]


@response(ApiKey.DESCRIBE_PRODUCERS)
class DescribeProducersResponse:
    """One item for each partition."""

    throttle_time_ms: Int32 = field(default=0)
    topics: list[TopicResponse]
