"""AddOffsetsToTxn: add a group's partition of `__consumer_offsets` to a transaction."""

from ...protocol.errors import ErrorCode
from ...protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from ...protocol.types import TopicPartition
from ..coordinator.keys import GROUPS_TOPIC, is_key, partition_of
from ..coordinator.transaction.decisions import AddPartitions, Decision
from ..net.answer import Answer, Call
from .common import known_to_client
from .parked import Parked

FENCED_FROM = 2
"""The first version whose clients know PRODUCER_FENCED; older ones get INVALID_PRODUCER_EPOCH."""


def handle(call: Call, request: AddOffsetsToTxnRequest) -> AddOffsetsToTxnResponse | Answer:
    """Add the partition that stores the group's offsets; create the topic if it is missing."""
    if not is_key(request.group_id):
        return AddOffsetsToTxnResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    topic = call.edge.image.topic(GROUPS_TOPIC)
    if topic is None:
        call.edge.auto_creation.create([GROUPS_TOPIC])
        return AddOffsetsToTxnResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    answer = Parked(call, rests_on_lease=True)

    def done(decision: Decision) -> None:
        error = known_to_client(decision.error, call.version, FENCED_FROM)
        answer.finish(AddOffsetsToTxnResponse(error_code=error))

    index = partition_of(request.group_id, len(topic.partitions))
    asked = AddPartitions(
        transactional_id=request.transactional_id,
        producer_id=request.producer_id,
        epoch=request.producer_epoch,
        partitions=(TopicPartition(GROUPS_TOPIC, index),),
    )
    transactions = call.edge.transactions
    patience_ms = transactions.config.verification_retry_max_ms
    transactions.add_partitions(asked, done, patience_ms)
    return answer
