"""Scenarios E: unclean stops, eligible leaders, the last replica standing."""

import random

import pytest

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.elect_leaders import ElectionType
from minikafka.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from minikafka.protocol.types import NO_LEADER

from ..controller.machine import Machine, error
from ..simulation.stage import Stage, staged
from .eligible import (
    MIN_ISR,
    UNCLEAN,
    cut_off,
    elect,
    lose_power,
    only_the_leader_in_sync,
    without_eligible_leaders,
)

T = ("t", 0)


def machine_with_eligible_leader() -> Machine:
    """t-0 on (1, 2, 3) with min ISR 2: leader 1 alone in sync, 2 eligible."""
    machine = Machine(brokers_up=3, elr=True, min_isr=2)
    machine.create("t", replicas=[(1, 2, 3)])
    machine.fence(3)
    machine.alter("t", [1])
    assert (machine.state("t").isr, machine.state("t").elr) == ((1,), (2,))
    return machine


@staged()
async def test_e_01_the_last_replica_standing_may_lose_its_cache(stage: Stage) -> None:
    """Given an ISR of three that 3 and then 2 have left, 2 eligible; when 1 loses power and with it
    all it had not synced; then 2 leads with every acknowledged record, and 1 follows it again."""
    await stage.create_topic("t", [[1, 2, 3]], configs={MIN_ISR: "2"})
    await stage.send("t", b"held by all")
    await only_the_leader_in_sync(stage)
    assert stage.state("t").elr == (2,)
    lose_power(stage, 1)
    await stage.until(lambda: stage.state("t").leader == 2, "2 leads, from the eligible leaders")
    assert not stage.state("t").recovering
    assert stage.state("t").unclean_epoch == -1
    stage.heal()
    stage.power_on(1)
    await stage.until(lambda: len(stage.state("t").isr) == 3, "everybody is in sync")
    assert stage.state("t").elr == ()
    assert await stage.read("t") == [b"held by all", b"held by 1 and 2"]
    assert stage.log(1, "t") == stage.log(2, "t")


@staged()
async def test_e_02_without_eligible_leaders_the_same_loses_what_was_acknowledged(
    stage: Stage,
) -> None:
    """Given the same with eligible leaders switched off; when 1 loses power and comes back; then
    it, the last in sync, leads with what its disk has kept: acknowledged records are gone, though
    no unclean election is on record. This is Kafka before 4.0, and what the feature is for. Only
    2, which still has them, refuses to have them removed."""
    stage.mute(1, 2, 3, 4, 5, 6, 8, 9, 11, 15)
    await without_eligible_leaders(stage)
    await stage.create_topic("t", [[1, 2, 3]], configs={MIN_ISR: "2"})
    await stage.send("t", b"held by all")
    await only_the_leader_in_sync(stage)
    lose_power(stage, 1)
    await stage.until(lambda: stage.is_fenced(1), "1 is given up")
    assert (stage.state("t").isr, stage.state("t").leader) == ((1,), NO_LEADER)
    stage.heal()
    stage.power_on(1)
    await stage.until(lambda: stage.state("t").isr == (1, 3), "3 has followed it")
    assert stage.state("t").unclean_epoch == -1
    assert await stage.read("t") == []
    assert any("no unclean election is on record" in line for line in stage.logs(2))
    assert stage.partition(2, "t").log_end_offset == 2


def test_e_03_an_eligible_leader_that_restarts_uncleanly_is_none_any_more() -> None:
    """Given 1 in sync and 2 eligible; when 2 starts anew without a clean stop behind it; then it is
    out of the eligible leaders in the batch of its registration, and before it."""
    machine = machine_with_eligible_leader()
    machine.fence(2)
    before = len(machine.log)
    machine.register(2, incarnation=2)
    left, registered = machine.log[before:]
    assert getattr(left, "elr", None) == ()
    assert registered.__class__.__name__ == "RegisterBrokerRecord"
    assert (machine.state("t").isr, machine.state("t").elr) == ((1,), ())


