"""Scenarios D: how brokers come, are fenced, and go; what the controller decides.

Crashes, pauses, clocks and disks are in test_d_failures.py.
"""

from minikafka.controller.metadata.longest_logs import LongestLogs
from minikafka.controller.metadata.partitions import alter_partitions
from minikafka.controller.metadata.sweeps import lost_replicas
from minikafka.protocol.control.messages import AlterPartitions, OfflinePartitions
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.types import NO_LEADER

from ..controller.machine import Machine, error
from ..simulation.stage import Stage, staged
from .eligible import MIN_ISR


@staged()
async def test_d_03_a_stop_waits_for_brokers_that_are_behind_on_metadata(stage: Stage) -> None:
    """Given broker 1 on its way out and 3 that hears nothing of the controller; then 1 goes on
    waiting: 3 would look for its leader in vain. It goes once 3 knows who leads instead."""
    await stage.create_topic("t", [[1, 2, 3]], configs={MIN_ISR: "2"})
    stage.block("controller-1", 3)
    stage.terminate(1)
    await stage.until(lambda: stage.state("t").leader == 2, "the leader has moved")
    await stage.sleep(0.7)
    assert stage.daemon(1).alive
    stage.unblock("controller-1", 3)
    await stage.until(lambda: not stage.daemon(1).alive, "1 has gone", 5)
    assert stage.partition(3, "t").metadata.leader == 2
    assert not stage.is_fenced(3)


def test_d_03_whoever_becomes_the_controller_waits_too() -> None:
    """Given the same by itself: the offset that all must have applied is that of the last move."""
    machine = Machine(brokers_up=3, elr=True, min_isr=2)
    machine.create("t", replicas=[(1, 2, 3)])
    assert not machine.beat(1, want_shutdown=True, applied_by_others=0).should_shut_down
    moved_at = machine.shutdown_offsets[1]
    behind = machine.beat(1, want_shutdown=True, applied_by_others=moved_at - 1)
    assert not behind.should_shut_down
    assert machine.beat(1, want_shutdown=True, applied_by_others=moved_at).should_shut_down


@staged()
async def test_d_04_the_only_replica_may_stop_and_leads_when_it_is_back(stage: Stage) -> None:
    """Given a topic on broker 1 alone; when 1 stops; then it may, the topic has no leader, and has
    1 again with everything once it is back. It stopped in order: nothing was unclean."""
    await stage.create_topic("t", [[1]], configs={MIN_ISR: "1"})
    await stage.send("t", b"0")
    before = stage.now
    await stage.stop(1)
    assert stage.now - before < 1, "nobody could take over, so nobody was waited for"
    state = stage.state("t")
    assert (state.leader, state.isr, state.elr) == (NO_LEADER, (), (1,))
    stage.start(1)
    await stage.until(lambda: stage.state("t").leader == 1, "1 leads again")
    assert stage.state("t").unclean_epoch == -1
    assert await stage.read("t") == [b"0"]


@staged()
async def test_d_04_who_is_alone_in_sync_leads_until_another_has_caught_up(stage: Stage) -> None:
    """Given leader 1 alone in sync, the others on their way; when 1 is to stop; then it leads until
    one of them is in sync: no write fails for want of a leader."""
    await stage.create_topic("t", [[1, 2, 3]], configs={MIN_ISR: "1"})
    stage.cut(1, 2)
    stage.cut(1, 3)
    await stage.send("t", b"0")
    assert stage.state("t").isr == (1,)
    stage.terminate(1)
    await stage.sleep(1)
    assert stage.state("t").leader == 1
    assert stage.daemon(1).alive
    stage.heal()
    await stage.until(lambda: not stage.daemon(1).alive, "1 has gone", 4)
    assert stage.state("t").leader in (2, 3)
    assert stage.state("t").unclean_epoch == -1
    assert await stage.read("t") == [b"0"]


@staged()
async def test_d_04_it_is_not_waited_for_longer_than_five_seconds(stage: Stage) -> None:
    """Given the same and no way between them; then 1 goes in the end, and may lead again."""
    await stage.create_topic("t", [[1, 2, 3]], configs={MIN_ISR: "1"})
    stage.cut(1, 2)
    stage.cut(1, 3)
    await stage.send("t", b"0")
    before = stage.now
    await stage.stop(1)
    assert 4.5 < stage.now - before < 8
    assert (stage.state("t").leader, stage.state("t").elr) == (NO_LEADER, (1,))
    stage.heal()
    stage.start(1)
    await stage.until(lambda: len(stage.state("t").isr) == 3, "everybody is in sync")
    assert await stage.read("t") == [b"0"]


def test_d_05_of_two_processes_with_one_id_the_first_is_fenced_everywhere() -> None:
    """Given a second process with the id of a live one; then it is refused while that lives, and
    accepted after; and then whatever the first one asks is refused by its epoch."""
    machine = Machine(brokers_up=2, elr=True)
    machine.create("t", replicas=[(1, 2)])
    first = machine.broker(1).broker_epoch
    refused = machine.register(1, incarnation=2, directories=[5])
    assert error(refused) == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    machine.fence(1)
    machine.come_up(1, incarnation=2, directories=[5])
    stale = ErrorCode.STALE_BROKER_EPOCH
    assert error(machine.beat(1, epoch=first)) == stale
    assert error(alter_partitions(machine.cluster, AlterPartitions(1, first, ())).answer) == stale
    assert error(lost_replicas(machine.cluster, OfflinePartitions(1, first, ())).answer) == stale


