"""Scenarios A: the controllers' quorum, and what its state machine must never do.

Played on the pure machine (`Lab`: voters without disks, networks and clocks) where one rule is in
question, and with real controllers, brokers and clients on the simulated loop otherwise.
"""

import pytest

from minikafka.controller.metadata.decision import Cluster, Decision
from minikafka.controller.quorum.leading import Leading
from minikafka.controller.quorum.voters import QuorumSettings
from minikafka.protocol.control import quorum_messages as m
from minikafka.protocol.control.records import (
    BROKER,
    ConfigRecord,
    PartitionChangeRecord,
)
from minikafka.protocol.errors import ApiError, ErrorCode
from minikafka.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)

from ..controller.quorum_lab import CLUSTER, Host, Lab
from ..simulation.stage import Stage, staged
from ..simulation.world import Violation

CONTROLLERS = ("controller-1", "controller-2", "controller-3")
DEFAULTS = QuorumSettings(me=m.VoterKey(1), voters=(1, 2, 3))


def put(key: str) -> Decision[str]:
    """Any decision that writes something."""
    return Decision(key, (ConfigRecord(BROKER, "9", key, "x"),))


def found(cluster: Cluster) -> Decision[list[str]]:
    """A decision that only looks: the keys that `put` has put."""
    return Decision(list(cluster.image.configs.get((BROKER, "9"), {})))


def others(name: str) -> list[str]:
    return [each for each in CONTROLLERS if each != name]


def led(seed: int = 0, voters: int = 3) -> Lab:
    """Voters, one of which leads, and a record that everybody has."""
    lab = Lab(voters, seed)
    lab.run(1000)
    assert lab.leader.append("first")
    lab.run(500)
    assert {host.high_watermark for host in lab.hosts.values()} == {2}
    return lab


def followers(lab: Lab) -> list[Host]:
    leader = lab.leader
    return [host for host in lab.hosts.values() if host is not leader]


def vote(candidate: Host, voter: Host, epoch: int, *, end: tuple[int, int] = (9, 99)) -> m.Vote:
    last_epoch, end_offset = end
    return m.Vote(
        cluster_id=CLUSTER,
        epoch=epoch,
        candidate=m.VoterKey(candidate.node_id, candidate.directory_id),
        voter=m.VoterKey(voter.node_id, b"disk %d" % voter.node_id),
        last_epoch=last_epoch,
        end_offset=end_offset,
        pre_vote=False,
    )


def ask(lab: Lab, asker: Host, asked: Host, request: m.QuorumRequest) -> object:
    """The answer to one request, with nothing else going on."""
    ticket = lab.next_ticket()
    lab.asked[ticket] = (asker.node_id, -1, asked.node_id, request)
    assert asked.node is not None
    asked.take(asked.node.on_request(ticket, request, lab.now_ms))
    (answer,) = (what[2] for _, _, what in lab.wire if what[:2] == ("answer", ticket))
    lab.wire = [each for each in lab.wire if each[2][1] != ticket]
    return answer


@staged(controllers=3)
async def test_a_01_a_controller_killed_while_it_creates_a_topic_contradicts_nobody(
    stage: Stage,
) -> None:
    """Given three controllers and ten topics; when the active one is killed in the middle of an
    eleventh; then another is active with the ten, and the eleventh is there if and only if its
    creation was answered so, or was never answered."""
    for number in range(10):
        await stage.create_topic(f"t{number}", [[1, 2, 3]])
    first = stage.active_name()
    assert first is not None
    creation = stage.world.loop.create_task(stage.create_topic("eleventh", [[1, 2, 3]]))
    await stage.sleep(0.002)
    stage.kill(first)
    await stage.until(lambda: stage.active_name() not in (None, first), "another one", 1)
    names = list(stage.image().topic_ids)
    assert names[:10] == [f"t{number}" for number in range(10)]
    await creation
    assert "eleventh" in stage.image().topic_ids
    stage.start(first)
    await stage.ready(first)


