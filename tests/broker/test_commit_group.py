"""Commit groups, the pure machine: who may decide, about what, and what is left afterwards."""

from dataclasses import replace

import pytest

from minikafka.broker.coordinator.transaction import commit_group
from minikafka.broker.coordinator.transaction.commit_group import (
    RUNS_MAX,
    CommitGroup,
    GroupDecision,
    Named,
)
from minikafka.broker.coordinator.transaction.decisions import GROUP_IDS_UNUSED_MS, is_expired
from minikafka.broker.coordinator.transaction.transaction import EXHAUSTED_EPOCH, State
from minikafka.protocol.commit_groups import group_of, home_of, is_group_name, member_id
from minikafka.protocol.errors import ErrorCode
from minikafka.runtime.errors import InvariantViolation

from .commit_group_lab import GROUP, CommitGroupLab, member
from .transaction_support import MINUTE_MS

OK, FENCED = ErrorCode.NONE, ErrorCode.PRODUCER_FENCED
UNKNOWN = ErrorCode.GROUP_ID_NOT_FOUND
INVALID, NOT_OPEN = ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_TXN_STATE
BUSY = ErrorCode.CONCURRENT_TRANSACTIONS
DAY_MS = 86_400_000
BOTH = pytest.mark.parametrize("level", [1, 2])


def begun(level: int = 2) -> CommitGroupLab:
    """A group with one run."""
    lab = CommitGroupLab(level)
    assert lab.run("a").error is OK
    return lab


def known(lab: CommitGroupLab) -> CommitGroup:
    found = lab.ledger.groups.get(GROUP)
    assert found is not None
    return found


# Names.


@pytest.mark.parametrize(
    ("name", "group"),
    [
        ("g/0/0.0", "g"),
        ("spark-1:a.b_c/12/3.45", "spark-1:a.b_c"),
        ("g", None),
        ("g/0", None),
        ("g/0/0", None),
        ("g/0/0.0/1", None),
        ("/0/0.0", None),
        ("a/b/0/0.0", None),
        ("ü/0/0.0", None),
        ("g/٣/0.0", None),
        ("g/0/0.0\n", None),
        ("g" * 249 + "/0/0.0", "g" * 249),
        ("g" * 250 + "/0/0.0", None),
    ],
)
def test_which_ids_are_a_group_s(name: str, group: str | None) -> None:
    assert group_of(name) == group
    assert home_of(name) == (group or name)


def test_ids_are_made_as_they_are_read() -> None:
    assert member_id("g", 3, 1, 2) == "g/3/1.2"
    assert [is_group_name(name) for name in ("g", "", "a/b", "g" * 250)] == [True] + [False] * 3


# Runs.


def test_a_new_run_takes_over_and_may_ask_again() -> None:
    lab = CommitGroupLab()
    for generation, run in enumerate("abc"):
        for _ in range(2):
            found = lab.run(run).group
            assert found is not None
            assert (found.generation, found.batch_id) == (generation, -1)
    assert len(lab.log) == 3
    assert lab.run("a").error is FENCED


def test_only_so_many_runs_are_remembered() -> None:
    lab = CommitGroupLab()
    for number in range(RUNS_MAX + 1):
        lab.run(f"r{number}")
    assert len(known(lab).runs) == RUNS_MAX
    assert lab.run("r1").error is FENCED
    assert lab.run("r0").error is OK
    assert known(lab).generation == RUNS_MAX + 1


@pytest.mark.parametrize(("group", "run"), [("", "r"), ("a/b", "r"), ("g", ""), ("g", "r" * 201)])
def test_names_that_cannot_be_are_refused(group: str, run: str) -> None:
    lab = CommitGroupLab()
    asked = commit_group.InitGroup(group=group, run=run)
    decision = commit_group.init_group(lab.ledger, asked, lab.now())
    assert decision.error is INVALID
    assert decision.message
    assert not decision.changes_group


