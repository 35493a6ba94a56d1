"""Builds the requests of transactions from plain values.

Pure. `Transactions` sends them and chooses their versions.
"""

from collections.abc import Mapping, Sequence

from ...protocol.errors import ErrorCode
from ...protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ...protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from ...protocol.messages.end_txn import EndTxnRequest
from ...protocol.messages.init_producer_id import InitProducerIdRequest
from ...protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from ...protocol.types import TopicPartition
from ..group_types import ConsumerGroupMetadata, OffsetAndMetadata, with_metadata
from ..partitions import by_topic
from .batch import ProducerIdentity

Offsets = Mapping[TopicPartition, OffsetAndMetadata | int]
"""The next offset to read in each partition, with or without commit metadata."""


def init(
    transactional_id: str, identity: ProducerIdentity, timeout_ms: int
) -> InitProducerIdRequest:
    """Build InitProducerId, which returns a producer id, or the next epoch of `identity`."""
    return InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=timeout_ms,
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
    )


def end(transactional_id: str, identity: ProducerIdentity, *, commit: bool) -> EndTxnRequest:
    """Build EndTxn, which commits or aborts."""
    return EndTxnRequest(
        transactional_id=transactional_id,
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        committed=commit,
    )


def add_partitions(
    transactional_id: str, identity: ProducerIdentity, partitions: Sequence[TopicPartition]
) -> AddPartitionsToTxnRequest:
    """Build AddPartitionsToTxn in the form for clients (version 3 and below)."""
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=identity.producer_id,
        v3_and_below_producer_epoch=identity.epoch,
        v3_and_below_topics=[
            AddPartitionsToTxnTopic(name=name, partitions=indexes)
            for name, indexes in by_topic(partitions).items()
        ],
    )


def codes_of(answer: AddPartitionsToTxnResponse) -> dict[TopicPartition, ErrorCode]:
    """Return the error code of each partition."""
    return {
        TopicPartition(topic.name, one.partition_index): ErrorCode(one.partition_error_code)
        for topic in answer.results_by_topic_v3_and_below
        for one in topic.results_by_partition
    }


def add_offsets(
    transactional_id: str, identity: ProducerIdentity, group: ConsumerGroupMetadata
) -> AddOffsetsToTxnRequest:
    """Build AddOffsetsToTxn, which adds a group to the transaction before its offsets."""
    return AddOffsetsToTxnRequest(
        transactional_id=transactional_id,
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        group_id=group.group_id,
    )


def commit_offsets(
    transactional_id: str,
    identity: ProducerIdentity,
    group: ConsumerGroupMetadata,
    offsets: Offsets,
) -> TxnOffsetCommitRequest:
    """Build TxnOffsetCommit, which commits a group's offsets with the transaction."""
    topics: dict[str, TxnOffsetCommitRequestTopic] = {}
    for (name, index), given in offsets.items():
        position = with_metadata(given)
        topic = topics.setdefault(name, TxnOffsetCommitRequestTopic(name=name, partitions=[]))
        topic.partitions.append(
            TxnOffsetCommitRequestPartition(
                partition_index=index,
                committed_offset=position.offset,
                committed_leader_epoch=position.leader_epoch,
                committed_metadata=position.metadata,
            )
        )
    return TxnOffsetCommitRequest(
        transactional_id=transactional_id,
        group_id=group.group_id,
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        generation_id=group.generation_id,
        member_id=group.member_id,
        group_instance_id=group.group_instance_id,
        topics=list(topics.values()),
    )


def first_error(answer: TxnOffsetCommitResponse) -> int:
    """Return the first error code of a partition in the answer; 0 if there is none."""
    codes = [one.error_code for topic in answer.topics for one in topic.partitions]
    return next((code for code in codes if code), 0)