@staged(controllers=3)
async def test_a_02_a_controller_without_its_peers_answers_nothing_and_resigns(
    stage: Stage,
) -> None:
    """Given an active controller cut off from both others; when it decides; then neither a write
    nor a look at it is answered with success, and it resigns after 1.5 x the fetch timeout."""
    name = stage.active_name()
    assert name is not None
    controller = stage.controller(name)
    stage.cut(name, *others(name))
    cut_at = stage.now
    written, seen = controller.submit(put("lost")), controller.submit(found(controller.cluster))
    await stage.until(lambda: written.done() and seen.done(), "it has resigned", 2)
    assert stage.now - cut_at < DEFAULTS.resign_ms / 1000 + 0.3
    for future in (written, seen):
        error = future.exception()
        assert isinstance(error, ApiError)
        assert error.code is ErrorCode.NOT_CONTROLLER
    with pytest.raises(ApiError):
        controller.check_active()


@staged(controllers=3)
async def test_a_03_what_a_cut_off_controller_wrote_is_cut_and_forgotten(stage: Stage) -> None:
    """Given the same; when the cut is healed; then its uncommitted records are gone from its log
    and its image is the one that the committed log gives."""
    name = stage.active_name()
    assert name is not None
    controller = stage.controller(name)
    stage.cut(name, *others(name))
    lost = controller.submit(put("lost"))
    await stage.until(lambda: stage.active_name() not in (None, name), "another one leads", 3)
    await stage.until(lost.done, "it has resigned", 3)
    assert isinstance(lost.exception(), ApiError)
    await stage.controller().decide(lambda cluster: put("kept"))
    end_offset = controller.quorum.log_end_offset
    stage.heal()
    new = stage.controller()
    await stage.until(lambda: controller.committed.offset == new.committed.offset, "it is back")
    assert controller.committed == new.committed
    assert list(controller.committed.configs[BROKER, "9"]) == ["kept"]
    assert end_offset > 0
    assert any("cutting the metadata log" in line for line in stage.logs(name))


def test_a_04_records_of_an_older_epoch_are_committed_only_by_one_of_the_present_one() -> None:
    """Given a new leader with a majority on records of an old epoch and none of its own; then the
    high watermark stays until a record of its own is on a majority (Raft, figure 8)."""
    lab = led()
    old, heir = lab.leader, followers(lab)[0]
    lab.cut = lambda source, target: old.node_id in (source, target)
    assert old.append("nobody has it")
    # The heir has it too, without the leader knowing, and is elected.
    heir.log.entries.append(old.log.entries[-1])
    heir.log.stable_offset += 1
    old.crash()
    third = next(host for host in lab.hosts.values() if host not in (old, heir))
    third.flushes = False
    lab.run(2000)
    assert heir.is_leader
    assert [value for _, value in heir.log.entries[2:]] == ["nobody has it", "elected 2"]
    # The third has both, and the older one on stable storage.
    assert len(third.log.entries) == 4
    third.log.stable_offset = 3
    lab.run(400)
    role = heir.node.standing.role if heir.node is not None else None
    assert isinstance(role, Leading)
    assert role.followers[third.node_id].end_offset == 3
    assert heir.high_watermark == 2
    third.flush()
    lab.run(400)
    assert heir.high_watermark == 4


def test_a_05_a_vote_is_remembered_over_a_crash() -> None:
    """Given a voter that has voted in epoch 7; when it crashes right after the answer and comes
    back; then it refuses any other candidate of epoch 7, and the first gets its vote again."""
    lab = led()
    one, two, voter = lab.hosts[1], lab.hosts[2], lab.hosts[3]
    answer = ask(lab, one, voter, vote(one, voter, 7))
    assert isinstance(answer, m.VoteAnswer)
    assert answer.is_granted
    voter.crash()
    voter.start()
    assert not ask(lab, two, voter, vote(two, voter, 7)).is_granted  # type: ignore[attr-defined]
    assert ask(lab, one, voter, vote(one, voter, 7)).is_granted  # type: ignore[attr-defined]


