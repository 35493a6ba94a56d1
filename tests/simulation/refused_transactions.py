"""Bad requests of transactions: producers of old epochs, drivers of groups that were replaced."""

from typing import Any

from minikafka.protocol.commit_groups import member_id
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from minikafka.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from minikafka.protocol.messages.commit_group import CommitGroupRequest, GroupTransaction
from minikafka.protocol.messages.delete_groups import DeleteGroupsRequest
from minikafka.protocol.messages.describe_transactions import DescribeTransactionsRequest
from minikafka.protocol.messages.end_txn import EndTxnRequest
from minikafka.protocol.messages.find_coordinator import CoordinatorType
from minikafka.protocol.messages.init_commit_group import InitCommitGroupRequest
from minikafka.protocol.messages.init_producer_id import InitProducerIdRequest
from minikafka.protocol.messages.list_transactions import ListTransactionsRequest
from minikafka.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from minikafka.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

from .refusals import TOPIC, Due, Refused, Story, Unsaid

ADD_VERSION = 3
"""The newest version of AddPartitionsToTxn for clients."""
OFFSETS_BY_NAME = 9
NONE = ErrorCode.NONE
FENCED = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
MAPPING = ErrorCode.INVALID_PRODUCER_ID_MAPPING
STATE = ErrorCode.INVALID_TXN_STATE
INVALID = ErrorCode.INVALID_REQUEST
GONE = ErrorCode.GROUP_ID_NOT_FOUND
TIMEOUT_MS = 10_000


class Producing:
    """One transactional id, with requests to its coordinator."""

    def __init__(self, refused: Refused, name: str, broker: int) -> None:
        self.refused = refused
        self.name = name
        self.broker = broker
        self.end_version = 5 if refused.transaction_version > 1 else 4
        self.producer_id = -1
        self.epoch = -1

    @classmethod
    async def fresh(cls, refused: Refused, name: str | None = None) -> "Producing":
        name = name or refused.fresh("refused-transaction")
        broker = await refused.coordinator(name, CoordinatorType.TRANSACTION)
        return cls(refused, name, broker)

    async def due(self, request: Any, due: Due, version: int | None = None) -> Any:
        return await self.refused.due(self.broker, request, due, version)

    async def begin(self, due: Due = NONE, *, timeout_ms: int = TIMEOUT_MS) -> None:
        """Send InitProducerId of a new producer."""
        request = InitProducerIdRequest(
            transactional_id=self.name, transaction_timeout_ms=timeout_ms
        )
        answer = await self.due(request, due)
        if not answer.error_code:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch

    async def go_on(self, due: Due, producer_id: int, epoch: int) -> Any:
        """Send InitProducerId of a producer that has an id and an epoch."""
        request = InitProducerIdRequest(
            transactional_id=self.name,
            transaction_timeout_ms=TIMEOUT_MS,
            producer_id=producer_id,
            producer_epoch=epoch,
        )
        return await self.due(request, due)

    async def add(self, due: Due, off_by: tuple[int, int] = (0, 0), topic: str = TOPIC) -> None:
        """Send AddPartitionsToTxn, with the producer id and epoch changed by `off_by`."""
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self.producer_id + off_by[0],
            v3_and_below_producer_epoch=self.epoch + off_by[1],
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=[0])],
        )
        wanted = due if isinstance(due, tuple) else (due,)
        unheard = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        answer = await self.due(request, (*wanted, unheard), ADD_VERSION)
        results = answer.results_by_topic_v3_and_below[0].results_by_partition
        if results[0].partition_error_code == unheard and unheard not in wanted:
            raise Unsaid("the coordinator has not heard of the topic")

    async def end(
        self, due: Due, *, commits: bool = True, off_by: tuple[int, int] = (0, 0)
    ) -> None:
        request = EndTxnRequest(
            transactional_id=self.name,
            producer_id=self.producer_id + off_by[0],
            producer_epoch=self.epoch + off_by[1],
            committed=commits,
        )
        answer = await self.due(request, due, self.end_version)
        if not answer.error_code and self.end_version > 4:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch

    async def look(self) -> None:
        """Describe the transaction, which always succeeds."""
        await self.due(DescribeTransactionsRequest(transactional_ids=[self.name]), NONE)
        await self.due(ListTransactionsRequest(), NONE)
        filtered = ListTransactionsRequest(
            state_filters=["Ongoing", "Dreaming"], producer_id_filters=[self.producer_id]
        )
        await self.due(filtered, NONE)


