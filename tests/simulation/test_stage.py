"""The stage itself: what a story can do, and that the invariants watch it."""

import pytest

from minikafka.protocol.control.messages import FetchMetadata
from minikafka.protocol.messages.metadata import MetadataRequest
from minikafka.storage.files import CLEAN_SHUTDOWN

from .stage import Stage, staged
from .world import Violation


@staged()
async def test_a_follower_that_is_silent_leaves_and_returns(stage: Stage) -> None:
    await stage.create_topic("t", [[1, 2, 3]], configs={"min.insync.replicas": "2"})
    producer = await stage.producer()
    assert (await producer.send("t", b"0")).offset == 0
    stage.pause(3)
    await producer.send("t", b"1")
    assert stage.state("t").isr == (1, 2)
    stage.resume(3)
    await stage.until(lambda: 3 in stage.state("t").isr, "broker 3 is back in the ISR")
    assert stage.partition(1, "t").leader is not None
    await stage.until(lambda: stage.log(3, "t") == stage.log(1, "t"), "equal logs")
    assert await stage.read("t") == [b"0", b"1"]


@staged(brokers=4)
async def test_kills_stops_cuts_and_power(stage: Stage) -> None:
    await stage.create_topic("t", [[1, 2, 3]], configs={"min.insync.replicas": "2"})
    assert await stage.send("t", b"0", b"1") == [0, 1]
    stage.kill(1)
    await stage.until(lambda: stage.state("t").leader == 2, "broker 2 leads")
    stage.start(1)
    await stage.ready(1)
    await stage.stop(2)
    assert stage.state("t").leader in (1, 3)
    stage.start(2)
    await stage.ready(2)
    stage.isolate(3, "broker-2")
    await stage.until(lambda: stage.is_fenced(3), "broker 3 is fenced")
    stage.heal()
    await stage.until(lambda: len(stage.state("t").isr) == 3, "full ISR")
    stage.power_off(4)
    await stage.until(lambda: stage.is_fenced(4), "broker 4 is fenced")
    stage.power_on(4)
    await stage.ready(4)
    assert await stage.read("t", offset=1) == [b"1"]


@staged()
async def test_a_kill_after_the_mark_of_a_clean_stop_takes_nothing_away(stage: Stage) -> None:
    """Seed 40205: the process dies after the last thing that it writes, and before it exits."""
    daemon = stage.daemon(3)
    process = daemon.process
    mark = f"/data/broker-3/{CLEAN_SHUTDOWN}"
    stage.terminate(3)
    while stage.disk(3).find(mark) is None:
        await stage.sleep(0.000_1)
    assert daemon.alive, "the kill comes too late to show anything"
    stage.kill(3)
    assert daemon.stopped_in_order is None
    stage.start(3)
    assert daemon.stopped_in_order is process
    await stage.ready(3)
    stage.kill(3)
    stage.start(3)
    assert daemon.stopped_in_order is process, "the mark was removed, and nobody asked for a stop"


@staged()
async def test_an_admin_and_requests_of_ones_own(stage: Stage) -> None:
    await stage.create_topic("t", 2)
    await stage.alter_configs("t", {"min.insync.replicas": "1"})
    assert stage.partition(stage.state("t").leader, "t").metadata.min_isr == 1
    response = await stage.ask(2, MetadataRequest(topics=None), version=9)
    assert [each.name for each in response.topics] == ["t"]
    answer = await stage.ask_controller(FetchMetadata(0, -1, 0))
    assert answer.error == 0
    await stage.delete_topic("t")
    assert stage.image().topic("t") is None


def take_the_high_watermark_back(stage: Stage) -> None:
    """Set the leader's high watermark back to 0, in the leader's process."""
    leader = stage.state("t").leader
    process = stage.daemon(leader).process
    assert process is not None
    role = stage.partition(leader, "t").role
    process.context.run(setattr, role, "high_watermark", 0)


def test_an_invariant_stops_the_story() -> None:
    async def story(stage: Stage) -> None:
        await stage.create_topic("t")
        await stage.send("t", b"0")
        take_the_high_watermark_back(stage)
        await stage.sleep(1)

    with pytest.raises(Violation, match="invariant 9"):
        Stage().play(story)


def test_a_muted_invariant_does_not() -> None:
    async def story(stage: Stage) -> float:
        stage.mute(9, 10, 11)
        await stage.create_topic("t")
        await stage.send("t", b"0")
        take_the_high_watermark_back(stage)
        await stage.sleep(1)
        return stage.now

    assert Stage().play(story) > 1


@staged(brokers=2)
async def test_what_an_unclean_election_took_another_may_bring_back(stage: Stage) -> None:
    """A batch was committed, lost to an unclean election, and is what a second one finds."""
    unclean = {"min.insync.replicas": "1", "unclean.leader.election.enable": "true"}
    await stage.create_topic("t", [[1, 2]], configs=unclean)
    await stage.send("t", b"both")
    stage.kill(2)
    await stage.until(lambda: stage.state("t").isr == (1,), "broker 1 is alone")
    await stage.send("t", b"of 1")
    stage.pause(1)
    stage.start(2)
    await stage.until(lambda: stage.state("t").leader == 2, "broker 2 is elected uncleanly", 20)
    await stage.send("t", b"of 2", acks="1")  # By a producer that never knew broker 1 as leader.
    stage.kill(2)
    stage.resume(1)
    await stage.until(lambda: stage.state("t").leader == 1, "broker 1 is elected uncleanly", 20)
    await stage.send("t", b"later")
    assert await stage.read("t") == [b"both", b"of 1", b"later"]
