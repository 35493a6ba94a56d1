"""While a partition looks for its longest copy, every broker that has one says where it ends."""

from pathlib import Path

from minikafka.broker.replication.log_end_reports import LogEndReports
from minikafka.protocol.control.messages import LogEnd, Noted, ReportLogEnds
from minikafka.protocol.errors import ApiError, ErrorCode
from minikafka.protocol.types import NO_LEADER

from .channel_support import FakeChannel, until
from .node_support import ME, ORDERS, B, C, Node, state

HEARD = Noted(ErrorCode.NONE)
ASKING = state(NO_LEADER, isr=(), leader_epoch=5, partition_epoch=5, electing=True)


async def test_an_end_is_reported_as_long_as_it_is_asked_for(tmp_path: Path) -> None:
    node = await Node(tmp_path).start()
    channel = FakeChannel()
    reports = LogEndReports(node.runtime, channel.as_channel(), node.partitions.is_electing)
    node.on_electing = reports.ask
    await node.give(state(ME, isr=(ME, B)), state(B))
    node.produce(b"a")
    node.produce(b"b")
    node.fetched_by(B, offset=1)
    await node.change(ASKING)
    report = ReportLogEnds(ME, 3, (LogEnd(ORDERS, 0, 5, 1, 2, 1),))
    assert await channel.answer(ApiError(ErrorCode.NETWORK_EXCEPTION, "gone")) == report
    assert await channel.answer(HEARD) == report
    await node.change(ASKING, index=1)
    assert (await channel.answer(HEARD)).ends == (
        LogEnd(ORDERS, 0, 5, 1, 2, 1),
        LogEnd(ORDERS, 1, 5, -1, 0, 0),
    )
    for index in (0, 1):
        await node.change(state(C, isr=(C,), leader_epoch=6, partition_epoch=6), index)
    await until(lambda: not reports._task.is_running)
    assert channel.unanswered == 0
    await reports.close()
    await node.stop()


async def test_an_epoch_without_records_is_not_the_last_records_epoch(tmp_path: Path) -> None:
    """It led epoch 4 and wrote nothing: it holds no more than another with the same records."""
    node = await Node(tmp_path).start()
    channel = FakeChannel()
    reports = LogEndReports(node.runtime, channel.as_channel(), node.partitions.is_electing)
    node.on_electing = reports.ask
    await node.give(state(ME, isr=(ME, B)))
    node.produce(b"a")
    await node.change(state(ME, isr=(ME, B), leader_epoch=4, partition_epoch=4))
    await node.change(ASKING)
    (end,) = (await channel.answer(HEARD)).ends
    assert (end.last_epoch, end.log_end_offset) == (1, 1)
    await reports.close()
    await node.stop()


async def test_a_log_of_deleted_records_is_of_the_epoch_of_the_last(tmp_path: Path) -> None:
    """An older log that lacks what was committed since would seem to hold more, and be elected."""
    node = await Node(tmp_path).start()
    channel = FakeChannel()
    reports = LogEndReports(node.runtime, channel.as_channel(), node.partitions.is_electing)
    node.on_electing = reports.ask
    await node.give(state(ME, isr=(ME,)))
    for record in (b"a", b"b", b"c"):
        node.produce(record)
    node[0].log.advance_log_start(3)
    await node.change(ASKING)
    (end,) = (await channel.answer(HEARD)).ends
    assert (end.last_epoch, end.log_end_offset) == (1, 3)
    await reports.close()
    await node.stop()


async def test_a_replica_that_is_offline_reports_nothing(tmp_path: Path) -> None:
    node = await Node(tmp_path).start()
    asked: list[object] = []
    node.on_electing = asked.extend
    partition = await node.give(state(ME))
    partition.go_offline(ErrorCode.KAFKA_STORAGE_ERROR)
    await node.change(ASKING)
    assert asked == []
    await node.stop()
