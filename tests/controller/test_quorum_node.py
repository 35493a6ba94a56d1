"""Single rules of the quorum's state machine that no scenario is about."""

from dataclasses import replace

from minikafka.controller.quorum.effects import Committed, Send
from minikafka.controller.quorum.following import Following
from minikafka.controller.quorum.leading import Leading
from minikafka.controller.quorum.quorum_state import QuorumState
from minikafka.protocol.control import quorum_messages as m
from minikafka.protocol.errors import ErrorCode

from .quorum_lab import CLUSTER, Host, Lab, MemoryLog


def led(voters: int = 3) -> Lab:
    lab = Lab(voters)
    lab.run(1000)
    return lab


def others(lab: Lab) -> list[Host]:
    return [host for host in lab.hosts.values() if host is not lab.leader]


def fetch(lab: Lab, replica: m.VoterKey, **what: object) -> m.FetchQuorumLog:
    asked = m.FetchQuorumLog(
        cluster_id=CLUSTER,
        epoch=lab.leader.state.epoch,
        replica=replica,
        offset=0,
        last_epoch=-1,
        high_watermark=-1,
        max_wait_ms=0,
        max_bytes=1000,
    )
    return replace(asked, **what)  # type: ignore[arg-type]


def answers(lab: Lab, to: Host, request: m.QuorumRequest) -> list[object]:
    """What a request of nobody in particular is answered with at once."""
    ticket = lab.next_ticket()
    lab.asked[ticket] = (to.node_id, -1, to.node_id, request)
    assert to.node is not None
    to.take(to.node.on_request(ticket, request, lab.now_ms))
    found = [what[2] for _, _, what in lab.wire if what[:2] == ("answer", ticket)]
    lab.wire = [each for each in lab.wire if each[2][1] != ticket]
    return found


def test_an_only_voter_leads_at_once() -> None:
    lab = Lab(1)
    assert lab.leader.high_watermark == 1
    assert lab.leader.state == QuorumState(CLUSTER, 1, -1, 1, ((1, b"disk 1"),))


def test_the_first_of_the_voters_leads_and_nobody_else_stood() -> None:
    lab = led()
    assert lab.leaders == {1: 1}


def test_the_first_leader_needs_every_vote_and_later_ones_a_majority() -> None:
    """Two empty disks of three are no majority of anything: the third may have a past."""
    lab = Lab(3)
    lab.hosts[3].crash()
    lab.run(5000)
    assert lab.leaders == {}
    lab.hosts[3].start()
    lab.run(2000)
    leader = lab.leader
    lab.kill(leader.node_id)
    lab.run(2000)
    assert lab.leader is not leader


def test_a_request_of_another_cluster_changes_nothing_and_is_noted_once() -> None:
    lab = led()
    leader = lab.leader
    before = leader.state
    request = fetch(lab, m.VoterKey(2, b"disk 2"), cluster_id="other", epoch=99)
    for _ in range(3):
        (answer,) = answers(lab, leader, request)
        assert isinstance(answer, m.QuorumLogFetched)
        assert (answer.error, answer.epoch) == (ErrorCode.INCONSISTENT_CLUSTER_ID, -1)
    vote = m.Vote("other", 99, m.VoterKey(2), m.VoterKey(1), 99, 99, pre_vote=False)
    (voted,) = answers(lab, leader, vote)
    assert voted.error == ErrorCode.INCONSISTENT_CLUSTER_ID  # type: ignore[attr-defined]
    assert leader.state == before
    assert len(dict.fromkeys(leader.noted)) == 2


def test_who_is_no_voter_gets_no_vote_and_moves_no_epoch() -> None:
    lab = led()
    follower = others(lab)[0]
    key = m.VoterKey(follower.node_id)
    vote = m.Vote(CLUSTER, 99, m.VoterKey(77, b"x"), key, 99, 99, pre_vote=False)
    (answer,) = answers(lab, follower, vote)
    assert answer.error == ErrorCode.INCONSISTENT_VOTER_SET  # type: ignore[attr-defined]
    assert follower.state.epoch == 1


def test_an_old_epoch_is_fenced_and_a_new_one_unknown() -> None:
    lab = led()
    leader = lab.leader
    for epoch, error in ((0, ErrorCode.FENCED_LEADER_EPOCH), (9, ErrorCode.UNKNOWN_LEADER_EPOCH)):
        (answer,) = answers(lab, leader, fetch(lab, m.VoterKey(2, b"disk 2"), epoch=epoch))
        assert answer.error == error  # type: ignore[attr-defined]
    assert leader.is_leader