def test_a_06_a_voter_on_a_new_disk_is_not_the_voter_that_is_asked() -> None:
    """Given a voter whose disk was replaced; when a candidate asks for the vote of the one it
    knows; then it is refused with INVALID_VOTER_KEY, and so is the new one as a candidate."""
    lab = led()
    one, voter = lab.hosts[1], lab.hosts[3]
    voter.wipe()
    voter.start()
    answer = ask(lab, one, voter, vote(one, voter, 7))
    assert isinstance(answer, m.VoteAnswer)
    assert answer.error == ErrorCode.INVALID_VOTER_KEY
    assert not answer.is_granted
    assert voter.state.epoch < 7
    epoch = one.state.epoch
    stranger = ask(lab, voter, one, vote(voter, one, 7))
    assert isinstance(stranger, m.VoteAnswer)
    assert stranger.error == ErrorCode.INVALID_VOTER_KEY
    assert one.state.epoch == epoch
    assert any("another disk" in text for text in one.noted)


def test_a_07_what_the_leader_has_not_flushed_is_neither_counted_nor_given_out() -> None:
    """Given a leader with records that are not on stable storage; when its followers fetch and its
    power fails; then none of them has a record of it, and what is committed survives."""
    lab = led()
    leader = lab.leader
    leader.flushes = False
    assert leader.append("unflushed")
    lab.run(300)
    assert [len(host.log.entries) for host in followers(lab)] == [2, 2]
    assert leader.high_watermark == 2
    lab.rng.seed(1)
    lab.kill(leader.node_id)
    lab.run(1000)
    new = lab.leader
    assert new is not leader
    leader.flushes = True
    leader.start()
    lab.run(2000)
    assert leader.log.entries == new.log.entries
    assert new.high_watermark == len(new.log.entries) == 3


def test_a_08_a_follower_told_to_cut_what_is_committed_ends_instead() -> None:
    """Given a follower whose log parts from the leader's below its high watermark; then it stops
    for good and cuts nothing: one of the two disks is damaged."""
    lab = led()
    follower = followers(lab)[0]
    log_before = list(follower.log.entries)
    assert follower.node is not None
    leader = lab.leader
    leader.log.entries[1] = (0, "damaged")
    leader.log.entries[0] = (0, "damaged")
    role = follower.node.standing.role
    role.fetch()  # type: ignore[union-attr]
    request = role._asked  # type: ignore[union-attr]
    end = m.EpochEnd(0, 1)
    answer = m.QuorumLogFetched(
        0,
        epoch=follower.node.standing.epoch,
        leader_id=leader.node_id,
        high_watermark=2,
        diverging=end,
    )
    node = follower.node
    lab.check = lambda: None  # type: ignore[method-assign]
    follower.take(node.on_answered(leader.node_id, request, answer, lab.now_ms))
    assert follower.failed is not None
    assert "committed" in follower.failed
    assert follower.log.entries == log_before


def test_a_09_a_voter_that_was_cut_off_deposes_nobody() -> None:
    """Given a voter that times out again and again on its own; when it is back; then the leader
    leads on in its epoch: a pre-vote begins no epoch."""
    lab = led()
    leader, lonely = lab.leader, followers(lab)[0]
    epoch = leader.state.epoch
    lab.cut = lambda source, target: lonely.node_id in (source, target)
    lab.run(10_000)
    assert lonely.role in ("Prospective", "Unattached")
    lab.cut = lambda source, target: False
    lab.run(3000)
    assert lab.leader is leader
    assert {host.state.epoch for host in lab.hosts.values()} == {epoch}
    assert lonely.role == "Following"


