"""Scenarios H, as decisions of the coordinator: what is late, repeated, fenced.

Coordinators that die, partitions that are away and time are in
test_h_coordinators_in_clusters.py.
"""

import pytest

from minikafka.broker.coordinator.transaction.transaction import EXHAUSTED_EPOCH, State
from minikafka.protocol.errors import ErrorCode

from ..broker.transaction_support import A, Coordinator, at_epoch, begun

BOTH = pytest.mark.parametrize("level", [1, 2])
FENCED = ErrorCode.PRODUCER_FENCED
MISUSED = ErrorCode.INVALID_TXN_STATE


def test_h_02_without_the_decision_in_the_log_the_retry_decides() -> None:
    """Given EndTxn whose record was never committed; when another coordinator reads the log; then
    the transaction is as open as before, and the producer's retry ends it, either way."""
    for commit, ended in ((True, State.COMPLETE_COMMIT), (False, State.COMPLETE_ABORT)):
        coordinator = begun()
        coordinator.commits = False
        assert coordinator.end(101, 0).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert coordinator.state is State.ONGOING
        other = coordinator.fail_over()
        assert other.state is State.ONGOING
        assert other.end(101, 0, commit=commit).epoch == 1
        assert other.complete().state is ended


def test_h_02_with_the_decision_in_the_log_it_stands() -> None:
    """Given the same, but the record was committed after all; then the other outcome is refused
    and the same one is repeated, to its end."""
    coordinator = begun()
    coordinator.end(101, 0, commit=True)
    other = coordinator.fail_over()
    assert other.end(101, 0, commit=False).error is MISUSED
    assert other.end(101, 0, commit=True).error is ErrorCode.CONCURRENT_TRANSACTIONS
    assert other.complete().state is State.COMPLETE_COMMIT
    assert other.end(101, 0, commit=True).epoch == 1


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("first_commits", [True, False])
def test_h_04_a_late_end_ends_nothing_of_a_later_transaction(
    first_commits: bool, commit: bool
) -> None:
    """Given EndTxn of transaction 1, held up in the network, repeated and answered, and transaction
    2 begun; when the first arrives; then it is fenced: each transaction has an epoch of its own."""
    coordinator = begun()
    coordinator.end(101, 0, commit=first_commits)
    coordinator.complete()
    coordinator.add(101, 1)
    for late in (coordinator, coordinator.fail_over()):
        assert late.end(101, 0, commit=commit).error is FENCED
        assert late.state is State.ONGOING
        assert late.transaction.epoch == 1


def test_h_04_before_transaction_2_has_begun_a_late_end_only_repeats() -> None:
    """Given the same before anything of transaction 2; then the late request is told how it went,
    or that it went otherwise, and nothing changes."""
    coordinator = begun()
    coordinator.end(101, 0, commit=True)
    coordinator.complete()
    length = len(coordinator.log)
    assert coordinator.end(101, 0, commit=True).error is ErrorCode.NONE
    assert coordinator.end(101, 0, commit=False).error is MISUSED
    assert len(coordinator.log) == length


def test_h_04_without_the_epoch_bump_a_late_commit_commits_what_is_open() -> None:
    """Why the promise holds for EndTxn 5 and up: older clients use one epoch for all transactions,
    and the late commit of transaction 1 ends transaction 2."""
    coordinator = begun(1)
    coordinator.end(101, 0, commit=True)
    coordinator.complete()
    coordinator.add(101, 0)
    assert coordinator.end(101, 0, commit=True).error is ErrorCode.NONE
    assert coordinator.state is State.PREPARE_COMMIT


@BOTH
def test_h_06_a_zombie_ends_and_adds_nothing(level: int) -> None:
    """Given a producer with an open transaction, and a second with its transactional id; then the
    first can add, commit and abort nothing, and what it had open is aborted."""
    coordinator = begun(level)
    assert coordinator.init().error is ErrorCode.CONCURRENT_TRANSACTIONS
    assert coordinator.state is State.PREPARE_ABORT
    for _ in range(2):
        assert coordinator.end(101, 0, commit=True).error is FENCED
        assert coordinator.end(101, 0, commit=False).error is FENCED
        assert coordinator.add(101, 0) is FENCED
        assert coordinator.verify(101, 0) == [FENCED]
        if coordinator.state is State.PREPARE_ABORT:
            coordinator.complete()
    new = coordinator.init()
    assert (new.error, new.producer_id, new.epoch) == (0, 101, 2)
    assert coordinator.add(101, 2) is ErrorCode.NONE
    assert coordinator.end(101, 0).error is FENCED


# H-08: epochs run out.