def test_e_04_an_eligible_leader_that_restarts_cleanly_stays_one() -> None:
    """Given the same; when 2 starts anew and its mark of a clean stop names the registered epoch;
    then it stays eligible, and leads cleanly once 1 is gone."""
    machine = machine_with_eligible_leader()
    machine.fence(2)
    machine.come_up(2, incarnation=2, clean=True)
    assert machine.state("t").elr == (2,)
    machine.fence(1)
    state = machine.state("t")
    assert (state.leader, state.isr, state.elr) == (2, (2,), (1,))
    assert not state.recovering


def test_e_04_a_mark_of_an_earlier_start_is_no_clean_stop() -> None:
    """Given a mark that names the epoch of the start before the last; then that restart counts as
    unclean: the last start was killed before it could remove or write one."""
    machine = machine_with_eligible_leader()
    machine.fence(2)
    old = machine.broker(2).broker_epoch
    machine.register(2, incarnation=2, clean=True)
    assert machine.state("t").elr == (2,)
    machine.live[2] = False
    machine.register(2, incarnation=3, previous_broker_epoch=old)
    assert machine.state("t").elr == ()


@staged()
async def test_e_05_a_crash_while_loading_makes_the_next_start_unclean(stage: Stage) -> None:
    """Given broker 2 eligible and stopped cleanly; when its next start is killed while it loads;
    then the start after that is unclean, and 2 is eligible no more (KAFKA-10471)."""
    await stage.create_topic("t", [[1, 2, 3]], configs={MIN_ISR: "2"})
    await stage.send("t", b"0")
    await cut_off(stage, 3, b"1")
    await stage.stop(2)
    await stage.until(lambda: stage.state("t").elr == (2,), "2 is eligible")
    fs_of_2 = stage.disk(2).root.entries["data"].entries["broker-2"]  # type: ignore[union-attr]
    assert ".kafka_cleanshutdown" in fs_of_2.entries  # type: ignore[union-attr]
    stage.start(2)
    await stage.until(
        lambda: ".kafka_cleanshutdown" not in fs_of_2.entries,  # type: ignore[union-attr]
        "the mark is removed before anything else",
    )
    assert stage.state("t").elr == (2,), "nobody has been told of the start yet"
    stage.kill(2)
    stage.cut(2, 1)
    stage.start(2)
    await stage.ready(2)
    assert stage.state("t").elr == ()


@staged(broker={"log.dirs": "/data/a,/data/b"})
async def test_e_06_every_directory_must_tell_of_the_same_clean_stop(stage: Stage) -> None:
    """Given a broker with two directories that stopped cleanly; when the mark is missing in one of
    them; then its next start is unclean."""
    await stage.create_topic("t", [[1, 2, 3]], configs={MIN_ISR: "2"})
    await cut_off(stage, 3, b"1")
    await stage.stop(2)
    await stage.until(lambda: stage.state("t").elr == (2,), "2 is eligible")
    stage.cut(2, 1)
    stage.start(2)
    await stage.ready(2)
    assert stage.state("t").elr == (2,), "a clean start keeps it eligible"
    await stage.stop(2)
    directory = stage.disk(2).root.entries["data"].entries["b"]  # type: ignore[union-attr]
    directory.change((".kafka_cleanshutdown", None))  # type: ignore[union-attr]
    stage.start(2)
    await stage.ready(2)
    assert stage.state("t").elr == ()


def test_e_07_an_isr_that_is_large_enough_needs_no_eligible_leaders() -> None:
    """Given 1 in sync and 2 eligible; when 2 is in sync again; then nobody is eligible besides the
    ISR: from here on records may commit that others do not have."""
    machine = machine_with_eligible_leader()
    machine.come_up(3, incarnation=2)
    assert error(machine.alter("t", [1, 3])) == 0
    assert (machine.state("t").isr, machine.state("t").elr) == ((1, 3), ())


