"""WriteTxnMarkers: a coordinator asks partition leaders to write the outcome of transactions."""

from ..api import ApiKey
from ..schema import Bool, Int8, Int16, Int32, Int64, String, field, nested, request, response


@nested
class WritableTxnMarkerTopic:
    """Partitions of one topic."""

    name: String
    partition_indexes: list[Int32]


@nested
class WritableTxnMarker:
    """The outcome of one transaction, and the partitions to write its marker to."""

    producer_id: Int64
    producer_epoch: Int16
    transaction_result: Bool
    """True if the transaction is committed, false if it is aborted."""
    topics: list[WritableTxnMarkerTopic]
    coordinator_epoch: Int32
    """The epoch of the coordinator; leaders refuse markers of an outdated coordinator."""
    transaction_version: Int8 = field("2+", default=0)
    """The level of transaction.version. With 2 the epoch was raised for this marker, so that a
    marker with the producer's present epoch is refused (KIP-890, KIP-1228)."""


@request(ApiKey.WRITE_TXN_MARKERS, versions="1-2", flexible="1+")
class WriteTxnMarkersRequest:
    """Write the markers of any number of transactions; only brokers send this request."""

    markers: list[WritableTxnMarker]


@nested
class WritableTxnMarkerPartitionResult:
    """The result for one partition."""

    partition_index: Int32
    error_code: Int16 = field(default=0)


@nested
class WritableTxnMarkerTopicResult:
    """The results for one topic's partitions."""

    name: String
    partitions: list[WritableTxnMarkerPartitionResult]


@nested
class WritableTxnMarkerResult:
    """The result for one marker."""

    producer_id: Int64
    topics: list[WritableTxnMarkerTopicResult]


@response(ApiKey.WRITE_TXN_MARKERS)
class WriteTxnMarkersResponse:
    """One result for each marker."""

    markers: list[WritableTxnMarkerResult]