# Commits, in the order of the rules.


def test_whoever_is_not_the_present_run_commits_nothing() -> None:
    lab = CommitGroupLab()
    one = lab.open("0")
    unknown = lab.commit(0, 0, one)
    assert unknown.error is UNKNOWN
    assert unknown.message is not None
    assert "transactional.id.expiration.ms" in unknown.message
    lab.run("a")
    assert lab.commit(1, 0, one).error is FENCED
    lab.run("b")
    assert lab.commit(0, 0, one).error is FENCED
    assert lab.states() == {"0/0.0": State.ONGOING}
    assert lab.commit(1, 0, one).error is OK


def test_a_batch_that_is_recorded_is_not_committed_again() -> None:
    lab = begun()
    assert lab.commit(0, 5, lab.open("0")).error is OK
    lab.complete()
    before = lab.transaction("0").updated_ms
    for batch in (5, 4, 0):
        again, other = lab.open("0"), lab.open("1")
        found = lab.commit(0, batch, again)
        assert (found.error, found.is_replay) == (OK, True)
        # What was named is aborted; what was not may be of the next batch: a late repeat.
        assert lab.states() == {"0/0.0": State.PREPARE_ABORT, "1/0.0": State.ONGOING}
        lab.complete()
        lab.abort([other])
        lab.complete()
    assert known(lab).batch_id == 5
    assert before == lab.wall_ms


def test_a_replay_is_told_before_anything_else_is_found_wrong() -> None:
    lab = begun()
    named = lab.open("0")
    lab.commit(0, 0, named)
    assert lab.commit(0, 0, named, Named("elsewhere", 1, 1)).is_replay
    assert lab.states() == {"0/0.0": State.PREPARE_COMMIT}


def test_a_replay_aborts_nothing_of_elsewhere() -> None:
    lab = begun()
    lab.commit(0, 0)
    mine, *others = (lab.open(name) for name in ("0", "app", "h/0/0.0"))
    assert lab.commit(0, 0, mine, *others).is_replay
    assert lab.states() == {
        "0/0.0": State.PREPARE_ABORT,
        "app": State.ONGOING,
        "h/0/0.0": State.ONGOING,
    }


@pytest.mark.parametrize("batch", [-1, -(2**63)])
def test_batches_are_numbered_from_0_on(batch: int) -> None:
    assert begun().commit(0, batch).error is INVALID


def test_only_ids_of_the_group_are_committed_and_once() -> None:
    lab = begun()
    one, other, plain = lab.open("0"), lab.open("app"), lab.open("h/0/0.0")
    for named in ((one, other), (one, plain), (one, one)):
        assert lab.commit(0, 0, *named).error is INVALID
    assert known(lab).batch_id == -1
    assert lab.states()["0/0.0"] is State.ONGOING


@BOTH
def test_one_that_is_not_open_as_named_keeps_all_from_being_committed(level: int) -> None:
    lab = begun(level)
    good = lab.open("0")
    ended, empty, late = lab.open("1"), lab.init("2"), lab.open("3")
    lab.end(ended, is_commit=True)
    lab.time_out("3")
    lab.complete()
    wrong = [
        ended,
        empty,
        late,
        Named(member("9"), 1, 0),
        good._replace(epoch=good.epoch + 1),
        good._replace(producer_id=good.producer_id + 1),
    ]
    for named in wrong:
        members = [named] if named.transactional_id == good.transactional_id else [good, named]
        found = lab.commit(0, 0, *members)
        assert found.error is NOT_OPEN
        assert found.message is not None
        assert found.message.startswith(named.transactional_id)
    assert lab.open_now() == [good.transactional_id]
    assert lab.commit(0, 0, good).error is OK