def test_e_08_the_last_known_leader_is_not_elected_while_it_is_fenced() -> None:
    """Given nobody in sync or eligible; when others live and the last leader does not; then nobody
    leads, until all that may have everything are unfenced (KAFKA-19522, KIP-966)."""
    machine = machine_with_eligible_leader()
    machine.fence(2, 1)
    machine.register(2, incarnation=2)
    assert machine.state("t").elr == (1,)
    machine.register(1, incarnation=2)
    state = machine.state("t")
    assert (state.isr, state.elr, state.last_known_elr) == ((), (), (2, 1))
    machine.beat(2)
    machine.come_up(3, incarnation=2)
    assert machine.state("t").leader == NO_LEADER
    assert not machine.state("t").electing
    machine.beat(1)
    assert machine.state("t").leader == 1
    assert machine.state("t").recovering, "it may have lost something: that is on record"


def test_e_08_of_those_alive_then_the_longest_log_leads() -> None:
    """Given the same, and the last known leader back with less than another has; then that one."""
    machine = machine_with_eligible_leader()
    machine.fence(2, 1)
    machine.register(2, incarnation=2)
    machine.register(1, incarnation=2)
    machine.ends = {1: (0, 5), 2: (0, 9), 3: (0, 2)}
    machine.beat(2)
    machine.beat(1)
    assert (machine.state("t").leader, machine.state("t").isr) == (2, (2,))


def test_e_08_a_later_epoch_counts_before_a_longer_log() -> None:
    """Given the same, and more records in the log that ends in the older epoch; then the shorter
    one leads: what the other has beyond the older epoch's end was never committed."""
    machine = machine_with_eligible_leader()
    machine.fence(2, 1)
    machine.register(2, incarnation=2)
    machine.register(1, incarnation=2)
    machine.ends = {1: (1, 5), 2: (0, 9), 3: (0, 2)}
    machine.beat(2)
    machine.beat(1)
    assert (machine.state("t").leader, machine.state("t").isr) == (1, (1,))


def test_e_12_an_unclean_election_too_goes_by_epoch_and_then_by_offset() -> None:
    """Given unclean elections allowed and the only replica in sync dead; when 2 has the longest
    log, of an older epoch, and 3 more than 4 of the latest; then 3 leads."""
    machine = Machine(brokers_up=4, unclean=True)
    machine.create("t", replicas=[(1, 2, 3, 4)])
    machine.alter("t", [1])
    machine.are_reporting = False
    machine.ends = {2: (0, 9), 3: (1, 5), 4: (1, 4)}
    machine.fence(1)
    assert machine.state("t").electing
    machine.report_to(2, 3, 4)
    (winner,) = machine.logs.decided(machine.image, machine.now_ms).values()
    assert winner.broker_id == 3


def test_e_09_one_that_lost_its_cache_waits_for_one_that_was_only_killed() -> None:
    """Given 1 in sync and 2 eligible; when 1 loses power and 2 is killed; then 1 does not lead
    before 2 is back, which has everything: one lossy crash at min ISR 2 loses nothing."""
    machine = machine_with_eligible_leader()
    machine.fence(2, 1)
    machine.ends = {1: (0, 5), 2: (0, 9), 3: (0, 2)}
    machine.come_up(1, incarnation=2)
    machine.come_up(3, incarnation=2)
    assert (machine.state("t").leader, machine.state("t").elr) == (NO_LEADER, (2,))
    machine.register(2, incarnation=2)
    assert machine.state("t").last_known_elr == (1, 2)
    assert (machine.state("t").leader, machine.state("t").electing) == (NO_LEADER, False)
    machine.beat(2)
    assert (machine.state("t").leader, machine.state("t").isr) == (2, (2,))


def test_e_09_the_report_of_each_that_may_have_everything_is_waited_for() -> None:
    """Given the same, and an election under way; when 2 is silent, however long; then nobody is
    elected; when an operator accepts the loss, whoever lives is."""
    machine = machine_with_eligible_leader()
    machine.fence(2, 1)
    machine.are_reporting = False
    machine.ends = {1: (0, 5), 2: (0, 9)}
    machine.come_up(1, incarnation=2)
    machine.come_up(2, incarnation=2)
    assert machine.state("t").electing
    machine.report_to(1)
    later = machine.now_ms + 60_000
    assert not machine.logs.decided(machine.image, later)
    machine.report_to(2)
    (winner,) = machine.logs.decided(machine.image, machine.now_ms).values()
    assert winner.broker_id == 2


