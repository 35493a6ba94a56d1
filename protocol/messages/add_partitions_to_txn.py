"""AddPartitionsToTxn: name the partitions that a transaction writes to.

Clients send it before they write, in versions up to 3. From version 4 on brokers send it, for many
transactions in one request (KIP-890).
"""

from ..api import ApiKey
from ..schema import Bool, Int16, Int32, Int64, String, field, nested, request, response


@nested
class AddPartitionsToTxnTopic:
    """Partitions of one topic."""

    name: String
    partitions: list[Int32]


@nested
class AddPartitionsToTxnTransaction:
    """A transaction and the partitions that it writes to."""

    transactional_id: String
    producer_id: Int64
    producer_epoch: Int16
    verify_only: Bool = field(default=False)
    """If true, only check that the partitions are in the transaction, and add none."""
    topics: list[AddPartitionsToTxnTopic]


@request(ApiKey.ADD_PARTITIONS_TO_TXN, versions="0-5", flexible="3+")
class AddPartitionsToTxnRequest:
    """One transaction of a client; from version 4 on, any number of transactions from a broker."""

    transactions: list[AddPartitionsToTxnTransaction] = field("4+", default=[])
    v3_and_below_transactional_id: String = field("0-3", default="")
    v3_and_below_producer_id: Int64 = field("0-3", default=0)
    v3_and_below_producer_epoch: Int16 = field("0-3", default=0)
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = field("0-3", default=[])


@nested
class AddPartitionsToTxnPartitionResult:
    """The result for one partition."""

    partition_index: Int32
    partition_error_code: Int16 = field(default=0)


@nested
class AddPartitionsToTxnTopicResult:
    """The results for one topic's partitions."""

    name: String
    results_by_partition: list[AddPartitionsToTxnPartitionResult]


@nested
class AddPartitionsToTxnResult:
    """The result for one transaction's partitions."""

    transactional_id: String
    topic_results: list[AddPartitionsToTxnTopicResult]


@response(ApiKey.ADD_PARTITIONS_TO_TXN)
class AddPartitionsToTxnResponse:
    """One result for each partition, grouped by transaction from version 4 on."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16 = field("4+", default=0)
    results_by_transaction: list[AddPartitionsToTxnResult] = field("4+", default=[])
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = field("0-3", default=[])