def test_who_has_another_disk_follows_and_is_not_counted() -> None:
    lab = led()
    leader = lab.leader
    lab.cut = lambda source, target: True
    assert leader.append("nobody has it")
    request = fetch(lab, m.VoterKey(2, b"new disk"), offset=2, last_epoch=1)
    answers(lab, leader, request)
    role = leader.node.standing.role if leader.node is not None else None
    assert isinstance(role, Leading)
    assert role.followers[2].end_offset == 1
    assert leader.high_watermark == 1
    assert any("not known by" in text for text in leader.noted)
    lab.hosts[2].log.entries[:] = leader.log.entries
    lab.hosts[2].log.stable_offset = 2
    answers(lab, leader, replace(request, replica=m.VoterKey(2, b"disk 2")))
    assert leader.high_watermark == 2


def test_a_voter_that_lost_its_log_votes_only_for_who_has_it() -> None:
    """Its state says how far the log reached that others have counted on."""
    lab = led()
    for number in range(5):
        assert lab.leader.append(f"v{number}")
        lab.run(100)
    loser, other = others(lab)
    end = loser.log.end
    loser.crash()
    loser.log = MemoryLog()
    loser.state = replace(loser.state, recover_to=(end.epoch, end.offset))
    lab.cut = lambda source, target: loser.node_id in (source, target)
    loser.start()
    assert loser.node is not None
    key = m.VoterKey(loser.node_id, loser.directory_id)
    candidate = m.VoterKey(other.node_id, other.directory_id)
    granted = []
    for epoch, offset in ((8, end.offset - 1), (9, end.offset)):
        vote = m.Vote(CLUSTER, epoch, candidate, key, end.epoch, offset, pre_vote=False)
        (answer,) = answers(lab, loser, vote)
        granted.append(answer.is_granted)  # type: ignore[attr-defined]
    assert granted == [False, True]
    may_stand = [loser.node.standing.may_stand]
    lab.cut = lambda source, target: False
    lab.run(3000)
    assert loser.log.entries == lab.leader.log.entries
    assert loser.state.recover_to is None
    may_stand.append(loser.node.standing.may_stand)
    assert may_stand == [False, True]
    role = loser.node.standing.role
    assert isinstance(role, Following)
    assert role.may_count


def test_a_leader_that_leaves_hands_over_to_the_longest_log_at_once() -> None:
    lab = led()
    leader = lab.leader
    slow, quick = others(lab)
    lab.cut = lambda source, target: slow.node_id in (source, target)
    assert leader.append("the quick one has it")
    lab.run(100)
    lab.cut = lambda source, target: False
    assert leader.node is not None
    leader.take(leader.node.on_leaving(lab.now_ms))
    at_ms = lab.now_ms
    lab.settle()
    assert lab.leader is quick
    assert lab.now_ms == at_ms
    assert not leader.node.standing.may_stand


def test_the_last_contact_with_a_majority_is_when_it_was_asked_not_when_it_answered() -> None:
    lab = led()
    leader = lab.leader
    node = leader.node
    assert node is not None
    assert isinstance(node.standing.role, Leading)
    lab.run(1000)
    known_ms = node.majority_contact_ms(lab.now_ms)
    assert 0 < known_ms <= lab.now_ms
    lab.cut = lambda source, target: leader.node_id in (source, target)
    lab.run(400)
    assert node.majority_contact_ms(lab.now_ms) <= known_ms + 200
    lab.run(2000)
    assert node.majority_contact_ms(lab.now_ms) == -1


def test_a_process_that_stood_still_blames_nobody() -> None:
    lab = led()
    leader = lab.leader
    lab.now_ms += 5000
    for host in lab.hosts.values():
        assert host.node is not None
        host.take(host.node.on_deadline(lab.now_ms))
    lab.run(1000)
    assert lab.leader is leader
    assert lab.leaders == {1: leader.node_id}


def test_a_follower_calls_nothing_committed_that_the_leader_has_not_found_in_its_log() -> None:
    """What it holds beyond its fetch may be an older leader's, committed there or not."""
    lab = led()
    (host, *_) = others(lab)
    assert host.node is not None
    role = host.node.standing.role
    assert isinstance(role, Following)
    assert isinstance(role.log, MemoryLog)
    role.log.entries += [(role.epoch, "written, not yet stable")] * 3
    (asked,) = [each.request for each in role.fetch() if isinstance(each, Send)]
    assert isinstance(asked, m.FetchQuorumLog)
    role.high_watermark = asked.offset - 1
    answer = m.QuorumLogFetched(0, high_watermark=asked.offset + 5, records=b"more")
    effects = role.on_fetched(asked, answer, lab.now_ms)
    assert [each for each in effects if isinstance(each, Committed)] == [Committed(asked.offset)]
    assert role.high_watermark == asked.offset
