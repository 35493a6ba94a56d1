"""The part of the admin that is about transactions and their producers (KIP-664), and fencing.

Knows the messages. Transactional ids are asked about at their coordinators, producers at the
leaders of the partitions that they write to.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

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
from ...protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from ...protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ...protocol.types import TopicPartition
from ..coordinator import Coordinator
from ..errors import AdminError
from ..net.connection import KafkaConnection
from ..offsets import ask_leaders
from .group_admin import GroupAdmin, raise_for
from .transaction_types import (
    ActiveProducer,
    FencedProducer,
    OpenTransaction,
    TransactionDescription,
    TransactionListing,
)

T = TypeVar("T")
FENCING_TIMEOUT_MS = 1
"""Whoever is fenced has no transaction of this epoch to be patient with."""


class TransactionAdmin(GroupAdmin):
    """What an admin can ask about transactions, and end of them."""

    async def list_transactions(
        self,
        *,
        states: Sequence[str] = (),
        producer_ids: Sequence[int] = (),
        longer_than_ms: int = -1,
        pattern: str | None = None,
    ) -> list[TransactionListing]:
        """List transactional ids by name; only those that pass every filter.

        `longer_than_ms`: only open for longer. `pattern`: a regular expression for the id.
        """

        async def ask(connection: KafkaConnection) -> list[tuple[str, int, str]]:
            request = ListTransactionsRequest(
                state_filters=list(states),
                producer_id_filters=list(producer_ids),
                duration_filter=longer_than_ms,
                transactional_id_pattern=pattern,
            )
            response: ListTransactionsResponse = await self._request(connection, request)
            raise_for(response.error_code, f"broker at {connection.address}")
            return [
                (one.transactional_id, one.producer_id, one.transaction_state)
                for one in response.transaction_states
            ]

        found = await self._every_broker(ask)
        return sorted(
            TransactionListing(name, node_id, producer_id, state)
            for node_id, part in found.items()
            for name, producer_id, state in part
        )

    async def describe_transactions(
        self, transactional_ids: Iterable[str]
    ) -> dict[str, TransactionDescription]:
        """Describe transactional ids; AdminError names those that do not exist."""

        async def ask(coordinator: Coordinator, name: str) -> TransactionDescription:
            request = DescribeTransactionsRequest(transactional_ids=[name])
            response: DescribeTransactionsResponse = await self._coordinated(
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

        kind = CoordinatorType.TRANSACTION
        return await self._each_coordinated(transactional_ids, ask, kind)

    async def fence_producers(self, transactional_ids: Iterable[str]) -> dict[str, FencedProducer]:
        """Fence the producers of these ids and abort their transactions; gives the new epochs."""

        async def ask(coordinator: Coordinator, name: str) -> FencedProducer:
            request = InitProducerIdRequest(
                transactional_id=name, transaction_timeout_ms=FENCING_TIMEOUT_MS
            )
            response: InitProducerIdResponse = await self._coordinated(
                coordinator, request, patient_code
            )
            raise_for(response.error_code)
            return FencedProducer(response.producer_id, response.producer_epoch)

        kind = CoordinatorType.TRANSACTION
        return await self._each_coordinated(transactional_ids, ask, kind)

    async def describe_producers(
        self, partitions: Iterable[TopicPartition], *, broker_id: int | None = None
    ) -> dict[TopicPartition, list[ActiveProducer]]:
        """List the producers that partitions know, as their leaders or one broker see it."""
        wanted: dict[TopicPartition, None] = dict.fromkeys(
            TopicPartition(*partition) for partition in partitions
        )

        async def ask(
            connection: KafkaConnection, asked: Mapping[TopicPartition, None]
        ) -> dict[TopicPartition, list[ActiveProducer] | ApiError]:
            topics: dict[str, TopicRequest] = {}
            for name, index in asked:
                topic = topics.setdefault(name, TopicRequest(name=name, partition_indexes=[]))
                topic.partition_indexes.append(index)
            request = DescribeProducersRequest(topics=list(topics.values()))
            response: DescribeProducersResponse = await self._request(connection, request)
            return {
                TopicPartition(topic.name, one.partition_index): ApiError(
                    ErrorCode(one.error_code), one.error_message or ""
                )
                if one.error_code
                else [_producer(state) for state in one.active_producers]
                for topic in response.topics
                for one in topic.partitions
            }

        if broker_id is not None:
            answers = await self._somebody(lambda connection: ask(connection, wanted), broker_id)
            return told_apart(answers)
        self._check_open()
        timeout_ms = self.config.default_api_timeout_ms
        return await ask_leaders(self._metadata, wanted, ask, timeout_ms)

    async def abort_transaction(self, transaction: OpenTransaction) -> None:
        """Write an abort marker on one partition, for a transaction that no coordinator ends."""
        partition, producer_id, epoch, coordinator_epoch = transaction

        async def ask(
            connection: KafkaConnection, asked: Mapping[TopicPartition, None]
        ) -> dict[TopicPartition, bool | ApiError]:
            marker = WritableTxnMarker(
                producer_id=producer_id,
                producer_epoch=epoch,
                coordinator_epoch=coordinator_epoch,
                transaction_result=False,
                topics=[
                    WritableTxnMarkerTopic(
                        name=partition.topic, partition_indexes=[partition.partition]
                    )
                ],
            )
            request = WriteTxnMarkersRequest(markers=[marker])
            response: WriteTxnMarkersResponse = await self._request(connection, request)
            codes = [
                one.error_code
                for result in response.markers
                for topic in result.topics
                for one in topic.partitions
            ]
            return {partition: ApiError(ErrorCode(codes[0])) if codes[0] else True}

        self._check_open()
        timeout_ms = self.config.default_api_timeout_ms
        await ask_leaders(self._metadata, {partition: None}, ask, timeout_ms)


def told_apart(answers: Mapping[TopicPartition, T | ApiError]) -> dict[TopicPartition, T]:
    """The answers; AdminError where some partitions were refused."""
    done: dict[TopicPartition, T] = {}
    errors: dict[str, ApiError] = {}
    for partition, answer in answers.items():
        if isinstance(answer, ApiError):
            errors[f"{partition.topic}-{partition.partition}"] = answer
        else:
            done[partition] = answer
    if errors:
        raise AdminError(errors)
    return done


def patient_code(answer: Any) -> int:
    """The error of an answer; one that passes once a transaction has ended is waited for."""
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
