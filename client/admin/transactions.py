"""Lists and describes transactions and their producers, fences and aborts them (KIP-664).

Requests about a transactional id are sent to its coordinator, and requests about producers to the
leaders of the partitions.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from ...protocol.errors import ApiError, ErrorCode
from ...protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    ProducerState,
    TopicRequest,
)
from ...protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from ...protocol.messages.find_coordinator import CoordinatorType
from ...protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ...protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from ...protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ...protocol.types import TopicPartition
from ..coordinator import Coordinator
from ..net.connection import KafkaConnection
from ..outcomes import done_of, error_of, raise_for
from ..partitions import by_topic, name_of
from .asking import Asking
from .transaction_types import (
    ActiveProducer,
    FencedProducer,
    OpenTransaction,
    TransactionDescription,
    TransactionListing,
)

FENCING_TIMEOUT_MS: Final = 1
"""The transaction timeout in the request, which has no effect because no transaction follows."""


async def list_transactions(
    asking: Asking,
    *,
    states: Sequence[str] = (),
    producer_ids: Sequence[int] = (),
    longer_than_ms: int = -1,
    pattern: str | None = None,
) -> list[TransactionListing]:
    """List the transactional ids that pass every filter, sorted by name.

    `longer_than_ms` selects transactions that have been open for longer (-1: all), `pattern` the
    ids that match a regular expression. Raise ApiError if a broker refuses.
    """

    async def ask(connection: KafkaConnection) -> list[tuple[str, int, str]]:
        request = ListTransactionsRequest(
            state_filters=list(states),
            producer_id_filters=list(producer_ids),
            duration_filter=longer_than_ms,
            transactional_id_pattern=pattern,
        )
        response: ListTransactionsResponse = await asking.request(connection, request)
        raise_for(response.error_code, f"broker at {connection.address}")
        return [
            (one.transactional_id, one.producer_id, one.transaction_state)
            for one in response.transaction_states
        ]

    found = await asking.every_broker(ask)
    return sorted(
        TransactionListing(name, node_id, producer_id, state)
        for node_id, part in found.items()
        for name, producer_id, state in part
    )


async def describe_transactions(
    asking: Asking, transactional_ids: Iterable[str]
) -> dict[str, TransactionDescription]:
    """Describe transactional ids; AdminError names those that do not exist."""

    async def ask(coordinator: Coordinator, name: str) -> TransactionDescription:
        request = DescribeTransactionsRequest(transactional_ids=[name])
        response: DescribeTransactionsResponse = await asking.coordinated(
            coordinator, request, lambda answer: answer.transaction_states[0].error_code
        )
        (one,) = response.transaction_states
        raise_for(one.error_code)
        return TransactionDescription(
            name,
            -1 if coordinator.node_id is None else coordinator.node_id,
            one.transaction_state,
            one.producer_id,
            one.producer_epoch,
            one.transaction_timeout_ms,
            None if one.transaction_start_time_ms < 0 else one.transaction_start_time_ms,
            tuple(TopicPartition(t.topic, i) for t in one.topics for i in t.partitions),
        )

    return await asking.each_coordinated(CoordinatorType.TRANSACTION, transactional_ids, ask)


async def fence_producers(
    asking: Asking, transactional_ids: Iterable[str]
) -> dict[str, FencedProducer]:
    """Fence the producers of these ids and abort their transactions; return the new epochs.

    Raise AdminError with the ids that are refused; the others are fenced.
    """

    async def ask(coordinator: Coordinator, name: str) -> FencedProducer:
        request = InitProducerIdRequest(
            transactional_id=name, transaction_timeout_ms=FENCING_TIMEOUT_MS
        )
        response: InitProducerIdResponse = await asking.coordinated(
            coordinator, request, patient_code
        )
        raise_for(response.error_code)
        return FencedProducer(response.producer_id, response.producer_epoch)

    return await asking.each_coordinated(CoordinatorType.TRANSACTION, transactional_ids, ask)


async def describe_producers(
    asking: Asking, partitions: Iterable[TopicPartition], *, broker_id: int | None = None
) -> dict[TopicPartition, list[ActiveProducer]]:
    """List the producers of each partition, as its leader or broker `broker_id` knows them.

    Raise AdminError with the partitions that are refused.
    """
    wanted: dict[TopicPartition, None] = dict.fromkeys(
        TopicPartition(*partition) for partition in partitions
    )

    async def ask(
        connection: KafkaConnection, asked: Mapping[TopicPartition, None]
    ) -> dict[TopicPartition, list[ActiveProducer] | ApiError]:
        topics = [TopicRequest(name=t, partition_indexes=p) for t, p in by_topic(asked).items()]
        request = DescribeProducersRequest(topics=topics)
        response: DescribeProducersResponse = await asking.request(connection, request)
        return {
            TopicPartition(topic.name, one.partition_index): error_of(
                one.error_code, one.error_message
            )
            or [_producer(state) for state in one.active_producers]
            for topic in response.topics
            for one in topic.partitions
        }

    if broker_id is None:
        return await asking.leaders(wanted, ask)
    answers = await asking.one_broker(lambda connection: ask(connection, wanted), broker_id)
    return done_of(answers, name_of)


async def abort_transaction(asking: Asking, transaction: OpenTransaction) -> None:
    """Write an abort marker to one partition, for a transaction that no coordinator ends.

    Raise AdminError if the leader refuses.
    """
    partition, producer_id, epoch, coordinator_epoch = transaction

    async def ask(
        connection: KafkaConnection, asked: Mapping[TopicPartition, None]
    ) -> dict[TopicPartition, bool | ApiError]:
        topic = WritableTxnMarkerTopic(
            name=partition.topic, partition_indexes=[partition.partition]
        )
        marker = WritableTxnMarker(
            producer_id=producer_id,
            producer_epoch=epoch,
            coordinator_epoch=coordinator_epoch,
            transaction_result=False,
            topics=[topic],
        )
        request = WriteTxnMarkersRequest(markers=[marker])
        response: WriteTxnMarkersResponse = await asking.request(connection, request)
        codes = [
            one.error_code
            for result in response.markers
            for topic in result.topics
            for one in topic.partitions
        ]
        return {partition: error_of(codes[0]) or True}

    await asking.leaders({partition: None}, ask)


def patient_code(answer: Any) -> int:
    """Return an answer's error code, but for CONCURRENT_TRANSACTIONS a code that is retried."""
    code = ErrorCode(answer.error_code)
    waits = code is ErrorCode.CONCURRENT_TRANSACTIONS
    return int(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS) if waits else int(code)


def _producer(state: ProducerState) -> ActiveProducer:
    return ActiveProducer(
        state.producer_id,
        state.producer_epoch,
        state.last_sequence,
        state.last_timestamp,
        None if state.coordinator_epoch < 0 else state.coordinator_epoch,
        None if state.current_txn_start_offset < 0 else state.current_txn_start_offset,
    )
