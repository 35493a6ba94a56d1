"""AddPartitionsToTxn: add partitions to transactions, or verify them, for producers and brokers.

Up to version 3 a producer names its only transaction. From version 4 on partition leaders name many
transactions at once, and may ask only whether the partitions belong to them (KIP-890). Either all
partitions named for a transaction are added or none.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from ...protocol.control.image import MetadataImage
from ...protocol.errors import ErrorCode
from ...protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from ...protocol.types import INTERNAL_TOPICS, TopicPartition
from ..coordinator.keys import GROUPS_TOPIC
from ..coordinator.transaction.decisions import AddPartitions, Decision
from ..coordinator.transaction.records import by_topic
from ..coordinator.transaction.transaction import BUMPING_VERSION
from ..net.answer import Answer, Call
from .common import known_to_client
from .parked import Parked, Several

OF_BROKERS_FROM = 4
BUMPING_FROM = 5
"""From this version on the producer's epoch is raised at the end of the transaction (KIP-890)."""
FENCED_FROM = 2
"""The first version whose clients know PRODUCER_FENCED; older ones get INVALID_PRODUCER_EPOCH."""

Errors = Mapping[TopicPartition, ErrorCode]


def handle(call: Call, request: AddPartitionsToTxnRequest) -> Answer:
    """Add partitions to each transaction, or verify that they belong to it."""
    answer = Parked(call, rests_on_lease=True)
    if call.version < OF_BROKERS_FROM:
        one = AddPartitionsToTxnTransaction(
            transactional_id=request.v3_and_below_transactional_id,
            producer_id=request.v3_and_below_producer_id,
            producer_epoch=request.v3_and_below_producer_epoch,
            topics=request.v3_and_below_topics,
        )
        _carry_out(call, one, lambda errors: answer.finish(_to_producer(errors)))
        return answer
    results: dict[int, AddPartitionsToTxnResult] = {}
    several = Several(
        answer,
        len(request.transactions),
        lambda: AddPartitionsToTxnResponse(
            results_by_transaction=[results[at] for at in sorted(results)]
        ),
    )

    def one_done(at: int, transactional_id: str, errors: Errors) -> None:
        results[at] = AddPartitionsToTxnResult(
            transactional_id=transactional_id, topic_results=_by_topic(errors)
        )
        several.one_is_there()

    for at, transaction in enumerate(request.transactions):
        _carry_out(call, transaction, partial(one_done, at, transaction.transactional_id))
    return answer


def _to_producer(errors: Errors) -> AddPartitionsToTxnResponse:
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_by_topic(errors))


def _carry_out(
    call: Call, transaction: AddPartitionsToTxnTransaction, done: Callable[[Errors], None]
) -> None:
    partitions = tuple(
        TopicPartition(topic.name, index)
        for topic in transaction.topics
        for index in topic.partitions
    )
    asked = AddPartitions(
        transactional_id=transaction.transactional_id,
        producer_id=transaction.producer_id,
        epoch=transaction.producer_epoch,
        partitions=partitions,
        client_version=BUMPING_VERSION if call.version >= BUMPING_FROM else 0,
    )
    if transaction.verify_only:
        done(call.edge.transactions.verify_partitions(asked))
        return
    refused = _refused(call.edge.image, partitions)
    if refused:
        done(dict.fromkeys(partitions, ErrorCode.OPERATION_NOT_ATTEMPTED) | refused)
        return

    def decided(decision: Decision) -> None:
        error = known_to_client(decision.error, call.version, FENCED_FROM)
        done(dict.fromkeys(partitions, error))

    config = call.edge.transactions.config
    # A broker's requests are answered in order and serve all its producers, so wait less for one.
    is_shared = call.version >= OF_BROKERS_FROM
    patience_ms = config.verification_retry_ms if is_shared else config.verification_retry_max_ms
    call.edge.transactions.add_partitions(asked, decided, patience_ms)


def _refused(
    image: MetadataImage, partitions: Sequence[TopicPartition]
) -> dict[TopicPartition, ErrorCode]:
    """Return the errors of partitions that no transaction of a client may have."""
    refused: dict[TopicPartition, ErrorCode] = {}
    for each in partitions:
        # Offsets are committed in transactions; the other internal topics have no foreign records.
        if each.topic in INTERNAL_TOPICS and each.topic != GROUPS_TOPIC:
            refused[each] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif not _exists(image, each):
            refused[each] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return refused


def _exists(image: MetadataImage, partition: TopicPartition) -> bool:
    topic = image.topic(partition.topic)
    return topic is not None and partition.partition in topic.partitions


def _by_topic(errors: Errors) -> list[AddPartitionsToTxnTopicResult]:
    return [
        AddPartitionsToTxnTopicResult(
            name=topic,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(
                    partition_index=index, partition_error_code=errors[TopicPartition(topic, index)]
                )
                for index in indexes
            ],
        )
        for topic, indexes in by_topic(errors).items()
    ]