@BOTH
def test_h_08_a_producer_that_begins_at_the_last_epoch_gets_another_id(level: int) -> None:
    """Given epoch 32766 and no transaction; when a producer begins; then it has a new id."""
    coordinator = at_epoch(EXHAUSTED_EPOCH, 1, State.COMPLETE_COMMIT)
    coordinator.level = level
    assert coordinator.transaction.epoch == EXHAUSTED_EPOCH
    answer = coordinator.init()
    assert (answer.producer_id, answer.epoch) == (102, 0)
    assert coordinator.add(101, EXHAUSTED_EPOCH) is ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_h_08_a_producer_that_goes_on_at_the_last_epoch_gets_another_id_once() -> None:
    """Given the same producer goes on after an error (KIP-360); then its retry gets the same id."""
    coordinator = at_epoch(EXHAUSTED_EPOCH, 1, State.COMPLETE_COMMIT)
    for _ in range(3):
        answer = coordinator.init(101, EXHAUSTED_EPOCH)
        assert (answer.error, answer.producer_id, answer.epoch) == (0, 102, 0)


@BOTH
def test_h_08_a_producer_that_goes_on_while_the_last_epoch_is_open(level: int) -> None:
    """Given epoch 32766 with an open transaction; when its own producer goes on (KIP-360); then
    that is aborted, and each of its retries gets the new id, never 32767."""
    coordinator = at_epoch(EXHAUSTED_EPOCH, level)
    assert coordinator.init(101, EXHAUSTED_EPOCH).error is ErrorCode.CONCURRENT_TRANSACTIONS
    coordinator.complete()
    for _ in range(3):
        answer = coordinator.init(101, EXHAUSTED_EPOCH)
        assert (answer.error, answer.producer_id, answer.epoch) == (0, 102, 0)


@BOTH
def test_h_08_a_producer_that_begins_while_the_last_epoch_is_open(level: int) -> None:
    """Given epoch 32766 with an open transaction; when another producer begins, as often as it
    likes; then the abort is under 32767, no epoch is negative, and it has a new id in the end."""
    coordinator = at_epoch(EXHAUSTED_EPOCH, level)
    for _ in range(3):
        assert coordinator.init().error is ErrorCode.CONCURRENT_TRANSACTIONS
        assert coordinator.transaction.epoch == EXHAUSTED_EPOCH + 1
    coordinator.complete()
    answer = coordinator.init()
    assert (answer.producer_id, answer.epoch) == (102, 0)
    assert coordinator.end(101, EXHAUSTED_EPOCH).error is ErrorCode.INVALID_PRODUCER_ID_MAPPING


@pytest.mark.parametrize("commit", [True, False])
def test_h_08_a_transaction_that_ends_at_the_last_epoch(commit: bool) -> None:
    """Given epoch 32766 and EndTxn 5; then the markers carry 32767, the producer is told a new id
    and goes on with it once they are written, and not before (KAFKA-18660)."""
    coordinator = at_epoch(EXHAUSTED_EPOCH)
    answer = coordinator.end(101, EXHAUSTED_EPOCH, commit=commit)
    assert (answer.error, answer.producer_id, answer.epoch) == (0, 102, 0)
    ending = coordinator.transaction
    assert (ending.producer_id, ending.epoch) == (101, EXHAUSTED_EPOCH + 1)
    for one in (coordinator, coordinator.fail_over()):
        assert one.add(102, 0) is ErrorCode.CONCURRENT_TRANSACTIONS
        assert one.end(102, 0).error is ErrorCode.CONCURRENT_TRANSACTIONS
        one.complete()
        assert one.add(102, 0) is ErrorCode.NONE
        assert one.end(101, EXHAUSTED_EPOCH).error is ErrorCode.INVALID_PRODUCER_ID_MAPPING


@BOTH
def test_h_08_a_transaction_that_is_overdue_at_the_last_epoch(level: int) -> None:
    """Given epoch 32766 and time is over; then no epoch is negative, and whoever comes next goes on
    with a new id: its own producer by aborting (EndTxn 5), or another that begins."""
    coordinator = at_epoch(EXHAUSTED_EPOCH, level)
    coordinator.time_out()
    assert coordinator.transaction.epoch == EXHAUSTED_EPOCH + 1
    coordinator.complete()
    if level == 2:
        answer = coordinator.fail_over().end(101, EXHAUSTED_EPOCH, commit=False)
        assert (answer.error, answer.producer_id, answer.epoch) == (0, 102, 0)
    began = coordinator.init()
    assert (began.producer_id, began.epoch) == ((102, 1) if level == 2 else (102, 0))


@pytest.mark.parametrize(("level", "state"), [(1, State.COMPLETE_ABORT), (2, State.PREPARE_ABORT)])
def test_h_08_whoever_claims_the_epoch_that_nobody_is_given_is_fenced(
    level: int, state: State
) -> None:
    """Given markers under 32767, written or not; when somebody goes on, adds, asks or ends with
    that epoch; then it is fenced, and nothing changes."""
    coordinator = at_epoch(EXHAUSTED_EPOCH, level)
    coordinator.time_out()
    if state is State.COMPLETE_ABORT:
        coordinator.complete()
    present, coordinator.level = coordinator.transaction, 2
    assert (present.state, present.epoch) == (state, EXHAUSTED_EPOCH + 1)
    claimed = (101, EXHAUSTED_EPOCH + 1)
    assert coordinator.init(*claimed).error is ErrorCode.PRODUCER_FENCED
    assert coordinator.add(*claimed) is ErrorCode.PRODUCER_FENCED
    assert coordinator.verify(*claimed) == [ErrorCode.PRODUCER_FENCED]
    assert coordinator.end(*claimed, commit=False).error is ErrorCode.PRODUCER_FENCED
    assert coordinator.transaction is present