@staged(brokers=3)
async def test_e_10_what_more_crashes_than_promised_lose_is_told_exactly(stage: Stage) -> None:
    """Given min ISR 2; when the two that hold a record both lose power with it; then the election
    is on record as unclean, and the controller and the replicas name what is gone."""
    stage.mute(1, 2, 5, 8)
    await stage.create_topic("t", [[1, 2, 3]], configs={MIN_ISR: "2"})
    await stage.send("t", b"0", b"1")
    stage.cut(3, 2)
    await cut_off(stage, 3, b"2")
    await stage.send("t", b"3")
    lose_power(stage, 1, 2)
    await stage.until(lambda: stage.is_fenced(1) and stage.is_fenced(2), "both are given up")
    stage.heal()
    stage.power_on(1, 2)
    await stage.until(lambda: len(stage.state("t").isr) == 3, "everybody is in sync", 20)
    assert stage.state("t").unclean_epoch >= 0
    told = [line for line in stage.logs() if "the longest log is that of broker 3" in line]
    assert told, stage.logs()[-40:]
    assert await stage.read("t") == [b"0", b"1"]


def test_e_10_the_controller_names_the_offsets_that_were_committed_and_are_lost() -> None:
    """Given a longest log that ends below a high watermark that another replica knew; then the
    winner carries the exact range."""
    machine = Machine(brokers_up=3, elr=True, min_isr=2)
    machine.create("t", replicas=[(1, 2, 3)])
    machine.are_reporting = False
    machine.fence(1, 2, 3)
    for broker in (1, 2, 3):
        machine.register(broker, incarnation=2)
    machine.beat(1)
    machine.beat(2)
    machine.beat(3)
    machine.ends = {1: (0, 40), 2: (0, 80), 3: (0, 90)}
    assert machine.state("t").last_known_elr == (2, 3)
    machine.report_to(2, high_watermark=70)
    machine.report_to(1, high_watermark=95)
    machine.report_to(3, high_watermark=60)
    (winner,) = machine.logs.decided(machine.image, machine.now_ms).values()
    assert (winner.broker_id, winner.end.log_end_offset, winner.lost_until) == (3, 90, 95)


def test_e_11_another_min_isr_begins_anew_with_eligible_leaders() -> None:
    """Given min ISR 1 and an ISR of one; when it is raised to two; then eligible leaders count
    from there: none yet, and whoever is in sync from now on when it leaves."""
    machine = Machine(brokers_up=3, elr=True, min_isr=1)
    machine.create("t", replicas=[(1, 2, 3)])
    machine.alter("t", [1])
    assert machine.state("t").elr == ()
    machine.configure("t", min_insync_replicas="2")
    assert machine.state("t").elr == ()
    machine.fence(1)
    assert (machine.state("t").isr, machine.state("t").elr) == ((), (1,))


def test_e_11_eligible_leaders_of_another_min_isr_are_forgotten() -> None:
    """Given 1 in sync and 2 eligible; when min ISR changes; then 2 is eligible no more, unless
    nobody leads: then nothing can be committed that it does not have."""
    machine = machine_with_eligible_leader()
    machine.configure("t", min_insync_replicas="3")
    assert machine.state("t").elr == ()
    other = machine_with_eligible_leader()
    other.fence(2, 1)
    assert other.state("t").elr == (2, 1)
    other.configure("t", min_insync_replicas="3")
    assert other.state("t").elr == (2, 1)


@staged()
async def test_e_11_with_a_higher_min_isr_nothing_more_commits(stage: Stage) -> None:
    """Given min ISR 1 and an ISR of one; when it is raised to two; then what the leader appends
    stays below no high watermark until another is in sync."""
    await stage.create_topic("t", [[1, 2, 3]], configs={MIN_ISR: "1"})
    await stage.send("t", b"0")
    stage.cut(1, 2)
    await cut_off(stage, 3, b"1")
    await stage.until(lambda: stage.state("t").isr == (1,), "1 is alone")
    await stage.alter_configs("t", {MIN_ISR: "2"})
    await stage.until(
        lambda: stage.partition(1, "t").metadata.effective_min_isr == 2, "the leader knows"
    )
    await stage.send("t", b"2", acks="1")
    assert stage.partition(1, "t").high_watermark == 2
    stage.heal()
    await stage.until(lambda: stage.partition(1, "t").high_watermark == 3, "it commits at last")