def test_nothing_is_decided_while_something_named_is_changing() -> None:
    lab = begun()
    one, two = lab.open("0"), lab.open("1")
    change = replace(lab.transaction("1"), updated_ms=lab.wall_ms + 1)
    lab.ledger.begin(change, 2)
    found = lab.commit(0, 0, one, two)
    assert (found.error, found.waits_for) == (BUSY, two.transactional_id)
    lab.ledger.settle(two.transactional_id, is_committed=True)
    lab.ledger.groups.begin(replace(known(lab), batch_id=7))
    found = lab.commit(0, 0, one, two)
    assert (found.error, found.waits_for) == (BUSY, GROUP)
    init = commit_group.InitGroup(group=GROUP, run="b")
    assert commit_group.init_group(lab.ledger, init, lab.now()).error is BUSY
    lab.ledger.groups.settle(GROUP, is_committed=False)
    assert lab.commit(0, 0, one, two).error is OK


# What a commit does.


@BOTH
def test_all_that_is_named_is_one_batch_with_the_group(level: int) -> None:
    lab = begun(level)
    named = [lab.open(str(index)) for index in range(3)]
    length = len(lab.log)
    assert lab.commit(0, 0, *named).error is OK
    assert [len(batch) for batch in lab.log[length:]] == [4]
    for other in (lab, lab.fail_over()):
        assert set(other.states().values()) == {State.PREPARE_COMMIT}
        assert known(other).batch_id == 0
        assert other.commit(0, 0, *named).is_replay
        assert set(other.states().values()) == {State.PREPARE_COMMIT}
    lost = lab.fail_over(without_last=True)
    assert set(lost.states().values()) == {State.ONGOING}
    assert known(lost).batch_id == -1
    assert lost.commit(0, 0, *named).error is OK


def test_a_commit_that_cannot_be_written_changes_nothing() -> None:
    lab = begun()
    named = lab.open("0")
    lab.commits = False
    assert lab.commit(0, 0, named).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    lab.commits = True
    assert (lab.states(), known(lab).batch_id) == ({"0/0.0": State.ONGOING}, -1)
    assert lab.commit(0, 0, named).error is OK


def test_a_batch_of_nothing_is_recorded() -> None:
    lab = begun()
    orphan = lab.open("0")
    assert lab.commit(0, 3).error is OK
    assert known(lab).batch_id == 3
    assert lab.states() == {"0/0.0": State.PREPARE_ABORT}
    assert lab.add(orphan) is FENCED


def test_what_else_is_open_in_the_group_is_aborted_and_fenced() -> None:
    lab = begun()
    for name in ("app", "gg/0/0.0"):
        lab.open(name)
    loser, idle, named = lab.open("0/0.1"), lab.init("1"), lab.open("0")
    lab.commit(0, 0, named)
    lab.complete()
    assert lab.states() == {
        "app": State.ONGOING,
        "gg/0/0.0": State.ONGOING,
        "0/0.1": State.COMPLETE_ABORT,
        "1/0.0": State.EMPTY,
        "0/0.0": State.COMPLETE_COMMIT,
    }
    assert lab.add(loser) is FENCED
    assert lab.end(loser, is_commit=True).error is FENCED
    assert lab.add(idle) is OK


def test_a_loser_on_its_way_to_begin_is_one_too_and_the_next_transaction_is_not() -> None:
    lab = begun()
    named = lab.init("0")
    change = replace(lab.transaction("0"), state=State.ONGOING, started_ms=lab.wall_ms)
    lab.ledger.begin(change, 2)
    losers = commit_group.losers(lab.ledger, GROUP)
    assert losers == [named]
    lab.ledger.settle(named.transactional_id, is_committed=True)
    newer = lab.open("0")
    lab.abort(losers)
    assert lab.open_now() == [newer.transactional_id]


