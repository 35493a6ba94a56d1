"""InitCommitGroup and CommitGroup from their requests to the log, and what goes on by itself."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from minikafka.broker.coordinator.keys import partition_of
from minikafka.broker.coordinator.transaction.commit_group import CommitGroup, Named
from minikafka.broker.coordinator.transaction.transaction import EXHAUSTED_EPOCH, State
from minikafka.protocol.control import records as r
from minikafka.protocol.control.records import PartitionRecord
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from minikafka.protocol.messages.commit_group import CommitGroupRequest, GroupTransaction
from minikafka.protocol.messages.find_coordinator import (
    CoordinatorType,
    FindCoordinatorRequest,
)
from minikafka.protocol.messages.init_commit_group import InitCommitGroupRequest
from minikafka.protocol.types import TopicPartition

from .conftest import MakeBroker
from .edge_support import TOPIC, TOPIC_ID
from .test_transaction_apis import COORDINATOR_ERRORS, INTERNAL_ID, QUICK, T0, Lab, topics, until

GROUP = "g"
BUSY = ErrorCode.CONCURRENT_TRANSACTIONS


class GroupLab(Lab):
    """The same with ids of one group."""

    def run(self, run: str = "a") -> Any:
        return self.ask(InitCommitGroupRequest(group=GROUP, run=run), 0)

    def open(self, index: int, attempt: int = 0) -> Named:
        """A transaction of one task."""
        name = f"{GROUP}/{index}/0.{attempt}"
        given = self.init(transactional_id=name)
        assert given.error_code == 0
        named = Named(name, given.producer_id, given.producer_epoch)
        assert self.join(named) == [ErrorCode.NONE]
        return named

    def join(self, named: Named) -> list[int]:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=named.transactional_id,
            v3_and_below_producer_id=named.producer_id,
            v3_and_below_producer_epoch=named.epoch,
            v3_and_below_topics=topics(T0),
        )
        answer = self.ask(request, 3)
        return [
            each.partition_error_code
            for topic in answer.results_by_topic_v3_and_below
            for each in topic.results_by_partition
        ]

    def request(self, batch: int, *named: Named, generation: int = 0) -> CommitGroupRequest:
        return CommitGroupRequest(
            group=GROUP,
            generation=generation,
            batch_id=batch,
            transactions=[
                GroupTransaction(transactional_id=name, producer_id=who, producer_epoch=epoch)
                for name, who, epoch in named
            ],
        )

    def commit(self, batch: int, *named: Named, generation: int = 0) -> Any:
        return self.ask(self.request(batch, *named, generation=generation), 0)

    def state_of(self, named: Named) -> State:
        found = self.shard.state.get(named.transactional_id)
        assert found is not None
        return found.state

    @property
    def group(self) -> CommitGroup | None:
        return self.shard.state.groups.get(GROUP)


@pytest.fixture
async def lab(make_broker: MakeBroker) -> GroupLab:
    return GroupLab(make_broker())


async def test_a_group_s_life(lab: GroupLab) -> None:
    answer = lab.run()
    assert (answer.error_code, answer.generation, answer.batch_id) == (0, 0, -1)
    named = [lab.open(index) for index in range(2)]
    loser = lab.open(0, attempt=1)
    assert lab.commit(4, *named).is_replay is False
    assert [lab.state_of(each) for each in named] == [State.PREPARE_COMMIT] * 2
    await until(lambda: [lab.state_of(each) for each in named] == [State.COMPLETE_COMMIT] * 2)
    await until(lambda: lab.state_of(loser) is State.COMPLETE_ABORT)
    again = lab.commit(4, *named)
    assert (again.error_code, again.is_replay) == (0, True)
    answer = lab.run("b")
    assert (answer.error_code, answer.generation, answer.batch_id) == (0, 1, 4)
    fenced = lab.commit(5)
    assert fenced.error_code == ErrorCode.PRODUCER_FENCED
    assert "run 'b' has generation 1" in fenced.error_message
    fenced = lab.run()
    assert (fenced.error_code, fenced.generation) == (ErrorCode.PRODUCER_FENCED, -1)
    assert "'a' was followed by 'b'" in fenced.error_message
    lab.transactions.check_invariants()


async def test_a_replay_leaves_alone_what_is_not_of_its_group(lab: GroupLab) -> None:
    lab.run()
    lab.commit(0)
    mine = lab.open(0)
    given = lab.init(transactional_id="app")
    other = Named("app", given.producer_id, given.producer_epoch)
    assert lab.join(other) == [ErrorCode.NONE]
    assert lab.commit(0, other, mine).is_replay
    await until(lambda: lab.state_of(mine) is State.COMPLETE_ABORT)
    assert lab.state_of(other) is State.ONGOING


@COORDINATOR_ERRORS
async def test_a_broker_that_does_not_coordinate_says_so(lab: GroupLab, error: ErrorCode) -> None:
    lab.shards.error = error
    assert lab.run().error_code == error
    assert lab.commit(0).error_code == error
    assert lab.shard.log == []


@COORDINATOR_ERRORS
async def test_what_cannot_be_written_changes_nothing(lab: GroupLab, error: ErrorCode) -> None:
    lab.shard.refusal = error
    assert lab.run().error_code == error
    assert lab.group is None
    lab.shard.refusal = ErrorCode.NONE
    lab.run()
    named, loser = lab.open(0), lab.open(1)
    lab.shard.refusal = error
    assert lab.commit(0, named).error_code == error
    lab.shard.refusal = ErrorCode.NONE
    await asyncio.sleep(0)
    assert lab.state_of(loser) is State.ONGOING
    assert lab.commit(0, named).error_code == 0


async def test_a_group_that_is_too_large_is_told_how_to_become_smaller(lab: GroupLab) -> None:
    lab.run()
    named = [lab.open(index) for index in range(2)]
    lab.shard.refusal = ErrorCode.MESSAGE_TOO_LARGE
    answer = lab.commit(0, *named)
    assert answer.error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert "2 transactions are more than one batch" in answer.error_message
    assert "max.message.bytes" in answer.error_message
    assert lab.init(transactional_id="app").error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    lab.shard.refusal = ErrorCode.NONE
    assert lab.state_of(named[0]) is State.ONGOING


async def test_a_change_on_its_way_is_waited_for(lab: GroupLab) -> None:
    lab.run()
    named = lab.open(0)
    other = Named("g/1/0.0", *lab.open(1)[1:])
    lab.broker.image.apply(PartitionRecord(TOPIC_ID, 1, (1, 2), (1, 2), 2), 103)
    lab.shard.holds = True
    lab.client.send(
        AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=other.transactional_id,
            v3_and_below_producer_id=other.producer_id,
            v3_and_below_producer_epoch=other.epoch,
            v3_and_below_topics=topics(TopicPartition(TOPIC, 1)),
        ),
        3,
    )
    (adding,) = lab.shard.held
    second = lab.broker.connect()
    second.send(lab.request(0, named, other), 0)
    assert second.responses() == []
    lab.shard.holds = False
    adding(ErrorCode.NONE)
    found: list[Any] = []

    def answered() -> list[Any]:
        type(second.connection)._on_wake(second.connection)
        found.extend(second.responses())
        return found

    await until(answered)
    assert (found[0].error_code, found[0].is_replay) == (0, False)
    assert lab.state_of(other).name.endswith("COMMIT")


async def test_a_change_that_does_not_end_is_not_waited_for_for_ever(
    make_broker: MakeBroker,
) -> None:
    lab = GroupLab(make_broker(add_partitions_to_txn_retry_backoff_max_ms="5"))
    lab.run()
    named = lab.open(0)
    lab.shard.holds = True
    lab.client.send(lab.request(0, named), 0)
    second = lab.broker.connect()
    found: list[Any] = []

    def answered() -> list[Any]:
        type(second.connection)._on_wake(second.connection)
        found.extend(second.responses())
        return found

    second.send(lab.request(0, named), 0)
    await until(answered)
    assert found[0].error_code == BUSY
    assert "on its way" in found[0].error_message
    (committing,) = lab.shard.held
    lab.shard.holds = False
    committing(ErrorCode.NONE)
    assert lab.answers()[0].error_code == 0
    assert lab.commit(0, named).is_replay


async def test_what_is_committed_late_is_a_replay_afterwards(
    lab: GroupLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver is told that nothing is known, and asks again."""
    monkeypatch.setattr("minikafka.broker.coordinator.transaction_log.RETRY_MS", 1)
    lab.run()
    named, loser = lab.open(0), lab.open(1)
    lab.shard.holds = True
    lab.client.send(lab.request(0, named), 0)
    (committing,) = lab.shard.held
    committing(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert lab.answers()[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert lab.state_of(named) is State.ONGOING
    await until(lambda: lab.shard.late)
    lab.shard.holds = False
    lab.shard.late.pop()(ErrorCode.NONE)
    assert lab.commit(0, named).is_replay
    await until(lambda: lab.state_of(named) is State.COMPLETE_COMMIT)
    await until(lambda: lab.state_of(loser) is State.COMPLETE_ABORT)


async def test_producer_ids_for_those_whose_epochs_run_out(lab: GroupLab) -> None:
    """Some are in stock, the rest has to be had."""
    lab.run()
    named = [lab.open(index) for index in range(3)]
    ledger = lab.shard.state
    for each in named:
        found = ledger.get(each.transactional_id)
        assert found is not None
        ledger.begin(exhausted(found), 2)
        ledger.settle(each.transactional_id, is_committed=True)
    named = [each._replace(epoch=EXHAUSTED_EPOCH) for each in named]
    ids = lab.broker.edge.producer_ids
    ids._next = ids._end = 0
    ids._spare = (8000, 8001)
    waiting: list[Any] = []
    ids.wait = waiting.append  # type: ignore[assignment]
    ids.stock_up = lambda: None  # type: ignore[method-assign]
    lab.client.send(lab.request(0, *named), 0)
    for number in (8001, 8002):
        waiting.pop()(ErrorCode.NONE, number)
    assert waiting == []
    assert lab.answers()[0].error_code == 0
    await until(lambda: lab.state_of(named[2]) is State.COMPLETE_COMMIT)
    await until(lambda: lab.state_of(named[0]) is State.COMPLETE_COMMIT)
    found_ids = [ledger.get(each.transactional_id) for each in named]
    assert sorted(each.producer_id for each in found_ids if each is not None) == [8000, 8001, 8002]


async def test_without_producer_ids_one_has_to_come_back(lab: GroupLab) -> None:
    lab.run()
    named = lab.open(0)
    found = lab.shard.state.get(named.transactional_id)
    assert found is not None
    lab.shard.state.begin(exhausted(found), 2)
    lab.shard.state.settle(named.transactional_id, is_committed=True)
    ids = lab.broker.edge.producer_ids
    ids.take = lambda: None  # type: ignore[method-assign]
    ids.wait = lambda taken: taken(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, -1)  # type: ignore[method-assign]
    answer = lab.commit(0, named._replace(epoch=EXHAUSTED_EPOCH))
    assert answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert lab.state_of(named) is State.ONGOING


def exhausted(found: Any) -> Any:
    return replace(found, epoch=EXHAUSTED_EPOCH)


async def test_more_groups_than_there_is_room_for_are_refused(make_broker: MakeBroker) -> None:
    lab = GroupLab(make_broker(transactional_ids_max="2"))
    assert lab.run().error_code == 0
    lab.open(0)
    refused = lab.ask(InitCommitGroupRequest(group="h", run="a"), 0)
    assert refused.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert "transactional.ids.max" in refused.error_message
    assert lab.run("b").error_code == 0


async def test_unused_groups_are_forgotten_after_their_ids(make_broker: MakeBroker) -> None:
    lab = GroupLab(make_broker(transactional_id_expiration_ms="1", **QUICK))
    lab.run()
    named = lab.open(0)
    lab.load()
    await asyncio.sleep(0.03)
    assert lab.group is not None
    assert lab.commit(0, named).error_code == 0
    await until(lambda: lab.group is None)
    assert len(lab.shard.state) == 0
    assert lab.shard.log[-1][1] is None
    assert lab.commit(1).error_code == ErrorCode.GROUP_ID_NOT_FOUND


async def test_all_of_a_group_is_coordinated_where_its_name_is(make_broker: MakeBroker) -> None:
    lab = GroupLab(make_broker())
    for index in range(1, 50):
        place = (1, 2) if index % 2 else (2, 1)
        record = r.PartitionRecord(INTERNAL_ID, index, place, place, place[0], 0, 0)
        lab.broker.image.apply(record, 103)
    lab.real._partitions.image = lab.broker.image
    keys = [GROUP, "g/0/0.0", "g/17/3.1"]
    others = [f"g/{index}" for index in range(9)]
    assert [lab.real.index_of(key) for key in keys] == [partition_of(GROUP, 50)] * 3
    assert [lab.real.index_of(key) for key in others] == [partition_of(key, 50) for key in others]
    request = FindCoordinatorRequest(
        key_type=CoordinatorType.TRANSACTION, coordinator_keys=[*keys, *others]
    )
    found = [each.node_id for each in lab.ask(request, 4).coordinators]
    assert len(dict.fromkeys(found[:3])) == 1
    assert len(dict.fromkeys(found[3:])) == 2