def test_h_08_the_last_epoch_is_never_given_out() -> None:
    """Given a producer that does nothing but begin, from 32760 on; then it never sees 32767."""
    coordinator = at_epoch(32_760, 1, State.COMPLETE_ABORT)
    seen = [coordinator.init().epoch for _ in range(10)]
    assert seen == [32_761, 32_762, 32_763, 32_764, 32_765, 32_766, 0, 1, 2, 3]


# H-09: the answer to EndTxn is lost.


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("epoch", [0, 7, EXHAUSTED_EPOCH])
def test_h_09_the_retry_of_an_end_has_the_same_result(epoch: int, commit: bool) -> None:
    """Given EndTxn 5 whose answer was lost; when it is repeated, also at another coordinator; then
    it has the same result, and the same new epoch or id."""
    coordinator = at_epoch(epoch) if epoch else begun()
    first = coordinator.end(101, epoch, commit=commit)
    assert first.error is ErrorCode.NONE
    for one in (coordinator, coordinator.fail_over()):
        assert one.end(101, epoch, commit=commit).error is ErrorCode.CONCURRENT_TRANSACTIONS
        one.complete()
        for again in (one, one.fail_over()):
            repeated = again.end(101, epoch, commit=commit)
            assert repeated.error is ErrorCode.NONE
            assert (repeated.producer_id, repeated.epoch) == (first.producer_id, first.epoch)
            assert again.end(101, epoch, commit=not commit).error is MISUSED


@pytest.mark.parametrize("commit", [True, False])
def test_h_09_the_retry_of_an_older_end_has_the_same_result(commit: bool) -> None:
    """Given the same with EndTxn 4 and earlier: no epoch changes."""
    coordinator = begun(1)
    coordinator.end(101, 0, commit=commit)
    assert coordinator.end(101, 0, commit=commit).error is ErrorCode.CONCURRENT_TRANSACTIONS
    coordinator.complete()
    for one in (coordinator, coordinator.fail_over()):
        assert one.end(101, 0, commit=commit).error is ErrorCode.NONE
        assert one.transaction.epoch == 0


@BOTH
@pytest.mark.parametrize("commit", [True, False])
def test_h_10_the_opposite_outcome_after_the_decision_is_refused(commit: bool, level: int) -> None:
    """Given a decided transaction; when its producer asks for the opposite outcome, before or after
    its markers are written, here or at the next coordinator; then INVALID_TXN_STATE, and the
    outcome stays what it was (invariant 23)."""
    coordinator = begun(level)
    coordinator.end(101, 0, commit=commit)
    decided = coordinator.state
    for one in (coordinator, coordinator.fail_over()):
        assert one.end(101, 0, commit=not commit).error is MISUSED
        assert one.state is decided
        one.complete()
        assert one.end(101, 0, commit=not commit).error is MISUSED
        assert one.state is (State.COMPLETE_COMMIT if commit else State.COMPLETE_ABORT)


@BOTH
def test_h_11_an_overdue_transaction_is_aborted_once(level: int) -> None:
    """Given a transaction open for longer than its timeout; then it is aborted, its partitions get
    their markers, and its producer's late commit does not bring it back."""
    coordinator = begun(level)
    coordinator.time_out()
    assert coordinator.state is State.PREPARE_ABORT
    assert list(coordinator.transaction.partitions) == [A]
    refused = coordinator.end(101, 0, commit=True).error
    assert refused is (MISUSED if level == 2 else FENCED)
    assert coordinator.complete().state is State.COMPLETE_ABORT


def test_h_18_a_change_that_is_not_committed_is_not_made() -> None:
    """Given __transaction_state below min ISR; then every request that would change something is
    told COORDINATOR_NOT_AVAILABLE, and what is known stays as it was."""
    unavailable = ErrorCode.COORDINATOR_NOT_AVAILABLE
    fresh = Coordinator(commits=False)
    assert fresh.init().error is unavailable
    assert len(fresh.ledger) == 0
    coordinator = begun()
    before = coordinator.transaction
    coordinator.commits = False
    assert coordinator.end(101, 0).error is unavailable
    assert coordinator.init().error is unavailable
    assert coordinator.time_out().error is unavailable
    assert coordinator.add(101, 0, A, A._replace(partition=9)) is unavailable
    assert coordinator.transaction is before
    assert coordinator.verify(101, 0) == [ErrorCode.NONE]