async def producers(refused: Refused) -> None:
    """Send wrong producer ids and epochs, and end transactions that are not open."""
    producing = await Producing.fresh(refused)
    unheard = DescribeTransactionsRequest(transactional_ids=[producing.name])
    await producing.due(unheard, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    await producing.begin(ErrorCode.INVALID_TRANSACTION_TIMEOUT, timeout_ms=1 << 30)
    producing.producer_id, producing.epoch = 1 << 40, 0
    await producing.add(MAPPING)
    await producing.end(MAPPING)
    await producing.begin()
    await producing.end(STATE)
    await producing.add(MAPPING, (1, 0))
    await producing.add(FENCED, (0, 7))
    await producing.add(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, topic="no-such-topic")
    await producing.end(MAPPING, off_by=(1, 0))
    await producing.end(FENCED, off_by=(0, 7))
    await producing.go_on(FENCED, producing.producer_id + 1, 0)
    await producing.go_on(FENCED, producing.producer_id, 32_767)
    await producing.add(NONE)
    await producing.add(NONE)
    await producing.look()
    await producing.go_on(FENCED, producing.producer_id, producing.epoch + 7)
    ended = producing.producer_id, producing.epoch
    await producing.end(NONE)
    now = producing.producer_id, producing.epoch
    producing.producer_id, producing.epoch = ended
    await producing.end(NONE)  # The answer was lost.
    producing.producer_id, producing.epoch = ended
    await producing.end(STATE, commits=False)
    producing.producer_id, producing.epoch = now
    # Whoever begins anew while it is open has it aborted, and the others fenced.
    await producing.add(NONE)
    old = producing.producer_id, producing.epoch
    await producing.begin()
    new = producing.producer_id, producing.epoch
    producing.producer_id, producing.epoch = old
    await producing.add(FENCED)
    await producing.end(FENCED)
    producing.producer_id, producing.epoch = new
    raised = await producing.go_on(NONE, *new)
    await producing.go_on(NONE, *new)  # The answer was lost.
    producing.producer_id, producing.epoch = raised.producer_id, raised.producer_epoch
    await producing.end(NONE if producing.end_version > 4 else STATE, commits=False)


async def offsets(refused: Refused) -> None:
    """Delete a group while a transaction is about to commit its offsets."""
    producing = await Producing.fresh(refused)
    group = refused.fresh("refused-offsets")
    await producing.begin()
    identity: dict[str, Any] = {
        "transactional_id": producing.name,
        "producer_id": producing.producer_id,
        "producer_epoch": producing.epoch,
        "group_id": group,
    }
    await producing.due(AddOffsetsToTxnRequest(**identity), NONE)
    broker = await refused.coordinator(group, CoordinatorType.GROUP)
    partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=0)
    topics = [TxnOffsetCommitRequestTopic(name=TOPIC, partitions=[partition])]
    old = TxnOffsetCommitRequest(**identity, generation_id=3, member_id="nobody", topics=topics)
    await refused.due(broker, old, (ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID))
    await refused.due(broker, TxnOffsetCommitRequest(**identity, topics=topics), NONE)
    asked = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=group, topics=None)], require_stable=True
    )
    unstable = (ErrorCode.UNSTABLE_OFFSET_COMMIT, NONE)
    await refused.due(broker, asked, unstable, OFFSETS_BY_NAME)
    await refused.due(broker, DeleteGroupsRequest(groups_names=[group]), (NONE, GONE))
    await producing.end(NONE, commits=refused.rng.random() < 0.5)


async def commit_groups(refused: Refused) -> None:
    """Send bad requests about commit groups.

    They come from runs that were replaced, are about recorded batches, or name transactions of
    another group.
    """
    group = refused.fresh("refused-sink")
    broker = await refused.coordinator(group, CoordinatorType.TRANSACTION)

    async def take_over(name: str, run: str, due: Due) -> Any:
        return await refused.due(broker, InitCommitGroupRequest(group=name, run=run), due)

    async def commit(due: Due, generation: int, batch: int, *named: GroupTransaction) -> Any:
        request = CommitGroupRequest(
            group=group, generation=generation, batch_id=batch, transactions=list(named)
        )
        return await refused.due(broker, request, due)

    fenced = ErrorCode.PRODUCER_FENCED
    await commit(GONE, 0, 0)
    await take_over("no name", "run", INVALID)
    await take_over(group, "", INVALID)
    await take_over(group, "one", NONE)
    generation = (await take_over(group, "one", NONE)).generation
    await commit(INVALID, generation, -1)
    await commit(fenced, generation + 1, 0)
    elsewhere = GroupTransaction(transactional_id="of-nobody", producer_id=1, producer_epoch=0)
    await commit(INVALID, generation, 0, elsewhere)
    ids = [member_id(group, part, generation, 0) for part in range(3)]
    closed = GroupTransaction(transactional_id=ids[0], producer_id=1, producer_epoch=0)
    await commit(INVALID, generation, 0, closed, closed)
    await commit(STATE, generation, 0, closed)
    first, loser = await Producing.fresh(refused, ids[1]), await Producing.fresh(refused, ids[2])
    for producing in (first, loser):
        await producing.begin()
        await producing.add(NONE)
    wrong = GroupTransaction(
        transactional_id=first.name, producer_id=first.producer_id, producer_epoch=9
    )
    await commit(STATE, generation, 0, wrong)
    named = GroupTransaction(
        transactional_id=first.name,
        producer_id=first.producer_id,
        producer_epoch=first.epoch,
    )
    await commit(NONE, generation, 0, named)
    await commit(NONE, generation, 0, named)
    await loser.end((*FENCED, STATE))  # It was not named, and so was aborted.
    await take_over(group, "two", NONE)
    await take_over(group, "one", fenced)
    await commit(fenced, generation, 1)


STORIES: dict[str, Story] = {
    "producers": producers,
    "transactional-offsets": offsets,
    "commit-groups": commit_groups,
}
