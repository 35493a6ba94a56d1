"""Scenarios N: the whole system."""

from itertools import combinations

import pytest

from tests.simulation import scenario
from tests.simulation.stage import Stage, staged


def test_n_01_whatever_goes_wrong_it_heals_and_nothing_is_lost() -> None:
    """Given a cluster, a load and faults drawn from a seed; when they happen for some seconds; then
    every invariant holds after every step, and after the faults all of it converges and is read
    back. (`make simulate` explores; this is one short run of it.)
    """
    outcome = scenario.run(40, 4.0)
    assert outcome.violation is None
    assert outcome.acknowledged_count > 0


@staged(brokers=3, controllers=3, seed=3)
async def test_n_03_swizzle_clog(stage: Stage) -> None:
    """Given a running cluster; when its machines stop talking one by one, and heal one by one in
    another order; then it converges without anybody's help, and nothing acknowledged is lost.
    """
    await stage.create_topic("t", [[1, 2, 3]], configs={"min.insync.replicas": "2"})
    producer = await stage.producer()
    acks = [producer.send("t", b"%d" % number) for number in range(5)]
    names = list(stage.cluster.daemons)
    rng = stage.world.rng("story")
    clogged = dict.fromkeys(rng.sample(names, len(names)))
    for name in clogged:
        stage.isolate(name)
        acks.append(producer.send("t", b"%d" % len(acks)))
        await stage.sleep(rng.random() / 2)
    for name in rng.sample(names, len(names)):
        del clogged[name]
        for other in stage.world.network.names:
            if other != name and other not in clogged:
                stage.unblock(name, other)
                stage.unblock(other, name)
        await stage.sleep(rng.random() / 2)
    for number, ack in enumerate(acks):
        assert (await ack).offset == number
    await stage.until(lambda: stage.active_name() is not None, "a controller is active", 20)
    await stage.until(lambda: len(stage.state("t").isr) == 3, "full ISR", 20)
    assert await stage.read("t") == [b"%d" % number for number in range(len(acks))]


@staged(broker={"replica.lag.time.max.ms": "1000"})
async def test_n_04_a_follower_a_hundred_times_slower_holds_nobody_up_for_long(
    stage: Stage,
) -> None:
    """Given a follower whose wires and disk are a hundred times slower; when it falls behind; then
    it leaves the ISR after replica.lag.time.max.ms at the latest, writes wait no longer than that,
    and at their old speed from then on. (A slow leader slows its writers: nobody else may answer.)
    """
    await stage.create_topic("t", [[1, 2, 3]], configs={"min.insync.replicas": "2"})
    producer = await stage.producer()
    disk = stage.disk(3)
    disk.slow_sync_chance, disk.slow_sync_seconds = 1.0, 1.0
    for other in ("broker-1", "broker-2"):
        stage.delay(3, other, 1.0)
        stage.delay(other, 3, 1.0)
    waited = []
    for number in range(40):
        began = stage.now
        await producer.send("t", b"%d" % number)
        waited.append(stage.now - began)
        await stage.sleep(0.05)
    assert max(waited) < 2.5
    assert stage.state("t").isr == (1, 2)
    assert max(waited[-10:]) < 0.05


@pytest.mark.parametrize("first", list(combinations((1, 2, 3), 2)))
def test_n_06_all_are_killed_and_any_majority_begins(first: tuple[int, int]) -> None:
    """Given acknowledged records; when everything is killed at once, any majority of controllers
    and brokers starts, and later the others; then all logs are equal and hold every record.
    """

    async def story(stage: Stage) -> None:
        await stage.create_topic("t", [[1, 2, 3]], configs={"min.insync.replicas": "2"})
        sent = [b"%d" % number for number in range(10)]
        await stage.send("t", *sent)
        stage.kill(*stage.cluster.daemons)
        stage.start(*(f"controller-{number}" for number in first), *first)
        await stage.until(lambda: stage.active_name() is not None, "a controller is active")
        (late,) = {1, 2, 3} - {*first}
        await stage.sleep(1)
        stage.start(f"controller-{late}", late)
        await stage.until(lambda: len(stage.state("t").isr) == 3, "full ISR", 30)
        await stage.until(
            lambda: stage.log(1, "t") == stage.log(2, "t") == stage.log(3, "t"), "equal logs"
        )
        assert await stage.read("t") == sent

    Stage(brokers=3, controllers=3).play(story)
