"""ISR changes on their way: batched, one at a time, repeated while they stand."""

import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from minikafka.broker.partition.leading import carry_out
from minikafka.broker.replica.leader import REFUSED_PAUSE_MS
from minikafka.broker.replication.isr_proposals import IsrProposals
from minikafka.protocol.control.messages import ChangedPartition, PartitionsAltered
from minikafka.protocol.errors import ApiError, ErrorCode

from .channel_support import FakeChannel, until
from .node_support import ME, ORDERS, B, Node, state

ALONE = state(ME, isr=(ME,))


class Proposing:
    def __init__(self, node: Node) -> None:
        self.node = node
        self.channel = FakeChannel()
        self.proposals = IsrProposals(node.runtime, self.channel.as_channel(), ME)
        node.propose = self.proposals.propose

    def catch_up(self, index: int) -> None:
        partition = self.node[index]
        assert partition.leader is not None
        fetched = partition.leader.on_follower_fetched
        carry_out(partition, fetched(B, 0, self.node.now_ms, self.node.epoch(B)))


def result(index: int, error: int = 0, **more: object) -> ChangedPartition:
    fields = {"leader": ME, "leader_epoch": 1, "partition_epoch": 2, "isr": (ME, B)}
    return ChangedPartition(ORDERS, index, error, **(fields | more))  # type: ignore[arg-type]


@pytest.fixture
async def proposing(tmp_path: Path) -> AsyncIterator[Proposing]:
    node = await Node(tmp_path).start()
    made = Proposing(node)
    await node.give(ALONE, ALONE, ALONE)
    yield made
    await made.proposals.close()
    await node.stop()


async def test_b_26_what_comes_up_while_one_is_under_way_goes_together(
    proposing: Proposing,
) -> None:
    proposing.catch_up(0)
    first, future = await proposing.channel.next_call()
    proposing.catch_up(1)
    proposing.catch_up(2)
    assert proposing.channel.unanswered == 0
    future.set_result(PartitionsAltered(0, partitions=(result(0),)))
    second = await proposing.channel.answer(PartitionsAltered(0, partitions=(result(1), result(2))))
    assert [change.partition for change in first.changes] == [0]
    assert [change.partition for change in second.changes] == [1, 2]
    await until(lambda: proposing.node[2].metadata.isr == (ME, B))
    assert proposing.node[0].metadata.partition_epoch == 2


async def test_a_lost_answer_is_asked_for_again(proposing: Proposing) -> None:
    proposing.catch_up(0)
    first = await proposing.channel.answer(ApiError(ErrorCode.NETWORK_EXCEPTION))
    again = await proposing.channel.answer(PartitionsAltered(0, partitions=(result(0),)))
    assert first == again
    await until(lambda: proposing.node[0].metadata.isr == (ME, B))


async def test_a_proposal_that_metadata_overtook_is_not_repeated(proposing: Proposing) -> None:
    proposing.catch_up(0)
    proposing.catch_up(1)
    _, future = await proposing.channel.next_call()
    await proposing.node.change(state(B, leader_epoch=2, partition_epoch=2))
    future.set_exception(ApiError(ErrorCode.REQUEST_TIMED_OUT))
    again = await proposing.channel.answer(PartitionsAltered(0, partitions=(result(1),)))
    assert [change.partition for change in again.changes] == [1]


async def test_one_refusal_does_not_hold_up_the_others(proposing: Proposing) -> None:
    proposing.catch_up(0)
    _, first = await proposing.channel.next_call()
    proposing.catch_up(1)
    first.set_result(PartitionsAltered(0, partitions=(result(0, ErrorCode.INELIGIBLE_REPLICA),)))
    await proposing.channel.answer(PartitionsAltered(0, partitions=(result(1),)))
    await until(lambda: proposing.node[1].metadata.isr == (ME, B))
    refused = proposing.node[0].leader
    assert refused is not None
    assert refused.maximal_isr == (ME,)


async def test_b_25_an_answer_about_a_deleted_topic_is_not_applied_to_its_successor(
    proposing: Proposing,
) -> None:
    proposing.catch_up(0)
    _, future = await proposing.channel.next_call()
    await proposing.node.forget_topic()
    await proposing.node.give(ALONE)
    future.set_result(PartitionsAltered(0, partitions=(result(0),)))
    await until(lambda: not proposing.proposals._task.is_running)
    assert proposing.node[0].metadata.isr == (ME,)


async def test_an_answer_that_overtakes_a_raised_min_isr_brings_it_along(
    proposing: Proposing,
) -> None:
    proposing.catch_up(0)
    before = proposing.node[0].metadata.min_isr
    answer = PartitionsAltered(0, partitions=(result(0, min_isr=before + 1),))
    await proposing.channel.answer(answer)
    await until(lambda: proposing.node[0].metadata.isr == (ME, B))
    assert proposing.node[0].metadata.min_isr == before + 1


async def test_a_refusal_is_said_once_however_often_it_is_proposed(
    proposing: Proposing, caplog: pytest.LogCaptureFixture
) -> None:
    """A replica that may not join is proposed again as long as it fetches."""
    caplog.set_level(logging.INFO)
    refused = PartitionsAltered(0, partitions=(result(0, ErrorCode.INELIGIBLE_REPLICA),))
    for _ in range(5):
        proposing.catch_up(0)
        await proposing.channel.answer(refused)
        await until(lambda: proposing.node[0].leader.proposal is None)  # type: ignore[union-attr]
        proposing.node.now_ms += REFUSED_PAUSE_MS
    said = [line for line in caplog.messages if "INELIGIBLE_REPLICA" in line]
    assert len(said) == 1