@staged(controllers=3)
async def test_a_10_a_leader_that_hears_and_cannot_speak_is_replaced(stage: Stage) -> None:
    """Given a leader whose messages to both others are lost; then a new one leads within a fetch
    timeout and two election timeouts, and the old one has resigned."""
    name = stage.active_name()
    assert name is not None
    old = stage.controller(name)
    for other in others(name):
        stage.block(name, other)
    blocked_at = stage.now
    within = (DEFAULTS.fetch_timeout_ms + 2 * DEFAULTS.election_timeout_ms) / 1000
    await stage.until(lambda: stage.active_name() not in (None, name), "a new leader", within)
    await stage.until(lambda: not old.is_active, "the old one knows", 1)
    assert stage.now - blocked_at < within + 0.5
    stage.heal()


def test_a_11_leaders_cut_off_one_after_the_other_leave_one_that_leads() -> None:
    """Given a leader that is cut off, and its successor as soon as it is elected while the first
    returns; and so on; then there is progress as soon as that stops."""
    for seed in range(4):
        lab = led(seed)
        for _ in range(6):
            victim = lab.leader
            lab.cut = lambda source, target, cut=victim.node_id: cut in (source, target)  # type: ignore[misc]
            for _ in range(200):
                lab.run(20)
                if lab.leader is not victim:
                    break
            assert lab.leader is not victim
        lab.cut = lambda source, target: False
        lab.run(2000)
        assert lab.leader.append("after all")
        lab.run(1000)
        assert lab.committed[-1][1] == "after all"
        assert all(host.log.entries == lab.committed for host in lab.hosts.values())


def test_a_12_a_voter_that_lost_everything_costs_no_committed_record() -> None:
    """Given a record that only the leader and one follower have; when that follower loses its disk
    and the leader is gone; then the two that are left elect nobody who lacks the record."""
    for seed in range(4):
        lab = led(seed)
        leader = lab.leader
        loser, lacking = followers(lab)
        lab.cut = lambda source, target, cut=lacking.node_id: cut in (source, target)  # type: ignore[misc]
        assert leader.append("on two of three")
        lab.run(400)
        assert leader.high_watermark == 3
        lab.kill(leader.node_id)
        loser.wipe()
        loser.start()
        lab.cut = lambda source, target: False
        lab.run(10_000)
        assert not any(host.is_leader for host in (loser, lacking))
        leader.start()
        lab.run(5000)
        assert "on two of three" in [value for _, value in lab.leader.log.entries]
        assert loser.log.entries == lab.leader.log.entries


def test_a_13_a_standby_that_cannot_apply_a_record_ends() -> None:
    """Given a committed record that a standby cannot apply; then its process ends, and does not go
    on without it."""

    async def story(stage: Stage) -> None:
        unknown = PartitionChangeRecord(b"no such topic..?", 0, leader=1)
        await stage.until(stage.active_name, "a controller is active")
        stage.controller().quorum.append([unknown])
        await stage.sleep(5)

    with pytest.raises(Violation, match=r"controller-[123]: task metadata replay failed"):
        Stage(brokers=0, controllers=3).play(story)


@staged(controllers=3)
async def test_a_14_who_only_looks_waits_for_what_he_saw(stage: Stage) -> None:
    """Given a decision that is not committed yet; when another one looks at its result; then that
    is answered after the first is committed, and not before."""
    name = stage.active_name()
    assert name is not None
    controller = stage.controller(name)
    for other in others(name):
        stage.delay(other, name, 0.1)
    written = controller.submit(put("a"))
    seen = controller.submit(found(controller.cluster))
    order: list[str] = []
    written.add_done_callback(lambda done: order.append("written"))
    seen.add_done_callback(lambda done: order.append("seen"))
    await stage.sleep(0.05)
    assert order == []
    await stage.until(seen.done, "answered", 3)
    assert order == ["written", "seen"]
    assert seen.result() == ["a"]