def test_d_06_a_registration_whose_answer_was_lost_is_the_same_one() -> None:
    """Given a registration, its answer lost; when the same start registers again; then it gets the
    same epoch, and nothing is written."""
    machine = Machine(brokers_up=1, elr=True)
    machine.create("t", replicas=[(1,)])
    before, length = machine.broker(1), len(machine.log)
    answer = machine.register(1)
    assert answer.broker_epoch == before.broker_epoch
    assert len(machine.log) == length
    assert machine.state("t").leader == 1, "it was no restart"


def test_d_07_no_broker_is_unfenced_before_it_knows_of_its_own_registration() -> None:
    """Given a broker that has applied everything before its registration; then it stays fenced."""
    machine = Machine()
    machine.register(1)
    epoch = machine.broker(1).broker_epoch
    for offset in (-1, epoch - 1):
        answer = machine.beat(1, metadata_offset=offset)
        assert (answer.is_fenced, answer.is_caught_up) == (True, False)
    assert not machine.beat(1, metadata_offset=epoch).is_fenced


@staged()
async def test_d_08_nobody_is_fenced_because_the_controller_was_away(stage: Stage) -> None:
    """Given brokers without a controller for 30 s; when it is back; then nobody is fenced and no
    leader moves: everybody has a session to show itself."""
    await stage.create_topic("t", [[1, 2, 3]], configs={MIN_ISR: "2"})
    await stage.send("t", b"0")
    stage.kill("controller-1")
    await stage.sleep(30)
    await stage.send("t", b"1")
    stage.start("controller-1")
    await stage.ready("controller-1")
    await stage.sleep(5)
    state = stage.state("t")
    assert (state.leader, state.leader_epoch, len(state.isr)) == (1, 0, 3)
    assert not any("is fenced" in line for line in stage.logs("controller-1"))


@staged(controllers=3)
async def test_d_08_nor_by_another_controller_in_a_network_that_was_down(stage: Stage) -> None:
    """Given the same by a network that is down; then no broker is fenced for that on either."""
    await stage.create_topic("t", [[1, 2, 3]], configs={MIN_ISR: "2"})
    active = stage.active_name()
    assert active is not None
    stage.kill(active)
    await stage.until(lambda: stage.active_name() not in (None, active), "another is active")
    await stage.sleep(3)
    assert not any(stage.is_fenced(each) for each in (1, 2, 3))
    assert stage.state("t").leader_epoch == 0


@staged(controllers=3)
async def test_a_broker_that_died_with_the_controller_is_replaced_at_once(stage: Stage) -> None:
    """Nobody waits a session for it: its listener refuses, which is all there is to know."""
    await stage.create_topic("t", [[1, 2, 3]], configs={MIN_ISR: "2"})
    active = stage.active_name()
    assert active is not None
    stage.kill(active, 1)
    before = stage.now
    await stage.until(lambda: stage.active_name() not in (None, active), "another is active")
    await stage.until(lambda: stage.state("t").leader == 2, "2 leads")
    assert stage.now - before < 1.5


def test_a_lost_disk_takes_its_replicas_and_nothing_else() -> None:
    """Replicas of a failed directory are in no ISR, whoever asks, until their broker restarts."""
    machine = Machine(brokers_up=3, elr=True, min_isr=2)
    machine.create("t", replicas=[(1, 2, 3), (1, 2, 3)])
    assert error(machine.lose_directory(1, ("t", 0))) == 0
    lost, kept = machine.states("t")
    assert (lost.leader, lost.isr, lost.offline) == (2, (2, 3), (1,))
    assert (kept.leader, kept.isr, kept.offline) == (1, (1, 2, 3), ())
    assert not machine.broker(1).fenced
    assert error(machine.alter("t", [2, 3, 1])) == ErrorCode.INELIGIBLE_REPLICA
    before = len(machine.log)
    machine.lose_directory(1, ("t", 0))
    assert len(machine.log) == before, "it says so until it is heard"
    machine.come_up(1, incarnation=2)
    assert machine.state("t").offline == ()
    assert error(machine.alter("t", [2, 3, 1])) == 0


def test_the_only_replica_on_a_lost_disk_leads_nothing() -> None:
    machine = Machine(brokers_up=2, elr=True)
    machine.create("t", replicas=[(1,)])
    machine.lose_directory(1, ("t", 0))
    state = machine.state("t")
    assert (state.leader, state.isr, state.elr, state.last_known_elr) == (NO_LEADER, (), (), (1,))
    assert not state.electing
    logs = LongestLogs()
    logs.restart(machine.image, 0)
    assert logs.next_deadline_ms(0) is None
    machine.come_up(1, incarnation=2)
    assert machine.state("t").leader == 1
