"""Bytes per second for copies that catch up; those in sync are never held back (scenario B-28)."""

import pytest

from minikafka.broker.replica.throttle import PAUSE_MAX_MS, PAUSE_MIN_MS, Throttle, names
from minikafka.protocol.control.records import BROKER, TOPIC, ConfigRecord

from .channel_support import until
from .node_support import ME, B, C, Node, state
from .test_fetcher import Pair, brisk, stored
from .test_partition import node

__all__ = ["brisk", "node"]


def test_a_seconds_worth_may_be_spent_at_once_and_is_paid_back() -> None:
    throttle = Throttle(rate=1000)
    throttle.spend(999, now_ms=5)
    assert not throttle.is_exceeded(5)
    throttle.spend(1501, now_ms=5)
    assert throttle.is_exceeded(5)
    assert throttle.free_at_ms(5) == 5 + PAUSE_MAX_MS
    assert throttle.is_exceeded(1_505)
    assert throttle.free_at_ms(1_505) == 1_505 + PAUSE_MIN_MS
    assert not throttle.is_exceeded(1_506)


def test_over_time_the_rate_is_what_gets_through() -> None:
    throttle = Throttle(rate=10_000)
    moved = 0
    for now_ms in range(0, 20_000, 10):
        if not throttle.is_exceeded(now_ms):
            throttle.spend(777, now_ms)
            moved += 777
    assert 200_000 <= moved <= 200_000 + 10_000 + 777


def test_a_rate_of_nothing_lets_nothing_through_and_no_rate_everything() -> None:
    assert Throttle(rate=0).is_exceeded(0)
    assert Throttle(rate=0).free_at_ms(7) == 7 + PAUSE_MAX_MS
    assert not Throttle().is_on


@pytest.mark.parametrize(
    ("listed", "expected"),
    [((), False), (("*",), True), (("3:1", "0:2"), True), (("0:1", "2:0"), False)],
)
def test_a_copy_is_named_by_partition_and_broker(listed: tuple[str, ...], expected: bool) -> None:
    assert names(listed, 0, 2) is expected


def throttled(direction: str, rate: int) -> tuple[ConfigRecord, ConfigRecord]:
    return (
        ConfigRecord(TOPIC, "orders", f"{direction}.replication.throttled.replicas", "*"),
        ConfigRecord(BROKER, "", f"{direction}.replication.throttled.rate", str(rate)),
    )


async def test_b_28_a_leader_holds_back_those_who_catch_up_and_no_member(node: Node) -> None:
    await node.give(state(ME, isr=(ME, B)))
    await node.apply(*throttled("leader", 100))
    node.produce(b"x" * 200)

    def read_by(broker: int) -> int:
        return len(node[0].fetch(node.follower_fetch(broker, 0), node.now_ms).records)

    whole = read_by(B)
    assert whole > 200
    assert read_by(C) == whole, "nothing was spent yet"
    assert read_by(C) == 0
    assert read_by(B) == whole
    node.now_ms += 1000 * whole // 100
    assert read_by(C) == whole


async def test_b_28_a_throttle_that_is_lifted_binds_nobody(node: Node) -> None:
    await node.give(state(ME, isr=(ME, B)))
    await node.apply(*throttled("leader", 0))
    node.produce(b"x" * 200)
    spec = node.follower_fetch(C, 0)
    assert not node[0].fetch(spec, node.now_ms).records
    await node.apply(ConfigRecord(BROKER, "", "leader.replication.throttled.rate", None))
    assert node[0].fetch(spec, node.now_ms).records


async def test_b_28_a_follower_that_catches_up_asks_for_no_more_than_its_share(
    brisk: Pair,
) -> None:
    await brisk.follower.apply(ConfigRecord(BROKER, "", "follower.replication.throttled.rate", "0"))
    led, followed = await brisk.give(state(ME, replicas=(ME, B), isr=(ME,)))
    await brisk.follower.configure("follower.replication.throttled.replicas", "0:2")
    await brisk.change(state(ME, replicas=(ME, B), isr=(ME,), partition_epoch=2, leader_epoch=2))
    brisk.leader.produce(b"a")
    other = state(ME, replicas=(ME, B), isr=(ME, B))
    await brisk.change(other, index=1)
    brisk.leader.produce(b"b", index=1)
    await until(lambda: brisk.leader[1].high_watermark == 1)
    assert stored(followed) == []
    await brisk.follower.configure("follower.replication.throttled.replicas", "")
    brisk.follower.now_ms += PAUSE_MAX_MS
    await until(lambda: stored(followed) == [b"a"])
    assert led.log_end_offset == 1


async def test_b_28_a_member_of_the_isr_is_followed_at_any_rate(brisk: Pair) -> None:
    for each in (brisk.leader, brisk.follower):
        await each.apply(*throttled("leader", 0)[1:], *throttled("follower", 0)[1:])
    led, _ = await brisk.give(state(ME, replicas=(ME, B), isr=(ME, B)))
    for each in (brisk.leader, brisk.follower):
        await each.apply(*throttled("leader", 0)[:1], *throttled("follower", 0)[:1])
    brisk.leader.produce(b"a")
    await until(lambda: led.high_watermark == 1)