def test_a_15_a_snapshot_and_a_change_of_leader() -> None:
    """Given a voter that is away while the others keep snapshots and change their leader; when it
    is back; then it loads the snapshot as a follower, and its id is the epoch that the log has
    there. A leader never loads one (the lab asserts it)."""
    lab = led()
    away = followers(lab)[0]
    away.crash()
    for number in range(5):
        assert lab.leader.append(f"v{number}")
        lab.run(200)
    first = lab.leader
    first.log.take_snapshot(first.high_watermark)
    heir = next(host for host in followers(lab) if host is not away)
    heir.log.take_snapshot(heir.high_watermark)
    assert first.node is not None
    first.take(first.node.on_leaving(lab.now_ms))
    lab.run(500)
    assert lab.leader is heir
    away.start()
    lab.run(2000)
    snapshot = away.log.snapshot
    assert snapshot is not None
    assert away.log.start_offset == snapshot.end_offset
    assert away.log.entries[snapshot.end_offset - 1][0] == snapshot.epoch
    assert away.log.entries == heir.log.entries


@staged()
async def test_a_16_a_broker_far_behind_on_metadata_is_refused_not_believed(stage: Stage) -> None:
    """Given a leader that has heard nothing from the controller for 30 s; when others ask it under
    the epoch that is now; then it says UNKNOWN_LEADER_EPOCH, nothing that it is sent with acks=all
    is acknowledged, and afterwards the logs agree."""
    await stage.create_topic("t", [[1, 2, 3]], configs={"min.insync.replicas": "2"})
    await stage.send("t", b"before")
    stage.cut(1, "controller-1")
    await stage.until(lambda: stage.state("t").leader != 1, "it is replaced", 10)
    await stage.sleep(30)
    state = stage.state("t")
    asked = ListOffsetsPartition(
        partition_index=0, current_leader_epoch=state.leader_epoch, timestamp=-1
    )
    topic = ListOffsetsTopic(name="t", partitions=[asked])
    response = await stage.ask(1, ListOffsetsRequest(replica_id=-1, topics=[topic]))
    error = response.topics[0].partitions[0].error_code
    assert error in (ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    await stage.send("t", b"after")
    stage.heal()
    await stage.until(lambda: 1 in stage.state("t").isr, "it is in sync again", 20)
    assert await stage.read("t") == [b"before", b"after"]
    assert len({tuple(stage.log(each, "t")) for each in (1, 2, 3)}) == 1


@staged()
async def test_a_17_heartbeats_that_grew_old_in_the_queue_fence_nobody(stage: Stage) -> None:
    """Given a controller that stands still for longer than the session; when it goes on, and finds
    every heartbeat too old; then no broker is fenced: it was itself that was away."""
    await stage.create_topic("t", [[1, 2, 3]])
    epoch = stage.state("t").leader_epoch
    stage.pause("controller-1")
    await stage.sleep(5)
    stage.resume("controller-1")
    await stage.sleep(5)
    assert not any(stage.is_fenced(broker_id) for broker_id in (1, 2, 3))
    assert not any("fencing broker" in line for line in stage.logs())
    assert stage.state("t").leader_epoch == epoch


@staged(controllers=3)
async def test_a_18_a_broker_always_one_record_behind_is_unfenced(stage: Stage) -> None:
    """Given a metadata log that grows all the time; when a broker starts and every heartbeat of its
    names an offset that is already old; then it is unfenced nevertheless."""
    stage.kill(3)
    await stage.until(lambda: stage.is_fenced(3), "it is missed", 10)
    stage.start(3)
    number = 0

    async def is_unfenced() -> bool:
        nonlocal number
        number += 1
        await stage.controller().decide(lambda cluster: put(f"k{number % 10}"))
        return not stage.is_fenced(3)

    started_at = stage.now
    while not await is_unfenced():
        assert stage.now - started_at < 10
    assert number > 2