@pytest.mark.parametrize("level", [1, 2])
def test_a_producer_goes_on_with_an_epoch_of_its_own(level: int) -> None:
    """By InitProducerId as a new one, as the old one, and by EndTxn that it does not know of."""
    lab = begun(level)
    epochs = []
    for batch in range(3):
        named = lab.open("0")
        epochs.append(named.epoch)
        lab.commit(0, batch, named)
        lab.complete()
        if level == 2:
            repeated = lab.end(named, is_commit=True)
            assert (repeated.error, repeated.epoch) == (OK, named.epoch + 1)
            assert lab.end(named, is_commit=False).error is NOT_OPEN
            assert lab.add(named) is FENCED
    assert epochs == sorted(dict.fromkeys(epochs))


def test_many_whose_epochs_run_out_get_ids_of_their_own_in_one_decision() -> None:
    lab = begun()
    named = []
    for index in range(3):
        one = lab.open(str(index))
        exhausted = replace(lab.transaction(str(index)), epoch=EXHAUSTED_EPOCH - (index == 1))
        lab.log.append([lab.ledger.begin(exhausted, 2)])
        lab.ledger.settle(one.transactional_id, is_committed=True)
        named.append(one._replace(epoch=exhausted.epoch))
    assert lab.commit(0, 0, *named).error is OK
    lab.complete()
    after = [lab.transaction(str(index)) for index in range(3)]
    assert [each.epoch for each in after] == [0, EXHAUSTED_EPOCH, 0]
    assert [
        each.producer_id == one.producer_id for each, one in zip(after, named, strict=True)
    ] == [
        False,
        True,
        False,
    ]


# Time.


def test_ids_of_a_group_are_forgotten_after_an_hour_and_others_later() -> None:
    lab = begun()
    for name in ("0", "app"):
        lab.init(name)
    lab.open("1")
    for hours, forgotten in ((0, []), (1, ["0"]), (24 * 7, ["0", "app"])):
        wall_ms = lab.wall_ms + hours * GROUP_IDS_UNUSED_MS
        names = [
            name
            for name in ("0", "1", "app")
            if is_expired(lab.transaction(name), wall_ms, 7 * DAY_MS)
        ]
        assert names == forgotten
    assert is_expired(lab.transaction("0"), lab.wall_ms + MINUTE_MS, MINUTE_MS)


def test_a_group_is_forgotten_when_neither_it_nor_an_id_was_used_for_long() -> None:
    lab = begun()
    lab.init("0")

    def unused(days: int) -> list[str]:
        wall_ms = lab.wall_ms + days * DAY_MS
        return commit_group.unused_groups(lab.ledger, wall_ms, 7 * DAY_MS)

    assert unused(6) == []
    assert unused(7) == []
    lab.log.append([lab.ledger.begin_to_forget(member("0"))])
    lab.ledger.settle(member("0"), is_committed=True)
    assert (unused(6), unused(7)) == ([], [GROUP])
    lab.log.append([lab.ledger.groups.begin_to_forget(GROUP)])
    assert unused(7) == []
    lab.ledger.groups.settle(GROUP, is_committed=True)
    for other in (lab, lab.fail_over()):
        assert other.ledger.groups.get(GROUP) is None
        assert other.commit(0, 0).error is UNKNOWN
        assert other.run("z").error is OK


def test_a_clock_that_was_ahead_is_brought_back() -> None:
    lab = begun()
    lab.wall_ms -= 5_000
    assert known(lab.fail_over()).updated_ms == lab.wall_ms


# Our own bugs.


def test_a_group_never_goes_back_nor_two_ways() -> None:
    lab = begun()
    lab.commit(0, 4)
    for change in (replace(known(lab), batch_id=4), replace(known(lab), generation=-1, batch_id=9)):
        with pytest.raises(InvariantViolation, match="back to"):
            lab.ledger.groups.begin(change)
    lab.ledger.groups.begin(replace(known(lab), batch_id=5))
    with pytest.raises(InvariantViolation, match="two changes"):
        lab.ledger.groups.begin(replace(known(lab), batch_id=6))


def test_decisions_without_a_change_say_so() -> None:
    assert GroupDecision(error=FENCED).changes_group is False
    assert begun().run("a").changes_group is False