def test_e_12_an_operator_may_elect_whoever_lives() -> None:
    """Given everybody dead who was in sync or eligible, unclean elections off; then nobody leads
    until an operator asks for it, and the one that does is recovering: alone until it is not."""
    machine = Machine(brokers_up=4, elr=True, min_isr=2)
    machine.create("t", replicas=[(1, 2, 3)])
    machine.alter("t", [1, 2])
    machine.fence(2, 1)
    state = machine.state("t")
    assert (state.leader, state.isr, state.elr) == (NO_LEADER, (), (2, 1))
    assert machine.elect(ElectionType.UNCLEAN, T) == {T: ErrorCode.NONE}
    state = machine.state("t")
    assert (state.leader, state.isr, state.elr, state.recovering) == (3, (3,), (), True)
    assert state.unclean_epoch == state.leader_epoch
    machine.come_up(1, incarnation=2)
    assert error(machine.alter("t", [3, 1], recovering=True)) == ErrorCode.INVALID_REQUEST
    assert error(machine.alter("t", [3])) == 0
    assert error(machine.alter("t", [3, 1])) == 0
    assert error(machine.alter("t", [3, 1], recovering=True)) == ErrorCode.INVALID_REQUEST


@staged()
async def test_e_12_an_operator_elects_in_a_whole_cluster(stage: Stage) -> None:
    """Given 1 and 2 gone with what only they have; when the operator asks for an unclean election;
    then 3 leads with what it has, and the cluster goes on from there."""
    stage.mute(1, 2, 5, 6, 8)
    await stage.create_topic("t", [[1, 2, 3]], configs={MIN_ISR: "2"})
    await stage.send("t", b"0")
    stage.cut(3, 2)
    await cut_off(stage, 3, b"1")
    stage.kill(1, 2)
    await stage.until(lambda: stage.state("t").leader == NO_LEADER, "nobody leads")
    await stage.sleep(3)
    assert stage.state("t").leader == NO_LEADER
    assert await elect(stage, "t", ElectionType.UNCLEAN, broker=3) == ErrorCode.NONE
    assert stage.state("t").leader == 3, "the answer comes when it is over"
    stage.heal()
    stage.start(1, 2)
    await stage.until(lambda: len(stage.state("t").isr) == 3, "everybody is in sync")
    assert not stage.state("t").recovering
    assert await stage.read("t") == [b"0"]


@staged()
async def test_e_12_a_changed_setting_elects_the_longest_log(stage: Stage) -> None:
    """Given 1 dead with records of its own, 2 with more than 3; when unclean elections are switched
    on; then 2 leads though 3 stands before it in the list of replicas."""
    stage.mute(1, 2, 5, 6, 8)
    await stage.create_topic("t", [[1, 3, 2]], configs={MIN_ISR: "1"})
    await stage.send("t", b"0")
    await cut_off(stage, 3, b"1")
    await cut_off(stage, 2, b"2")
    stage.kill(1)
    await stage.until(lambda: stage.state("t").leader == NO_LEADER, "nobody leads")
    stage.heal()
    await stage.alter_configs("t", {UNCLEAN: "true"})
    await stage.until(lambda: stage.state("t").leader == 2, "2 leads")
    stage.start(1)
    await stage.until(lambda: len(stage.state("t").isr) == 3, "everybody is in sync")
    assert await stage.read("t") == [b"0", b"1"]


