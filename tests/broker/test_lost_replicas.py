"""What is lost with a directory is told until the controller has heard, or the broker stops."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from minikafka.broker.replication.lost_replicas import LostReplicas
from minikafka.protocol.control.messages import LostReplica, Noted, OfflinePartitions
from minikafka.protocol.errors import ApiError, ErrorCode
from minikafka.protocol.types import TopicIdPartition
from minikafka.runtime.errors import LogDirectoryFailed
from minikafka.runtime.runtime import SystemRuntime

from .channel_support import FakeChannel, until
from .node_support import ME, ORDERS, Node, state

ONE, TWO = TopicIdPartition(ORDERS, 0), TopicIdPartition(ORDERS, 1)
HEARD = Noted(ErrorCode.NONE)


@dataclass
class Losing:
    channel: FakeChannel = field(default_factory=FakeChannel)
    given_up: list[str] = field(default_factory=list)

    def make(self, timeout_ms: int = 10_000) -> LostReplicas:
        channel = self.channel.as_channel()
        return LostReplicas(SystemRuntime(), channel, timeout_ms, self.given_up.append)


@pytest.fixture
def losing() -> Losing:
    return Losing()


def told(*replicas: TopicIdPartition) -> OfflinePartitions:
    lost = tuple(LostReplica(each.topic_id, each.partition) for each in replicas)
    return OfflinePartitions(ME, 3, lost)


async def test_a_loss_is_told_again_until_it_was_heard(losing: Losing) -> None:
    lost = losing.make()
    lost.lose([ONE, TWO])
    unreached = ApiError(ErrorCode.NETWORK_EXCEPTION, "gone")
    assert await losing.channel.answer(unreached) == told(ONE, TWO)
    stale = Noted(ErrorCode.STALE_BROKER_EPOCH, "who?")
    assert await losing.channel.answer(stale) == told(ONE, TWO)
    assert await losing.channel.answer(HEARD) == told(ONE, TWO)
    await until(lambda: len(lost) == 0)
    assert losing.given_up == []
    await lost.close()


async def test_what_is_lost_meanwhile_goes_with_the_next_request(losing: Losing) -> None:
    lost = losing.make()
    lost.lose([ONE])
    _, future = await losing.channel.next_call()
    lost.lose([TWO])
    future.set_result(HEARD)
    assert await losing.channel.answer(HEARD) == told(TWO)
    await lost.close()


async def test_d_11_a_broker_that_cannot_tell_stops(losing: Losing) -> None:
    lost = losing.make(timeout_ms=1)
    lost.lose([ONE])
    await until(lambda: bool(losing.given_up))
    assert losing.given_up == ["a log directory failed, and no controller heard of it for 1 ms"]
    await lost.close()


async def test_a_failed_directory_names_its_replicas_and_no_others(tmp_path: Path) -> None:
    node = await Node(tmp_path).start("one", "two")
    lost: list[TopicIdPartition] = []
    node.on_replicas_lost = lost.extend
    await node.give(state(ME), state(ME))
    broken = node.partitions.directory_of(node[0])
    with pytest.raises(LogDirectoryFailed), broken.files.guard:
        raise OSError(5, "Input/output error")
    await until(lambda: bool(lost))
    assert lost == [ONE]
    await node.stop()


async def test_metadata_that_does_not_know_of_a_loss_is_told(tmp_path: Path) -> None:
    """A report that came to nothing, as when its controller died, is made good."""
    node = await Node(tmp_path).start("one", "two")
    await node.give(state(ME), state(ME))
    with pytest.raises(LogDirectoryFailed), node.partitions.directory_of(node[0]).files.guard:
        raise OSError(5, "Input/output error")
    await until(lambda: bool(node[0].offline_because))
    lost: list[TopicIdPartition] = []
    node.on_replicas_lost = lost.extend
    await node.change(state(ME, partition_epoch=2))
    assert lost == [ONE]
    await node.change(state(2, partition_epoch=3, leader_epoch=2, offline=(ME,)))
    assert lost == [ONE]
    await node.stop()
