"""A member as a table of what happened and what it does: no loop, no clock, no coordinator."""

import pytest

from minikafka.client.consumer.membership import (
    Change,
    Heartbeat,
    Join,
    Joined,
    Leave,
    Membership,
    Stage,
    Sync,
    Terms,
    Wait,
)
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.types import TopicPartition

A, B, C = (TopicPartition("t", index) for index in range(3))
OTHER = TopicPartition("s", 0)


def cooperative(**terms: object) -> Membership:
    return made(is_cooperative=True, **terms)


def eager(**terms: object) -> Membership:
    return made(is_cooperative=False, **terms)


def made(**terms: object) -> Membership:
    defaults = {"heartbeat_interval_ms": 100, "max_poll_interval_ms": 1000}
    member = Membership(Terms(**{**defaults, **terms}))  # type: ignore[arg-type]
    member.on_topics(["t"], "subscribed")
    return member


def join(member: Membership, generation: int, *given: TopicPartition, now_ms: int = 0) -> None:
    """Through JoinGroup and SyncGroup up to the assignment."""
    assert isinstance(member.next_step(now_ms), Join)
    joined = Joined("m", generation, "cooperative-sticky", is_leader=False)
    member.on_joined(joined, now_ms)
    assert member.next_step(now_ms) == Sync(joined)
    member.on_synced(given, now_ms)


def take(member: Membership) -> Change:
    """What the user's poll does."""
    change = member.pending()
    assert change is not None
    for partitions in (change.lost, change.revoked):
        if partitions:
            member.on_given_up(partitions)
    if change.target is not None:
        assert member.on_taken(change) is not None
    return change


def stable(member: Membership, *given: TopicPartition) -> Membership:
    member.on_poll_begun(0)
    join(member, 1, *given)
    assert take(member) == Change(target=given)
    member.on_poll_ended(0)
    assert member.stage is Stage.STABLE
    return member


def test_nothing_is_sent_before_the_first_poll() -> None:
    member = cooperative()
    assert member.next_step(0) == Wait(None)
    member.on_poll_begun(5)
    assert member.next_step(5) == Join("", -1, "first poll")


def test_a_new_member_is_named_by_the_coordinator_and_joins_under_that_name() -> None:
    member = cooperative()
    member.on_poll_begun(0)
    member.on_member_id("m")
    assert member.next_step(0) == Join("m", -1, "first poll")
    join(member, 3, A, B)
    assert member.owned == {}, "not the user's before his poll carries it out"
    assert take(member) == Change(target=(A, B))
    assert list(member.owned) == [A, B]
    assert (member.generation, member.last_owned, member.last_generation) == (3, (A, B), 3)


def test_heartbeats_go_on_whatever_the_user_does() -> None:
    member = stable(cooperative(), A)
    assert member.next_step(50) == Wait(100)
    assert member.next_step(100) == Heartbeat("m", 1)
    member.on_alive(103)
    assert member.next_step(110) == Wait(203)
    member.on_refused(Heartbeat("m", 1), ErrorCode.REBALANCE_IN_PROGRESS)
    assert member.stage is Stage.PREPARING


def test_an_eager_member_gives_up_everything_before_it_joins() -> None:
    member = stable(eager(), A, B)
    member.on_refused(Heartbeat("m", 1), ErrorCode.REBALANCE_IN_PROGRESS)
    assert member.next_step(50) == Wait(100), "it waits for the user, and stays alive meanwhile"
    assert member.next_step(100) == Heartbeat("m", 1)
    assert take(member) == Change(revoked=(A, B))
    assert member.owned == {}
    assert member.last_owned == (A, B), "a sticky assignor hears of it"
    join(member, 2, B)
    assert take(member) == Change(target=(B,))


def test_a_cooperative_member_reads_on_and_gives_up_only_what_moves() -> None:
    member = stable(cooperative(), A, B)
    member.on_refused(Heartbeat("m", 1), ErrorCode.REBALANCE_IN_PROGRESS)
    assert member.pending() is None
    join(member, 2, B)
    assert list(member.owned) == [A, B]
    assert take(member) == Change(revoked=(A,), target=(B,))
    assert list(member.owned) == [B]
    step = member.next_step(0)
    assert step == Join("m", 2, "1 partitions were given up"), "so that another may have it"
    join(member, 3, B)
    assert take(member) == Change(target=(B,))
    assert member.stage is Stage.STABLE


def test_what_is_no_longer_wanted_is_given_up_before_joining() -> None:
    member = cooperative()
    member.on_topics(["s", "t"], "more")
    stable(member, A, OTHER)
    member.on_topics(["s"], "the subscription changed")
    assert member.pending() == Change(revoked=(A,))
    assert isinstance(member.next_step(0), Wait)
    take(member)
    assert member.next_step(0) == Join("m", 1, "the subscription changed")


def test_a_rebalance_that_begins_before_the_assignment_was_taken_waits_for_that() -> None:
    member = stable(cooperative(), A)
    member.request_rejoin("why")
    join(member, 2, A, B)
    member.on_refused(Heartbeat("m", 2), ErrorCode.REBALANCE_IN_PROGRESS)
    assert member.stage is Stage.TAKING
    assert take(member) == Change(target=(A, B))
    assert member.next_step(0) == Join("m", 2, "the group rebalances")