@staged()
async def test_e_13_power_fails_everywhere_at_once_and_nothing_was_synced(stage: Stage) -> None:
    """Given flush.policy=none; when every broker loses power with all it had not synced; then what
    was acknowledged is gone, and the election that follows says so."""
    stage.mute(1, 2, 5, 6, 8)
    await stage.create_topic("t", [[1, 2, 3]], configs={MIN_ISR: "2"})
    await stage.send("t", b"0", b"1", b"2")
    lose_power(stage, 1, 2, 3)
    await stage.sleep(3)
    stage.power_on(1, 2, 3)
    await stage.until(lambda: len(stage.state("t").isr) == 3, "everybody is in sync", 20)
    assert stage.state("t").unclean_epoch >= 0
    assert await stage.read("t") == []


@staged()
async def test_e_13_with_flushes_before_acknowledgements_nothing_is_lost(stage: Stage) -> None:
    """Given flush.policy=group; when every broker loses power at once; then everything that was
    acknowledged is read back."""
    configs = {MIN_ISR: "2", "flush.policy": "group"}
    await stage.create_topic("t", [[1, 2, 3]], configs=configs)
    await stage.send("t", b"0", b"1", b"2")
    lose_power(stage, 1, 2, 3)
    await stage.sleep(3)
    stage.power_on(1, 2, 3)
    await stage.until(lambda: len(stage.state("t").isr) == 3, "everybody is in sync", 20)
    assert await stage.read("t") == [b"0", b"1", b"2"]


@pytest.mark.parametrize("seed", range(4))
def test_e_09_one_lossy_crash_at_a_time_never_loses_what_was_acknowledged(seed: int) -> None:
    """Given min ISR 2; when one broker at a time loses power with all it had not synced, while
    others are cut off, killed and healed at random; then every acknowledged record is read."""

    async def story(stage: Stage) -> None:
        dice = random.Random(seed)
        await stage.create_topic("t", [[1, 2, 3]], configs={MIN_ISR: "2"})
        producer = await stage.producer(delivery_timeout_ms=120_000)
        sent = []
        for number in range(4):
            sent.append(producer.send("t", b"%d" % number))
            victim, other = dice.sample((1, 2, 3), 2)
            stage.cut(victim, other)
            await stage.sleep(dice.choice((0.1, 1.0, 2.0, 4.0)))
            sent.append(producer.send("t", b"%d again" % number))
            lose_power(stage, victim)
            await stage.sleep(dice.choice((0.1, 1.0, 2.5)))
            if dice.random() < 0.5:
                stage.restart(other)
            stage.heal()
            stage.power_on(victim)
            await stage.until(lambda: len(stage.state("t").isr) == 3, "everybody is in sync", 30)
        acknowledged = [(await each).offset for each in sent]
        assert len(await stage.read("t")) == len(acknowledged) == len(dict.fromkeys(acknowledged))

    Stage(seed=seed).play(story)


@staged()
async def test_e_14_what_an_unclean_leader_does_not_have_it_does_not_remember(stage: Stage) -> None:
    """Given a producer whose second batch only 1 and 2 have; when 3 is elected uncleanly; then 3
    knows the producer by its first batch, as its log does, and tells a consumer that has read
    further where the histories part."""
    stage.mute(1, 2, 5, 6, 8)
    await stage.create_topic("t", [[1, 2, 3]], configs={MIN_ISR: "2"})
    await stage.send("t", b"0")
    stage.cut(3, 2)
    await cut_off(stage, 3, b"1")
    ((_, known),) = stage.partition(1, "t").log.producers
    assert known.batches[-1].last_sequence == 1
    stage.kill(1, 2)
    await stage.until(lambda: stage.state("t").leader == NO_LEADER, "nobody leads")
    await elect(stage, "t", ElectionType.UNCLEAN, broker=3)
    await stage.until(lambda: stage.partition(3, "t").leader is not None, "3 leads")
    ((_, known),) = stage.partition(3, "t").log.producers
    assert known.batches[-1].last_sequence == 0
    asked = OffsetForLeaderPartition(partition=0, leader_epoch=0)
    request = OffsetForLeaderEpochRequest(
        topics=[OffsetForLeaderTopic(topic="t", partitions=[asked])]
    )
    answer = (await stage.ask(3, request)).topics[0].partitions[0]
    assert (answer.error_code, answer.end_offset) == (ErrorCode.NONE, 1)