@pytest.mark.parametrize(
    ("code", "member_id"),
    [
        (ErrorCode.UNKNOWN_MEMBER_ID, ""),
        (ErrorCode.GROUP_ID_NOT_FOUND, ""),
        (ErrorCode.ILLEGAL_GENERATION, "m"),
    ],
)
def test_a_fenced_member_loses_everything_and_joins_anew(code: ErrorCode, member_id: str) -> None:
    member = stable(cooperative(), A, B)
    assert member.on_refused(Heartbeat("m", 1), code)
    assert not member.is_member, "what it would commit now may be committed by others"
    assert isinstance(member.next_step(0), Wait), "it joins once the user knows"
    assert take(member) == Change(lost=(A, B))
    step = member.next_step(0)
    assert isinstance(step, Join)
    assert (step.member_id, step.generation) == (member_id, -1)
    join(member, 5, A)
    assert take(member) == Change(target=(A,))


def test_what_a_coordinator_says_of_an_older_generation_means_nothing() -> None:
    member = stable(cooperative(), A)
    member.request_rejoin("why")
    join(member, 2, A)
    take(member)
    assert member.on_refused(Heartbeat("m", 1), ErrorCode.ILLEGAL_GENERATION)
    assert member.on_refused(Heartbeat("other", 2), ErrorCode.UNKNOWN_MEMBER_ID)
    assert member.is_member
    assert member.stage is Stage.STABLE


def test_an_assignment_is_void_once_the_member_was_fenced() -> None:
    member = stable(cooperative(), A)
    member.request_rejoin("why")
    join(member, 2, A, B)
    change = member.pending()
    assert change is not None
    member.on_refused(Heartbeat("m", 2), ErrorCode.UNKNOWN_MEMBER_ID)
    assert member.on_taken(change) is None
    assert take(member) == Change(lost=(A,))


def test_fenced_while_giving_up_the_rest_is_lost() -> None:
    member = cooperative()
    member.on_topics(["s", "t"], "more")
    stable(member, A, OTHER)
    member.on_topics(["s"], "fewer")
    change = member.pending()
    assert change == Change(revoked=(A,))
    member.on_refused(Heartbeat("m", 1), ErrorCode.UNKNOWN_MEMBER_ID)
    member.on_given_up(change.revoked)
    assert take(member) == Change(lost=(OTHER,))


@pytest.mark.parametrize("code", [ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.NOT_COORDINATOR])
def test_a_sync_that_came_too_late_is_a_join_again(code: ErrorCode) -> None:
    member = cooperative()
    member.on_poll_begun(0)
    joined = Joined("m", 1, "cooperative-sticky", is_leader=True)
    member.next_step(0)
    member.on_joined(joined, 0)
    assert member.on_refused(Sync(joined), code)
    assert isinstance(member.next_step(0), Join)
    assert member.generation == 1


def test_a_refusal_for_good_is_the_users_and_the_next_poll_tries_again() -> None:
    member = stable(cooperative(), A)
    assert not member.on_refused(Heartbeat("m", 1), ErrorCode.GROUP_AUTHORIZATION_FAILED)
    assert (member.stage, member.next_step(0)) == (Stage.AWAY, Wait(None))
    assert take(member) == Change(lost=(A,))
    member.on_poll_begun(0)
    assert isinstance(member.next_step(0), Join)


def test_who_was_replaced_by_another_of_his_name_does_not_throw_that_one_out() -> None:
    member = stable(cooperative(group_instance_id="one"), A)
    assert not member.on_refused(Heartbeat("m", 1), ErrorCode.FENCED_INSTANCE_ID)
    assert member.is_replaced
    assert take(member) == Change(lost=(A,))
    member.on_poll_begun(0)
    assert member.next_step(0) == Wait(None)


def test_who_does_not_poll_leaves_and_has_lost_everything_when_he_comes_back() -> None:
    member = stable(cooperative(), A)
    member.on_alive(950)
    assert member.next_step(999) == Wait(1000)
    why = "nobody polled for max_poll_interval_ms=1000"
    assert member.next_step(1000) == Leave("m", why)
    assert member.next_step(1001) == Wait(None)
    assert not member.is_member
    member.on_poll_begun(2000)
    assert take(member) == Change(lost=(A,))
    assert member.next_step(2000) == Join("", -1, why)


def test_a_poll_that_waits_is_a_user_who_is_there() -> None:
    member = stable(cooperative(), A)
    member.on_poll_begun(900)
    member.on_alive(5000)
    assert member.next_step(5000) == Wait(5100)
    member.on_poll_ended(5000)
    member.on_alive(5900)
    assert member.next_step(5999) == Wait(6000)
    assert isinstance(member.next_step(6000), Leave)


def test_a_static_member_stays_away_without_a_word() -> None:
    member = stable(cooperative(group_instance_id="one"), A)
    assert member.next_step(1000) == Wait(None)
    assert member.on_left() is None
    member = stable(cooperative(), A)
    assert member.on_left() == Leave("m", "the consumer was closed or unsubscribed")
    assert member.owned == {}


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION])
def test_a_member_that_lost_its_partitions_commits_as_who_it_was_until_it_joins_again(
    code: ErrorCode,
) -> None:
    member = cooperative()
    assert member.commits_as == Heartbeat("", -1)
    stable(member, A)
    assert member.commits_as == Heartbeat("m", 1)
    assert member.on_refused(Heartbeat("m", 1), code)
    assert member.commits_as == Heartbeat("m", 1), "so it is refused"
    member.on_poll_begun(0)
    assert take(member) == Change(lost=(A,))
    assert member.commits_as == Heartbeat("m", 1)
    join(member, 3, A)
    assert member.commits_as == Heartbeat("m", 3)
    member.on_poll_ended(0)
    assert isinstance(member.next_step(9_999), Leave)
    assert member.commits_as == Heartbeat("m", 3)
