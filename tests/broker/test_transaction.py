"""The transaction coordinator's machine: every row of its table, in both protocols."""

from dataclasses import replace

import pytest

from minikafka.broker.coordinator.transaction import decisions
from minikafka.broker.coordinator.transaction.decisions import Decision
from minikafka.broker.coordinator.transaction.ledger import Ledger
from minikafka.broker.coordinator.transaction.records import encode, encode_tombstone
from minikafka.broker.coordinator.transaction.transaction import (
    EXHAUSTED_EPOCH,
    PREVIOUS,
    State,
    Transaction,
)
from minikafka.protocol.coordinator_records import UnknownRecord
from minikafka.protocol.errors import ErrorCode, RemoteProtocolError
from minikafka.runtime.errors import InvariantViolation

from .transaction_support import HEADER, MINUTE_MS, NAME, A, B, Coordinator, at_epoch, begun

BOTH = pytest.mark.parametrize("level", [1, 2])
CONCURRENT = ErrorCode.CONCURRENT_TRANSACTIONS
FENCED = ErrorCode.PRODUCER_FENCED
MISUSED = ErrorCode.INVALID_TXN_STATE
NO_MAPPING = ErrorCode.INVALID_PRODUCER_ID_MAPPING


def in_state(state: State, level: int) -> Coordinator:
    """One transactional id in this state, reached by requests."""
    coordinator = Coordinator(level)
    coordinator.init()
    if state is State.EMPTY:
        return coordinator
    coordinator.add(101, 0)
    if state is State.ONGOING:
        return coordinator
    coordinator.end(101, 0, commit=state in (State.PREPARE_COMMIT, State.COMPLETE_COMMIT))
    if not state.is_prepared:
        coordinator.complete()
    assert coordinator.state is state
    return coordinator


INIT, ADD, COMMIT, ABORT, OVERDUE, WRITTEN = "init", "add", "commit", "abort", "overdue", "written"
S = State
TABLE = {
    # state, event: (state afterwards, error) in transaction.version 1, and in 2
    (S.EMPTY, INIT): ((S.EMPTY, 0), (S.EMPTY, 0)),
    (S.EMPTY, ADD): ((S.ONGOING, 0), (S.ONGOING, 0)),
    (S.EMPTY, COMMIT): ((S.EMPTY, MISUSED), (S.EMPTY, MISUSED)),
    (S.EMPTY, ABORT): ((S.EMPTY, MISUSED), (S.PREPARE_ABORT, 0)),
    (S.ONGOING, INIT): ((S.PREPARE_ABORT, CONCURRENT), (S.PREPARE_ABORT, CONCURRENT)),
    (S.ONGOING, ADD): ((S.ONGOING, 0), (S.ONGOING, 0)),
    (S.ONGOING, COMMIT): ((S.PREPARE_COMMIT, 0), (S.PREPARE_COMMIT, 0)),
    (S.ONGOING, ABORT): ((S.PREPARE_ABORT, 0), (S.PREPARE_ABORT, 0)),
    (S.ONGOING, OVERDUE): ((S.PREPARE_ABORT, 0), (S.PREPARE_ABORT, 0)),
    (S.PREPARE_COMMIT, INIT): ((S.PREPARE_COMMIT, CONCURRENT), (S.PREPARE_COMMIT, CONCURRENT)),
    (S.PREPARE_COMMIT, ADD): ((S.PREPARE_COMMIT, CONCURRENT), (S.PREPARE_COMMIT, CONCURRENT)),
    (S.PREPARE_COMMIT, COMMIT): ((S.PREPARE_COMMIT, CONCURRENT), (S.PREPARE_COMMIT, CONCURRENT)),
    (S.PREPARE_COMMIT, ABORT): ((S.PREPARE_COMMIT, MISUSED), (S.PREPARE_COMMIT, CONCURRENT)),
    (S.PREPARE_COMMIT, WRITTEN): ((S.COMPLETE_COMMIT, 0), (S.COMPLETE_COMMIT, 0)),
    (S.PREPARE_ABORT, INIT): ((S.PREPARE_ABORT, CONCURRENT), (S.PREPARE_ABORT, CONCURRENT)),
    (S.PREPARE_ABORT, ADD): ((S.PREPARE_ABORT, CONCURRENT), (S.PREPARE_ABORT, CONCURRENT)),
    (S.PREPARE_ABORT, COMMIT): ((S.PREPARE_ABORT, MISUSED), (S.PREPARE_ABORT, CONCURRENT)),
    (S.PREPARE_ABORT, ABORT): ((S.PREPARE_ABORT, CONCURRENT), (S.PREPARE_ABORT, CONCURRENT)),
    (S.PREPARE_ABORT, WRITTEN): ((S.COMPLETE_ABORT, 0), (S.COMPLETE_ABORT, 0)),
    (S.COMPLETE_COMMIT, INIT): ((S.EMPTY, 0), (S.EMPTY, 0)),
    (S.COMPLETE_COMMIT, ADD): ((S.ONGOING, 0), (S.ONGOING, 0)),
    (S.COMPLETE_COMMIT, COMMIT): ((S.COMPLETE_COMMIT, 0), (S.COMPLETE_COMMIT, MISUSED)),
    (S.COMPLETE_COMMIT, ABORT): ((S.COMPLETE_COMMIT, MISUSED), (S.PREPARE_ABORT, 0)),
    (S.COMPLETE_ABORT, INIT): ((S.EMPTY, 0), (S.EMPTY, 0)),
    (S.COMPLETE_ABORT, ADD): ((S.ONGOING, 0), (S.ONGOING, 0)),
    (S.COMPLETE_ABORT, COMMIT): ((S.COMPLETE_ABORT, MISUSED), (S.COMPLETE_ABORT, MISUSED)),
    (S.COMPLETE_ABORT, ABORT): ((S.COMPLETE_ABORT, 0), (S.PREPARE_ABORT, 0)),
}


def do(coordinator: Coordinator, event: str) -> ErrorCode:
    """What a producer does that knows its newest id and epoch."""
    producer_id, epoch = coordinator.transaction.upcoming
    if event == INIT:
        return coordinator.init().error
    if event == ADD:
        return coordinator.add(producer_id, epoch, B)
    if event == OVERDUE:
        return coordinator.time_out().error
    if event == WRITTEN:
        coordinator.complete()
        return ErrorCode.NONE
    return coordinator.end(producer_id, epoch, commit=event == COMMIT).error


@BOTH
@pytest.mark.parametrize(
    ("state", "event"),
    TABLE,
    ids=lambda each: each.title if isinstance(each, State) else each,
)
def test_every_row_of_the_table(state: State, event: str, level: int) -> None:
    coordinator = in_state(state, level)
    afterwards, error = TABLE[state, event][level - 1]
    assert do(coordinator, event) == error
    assert coordinator.state is afterwards
    assert coordinator.fail_over().state is afterwards


def test_the_table_has_every_request_in_every_state() -> None:
    for state in State:
        for event in (INIT, ADD, COMMIT, ABORT):
            assert (state, event) in TABLE
    reached = {(state, row[1][0]) for (state, _), row in TABLE.items()}
    possible = {(before, after) for after, befores in PREVIOUS.items() for before in befores}
    assert {(a, b) for a, b in possible if (a, b) not in reached} == set()


def test_a_transition_that_is_not_in_the_table_is_our_own_bug() -> None:
    ledger = Ledger()
    wrong = Transaction(transactional_id=NAME, producer_id=1, epoch=0, timeout_ms=1)
    with pytest.raises(InvariantViolation):
        ledger.begin(replace(wrong, state=State.COMPLETE_COMMIT), 2)
    with pytest.raises(InvariantViolation):
        ledger.begin(replace(wrong, epoch=-1), 2)
    ledger.begin(wrong, 2)
    with pytest.raises(InvariantViolation):
        ledger.begin(wrong, 2)


# InitProducerId.


def test_each_start_of_a_producer_gets_the_next_epoch() -> None:
    coordinator = Coordinator()
    first = coordinator.init()
    assert (first.producer_id, first.epoch) == (101, 0)
    second = coordinator.init()
    assert (second.producer_id, second.epoch) == (101, 1)
    assert coordinator.add(101, 0) is FENCED
    assert coordinator.add(101, 1) is ErrorCode.NONE


def test_a_producer_that_goes_on_gets_the_next_epoch_once() -> None:
    """KIP-360: the retry of an answer that was lost gets the same answer."""
    coordinator = Coordinator()
    coordinator.init()
    for _ in range(3):
        answer = coordinator.init(101, 0)
        assert (answer.error, answer.producer_id, answer.epoch) == (0, 101, 1)
    assert coordinator.init(101, 1).epoch == 2
    assert coordinator.init(101, 0).error is FENCED


def test_who_goes_on_after_another_has_begun_is_fenced() -> None:
    coordinator = Coordinator()
    coordinator.init()
    coordinator.init()
    assert coordinator.init(101, 0).error is FENCED
    assert coordinator.init(999, 0).error is FENCED
    assert coordinator.init(999, 1).error is FENCED


@BOTH
def test_a_new_producer_aborts_what_the_old_left_open(level: int) -> None:
    """KAFKA-19367: the fence raises the epoch once, and the answer once more."""
    coordinator = begun(level)
    assert coordinator.init().error is CONCURRENT
    assert coordinator.transaction.epoch == 1
    assert coordinator.init().error is CONCURRENT
    coordinator.complete()
    answer = coordinator.init()
    assert (answer.error, answer.epoch) == (ErrorCode.NONE, 2)
    for zombie in (coordinator, coordinator.fail_over()):
        assert zombie.end(101, 0).error is FENCED
        assert zombie.end(101, 0, commit=False).error is FENCED


@BOTH
def test_the_fenced_producer_is_fenced_before_its_successor_has_its_epoch(level: int) -> None:
    coordinator = begun(level)
    coordinator.init()
    coordinator.complete()
    for zombie in (coordinator, coordinator.fail_over()):
        assert zombie.end(101, 0, commit=False).error is FENCED
        assert zombie.add(101, 0) is FENCED
        assert zombie.init(101, 0).error is FENCED


def test_a_producer_may_abort_its_own_transaction_by_going_on() -> None:
    coordinator = begun()
    assert coordinator.init(101, 0).error is CONCURRENT
    coordinator.complete()
    answer = coordinator.init(101, 0)
    assert (answer.error, answer.epoch) == (ErrorCode.NONE, 1)


def test_going_on_with_an_old_epoch_does_not_abort_what_is_open() -> None:
    coordinator = Coordinator()
    coordinator.init()
    coordinator.init(101, 0)
    coordinator.add(101, 1)
    assert coordinator.init(101, 0).error is FENCED
    assert coordinator.state is State.ONGOING


def test_a_fence_whose_write_failed_is_not_raised_again() -> None:
    coordinator = begun()
    coordinator.commits = False
    for _ in range(3):
        assert coordinator.init().error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    coordinator.commits = True
    assert coordinator.init().error is CONCURRENT
    assert coordinator.transaction.epoch == 1


# AddPartitionsToTxn and verification.


def test_adding_what_is_there_writes_nothing() -> None:
    coordinator = begun(2, A, B)
    length = len(coordinator.log)
    assert coordinator.add(101, 0, B) is ErrorCode.NONE
    assert len(coordinator.log) == length
    assert list(coordinator.fail_over().transaction.partitions) == [A, B]


def test_whoever_is_not_the_producer_adds_nothing() -> None:
    coordinator = Coordinator()
    assert coordinator.add(101, 0) is NO_MAPPING
    coordinator.init()
    assert coordinator.add(102, 0) is NO_MAPPING
    assert coordinator.add(101, 1) is FENCED
    assert coordinator.state is State.EMPTY


def test_verification_tells_each_partition() -> None:
    coordinator = begun()
    assert coordinator.verify(101, 0, A, B) == [ErrorCode.NONE, ErrorCode.TRANSACTION_ABORTABLE]
    assert coordinator.verify(101, 1, A) == [FENCED]
    assert coordinator.verify(7, 0, A) == [NO_MAPPING]
    assert Coordinator().verify(101, 0) == [NO_MAPPING]
    coordinator.end(101, 0)
    assert coordinator.verify(101, 0, A) == [FENCED]
    assert coordinator.verify(101, 1, A) == [CONCURRENT]
    coordinator.complete()
    assert coordinator.verify(101, 1, A) == [ErrorCode.TRANSACTION_ABORTABLE]


def test_a_transaction_begins_with_its_first_partition() -> None:
    coordinator = Coordinator()
    coordinator.init()
    coordinator.wall_ms += 10
    coordinator.add(101, 0, A)
    began_ms = coordinator.wall_ms
    coordinator.wall_ms += 10
    coordinator.add(101, 0, B)
    assert coordinator.transaction.started_ms == began_ms
    assert coordinator.transaction.updated_ms == began_ms + 10


# EndTxn.


def test_each_end_raises_the_epoch_from_version_5_on() -> None:
    coordinator = begun()
    for epoch in range(4):
        answer = coordinator.end(101, epoch, commit=epoch % 2 == 0)
        assert (answer.error, answer.producer_id, answer.epoch) == (0, 101, epoch + 1)
        coordinator.complete()
        assert coordinator.add(101, epoch) is FENCED
        assert coordinator.add(101, epoch + 1) is ErrorCode.NONE


def test_older_ends_keep_the_epoch() -> None:
    coordinator = begun(1)
    coordinator.end(101, 0)
    coordinator.complete()
    assert coordinator.transaction.epoch == 0
    assert coordinator.add(101, 0) is ErrorCode.NONE


@BOTH
def test_whoever_is_not_the_producer_ends_nothing(level: int) -> None:
    coordinator = begun(level)
    assert coordinator.end(102, 0).error is NO_MAPPING
    assert coordinator.end(101, 7).error is FENCED
    assert Coordinator(level).end(101, 0).error is NO_MAPPING
    assert coordinator.state is State.ONGOING


def test_an_empty_transaction_can_be_aborted_and_raises_the_epoch() -> None:
    coordinator = Coordinator()
    coordinator.init()
    assert coordinator.end(101, 0, commit=False).epoch == 1
    assert coordinator.transaction.partitions == {}
    coordinator.complete()
    assert coordinator.end(101, 1, commit=False).epoch == 2


# Time.


def test_what_is_open_for_longer_than_allowed_is_overdue() -> None:
    coordinator = begun()
    opened_ms = coordinator.wall_ms
    assert not decisions.is_overdue(coordinator.transaction, opened_ms + MINUTE_MS)
    assert decisions.is_overdue(coordinator.transaction, opened_ms + MINUTE_MS + 1)
    coordinator.end(101, 0)
    assert not decisions.is_overdue(coordinator.transaction, opened_ms + 10 * MINUTE_MS)


def test_the_abort_of_an_overdue_transaction_is_its_producers_abort() -> None:
    """KAFKA-19690: it may abort, gets its next epoch, and goes on."""
    coordinator = begun()
    coordinator.time_out()
    assert coordinator.end(101, 0, commit=True).error is MISUSED
    coordinator.complete()
    for one in (coordinator, coordinator.fail_over()):
        assert one.end(101, 0, commit=True).error is MISUSED
        answer = one.end(101, 0, commit=False)
        assert (answer.error, answer.producer_id, answer.epoch) == (0, 101, 1)
        assert one.add(101, 1) is ErrorCode.NONE


def test_before_version_2_an_overdue_transaction_fences_its_producer() -> None:
    coordinator = begun(1)
    coordinator.time_out()
    coordinator.complete()
    assert coordinator.transaction.epoch == 1
    assert coordinator.end(101, 0, commit=False).error is FENCED
    assert coordinator.init().epoch == 2


def test_only_idle_ids_expire() -> None:
    for state in State:
        coordinator = in_state(state, 2)
        later_ms = coordinator.wall_ms + 1000
        assert decisions.is_expired(coordinator.transaction, later_ms, 1000) is state.is_idle
        assert not decisions.is_expired(coordinator.transaction, later_ms, 1001)


# The ledger.


def test_while_a_change_is_on_its_way_the_old_state_holds() -> None:
    coordinator = Coordinator()
    coordinator.init()
    before = coordinator.transaction
    change = replace(before, state=State.ONGOING, partitions={A: None})
    coordinator.ledger.begin(change, 2)
    assert coordinator.ledger.is_changing(NAME)
    assert coordinator.ledger.changing == {NAME: change}
    assert coordinator.transaction is before
    coordinator.ledger.settle(NAME, is_committed=False)
    assert coordinator.transaction is before
    assert not coordinator.ledger.is_changing(NAME)


@BOTH
@pytest.mark.parametrize("state", State)
def test_every_state_is_read_back_as_it_was_written(state: State, level: int) -> None:
    coordinator = in_state(state, level)
    mine, other = coordinator.transaction, coordinator.fail_over().transaction
    if state in (State.EMPTY, State.ONGOING):
        mine = replace(mine, last_epoch=-1)
    assert other == mine
    assert len(coordinator.fail_over().ledger) == 1


def test_tombstones_forget() -> None:
    coordinator = begun()
    ledger = coordinator.fail_over().ledger
    ledger.replay(*encode_tombstone(NAME), 9, HEADER)
    ledger.replay(*encode_tombstone("nobody"), 10, HEADER)
    assert len(ledger) == 0
    coordinator = in_state(State.EMPTY, 2)
    assert coordinator.ledger.begin_to_forget(NAME) == encode_tombstone(NAME)
    coordinator.ledger.settle(NAME, is_committed=True)
    assert coordinator.ledger.get(NAME) is None


def test_records_that_are_not_understood_change_nothing() -> None:
    ledger = Ledger()
    key, value = encode(in_state(State.EMPTY, 2).transaction, 2)
    assert value is not None
    unread = [
        ledger.replay(b"\x00\x09", value, 0, HEADER),
        ledger.replay(b"", value, 1, HEADER),
        ledger.replay(key, b"\x00\x01\x00", 2, HEADER),
        ledger.replay(key, b"\x00\x63" + value[2:], 3, HEADER),
    ]
    kinds = [UnknownRecord, RemoteProtocolError, RemoteProtocolError, UnknownRecord]
    assert [type(each) for each in unread] == kinds
    assert len(ledger) == 0


def test_before_version_1_records_carry_no_tagged_fields() -> None:
    transaction = in_state(State.ONGOING, 1).transaction
    _, plain = encode(transaction, 0)
    _, tagged = encode(transaction, 1)
    assert plain is not None
    assert tagged is not None
    assert (plain[:2], tagged[:2]) == (b"\x00\x00", b"\x00\x01")
    rotating = at_epoch(32_766)
    rotating.end(101, 32_766)
    _, value = encode(rotating.transaction, 0)
    assert value is not None
    assert value[:2] == b"\x00\x01"  # a version 5 client's next id must not be lost


def test_times_of_a_clock_that_was_ahead_are_brought_back() -> None:
    coordinator = begun()
    other = coordinator.fail_over()
    other.ledger.on_loaded(500)
    assert other.transaction.started_ms == other.transaction.updated_ms == 500


def test_what_is_being_ended_is_told_after_loading() -> None:
    assert in_state(State.ONGOING, 2).fail_over().ledger.on_loaded(1 << 50) == []
    ending = in_state(State.PREPARE_COMMIT, 2).fail_over()
    assert ending.ledger.on_loaded(1 << 50) == [ending.transaction]


def test_one_producer_id_belongs_to_one_transactional_id() -> None:
    """Invariant 22: a planted second owner is seen."""
    coordinator = begun()
    twin = replace(coordinator.transaction, transactional_id="other")
    coordinator.ledger.replay(*encode(twin, 2), 9, HEADER)
    with pytest.raises(InvariantViolation, match="producer id 101"):
        coordinator.ledger.check_invariants()


def test_decisions_without_a_change_have_nothing_to_wait_for() -> None:
    coordinator = begun()
    assert coordinator.end(102, 0) == Decision(error=NO_MAPPING)


def test_the_end_of_what_was_fenced_at_the_last_epoch_is_fenced_too() -> None:
    coordinator = at_epoch(EXHAUSTED_EPOCH)
    assert coordinator.init(101, EXHAUSTED_EPOCH).error is ErrorCode.CONCURRENT_TRANSACTIONS
    coordinator.complete()
    assert coordinator.end(101, EXHAUSTED_EPOCH, commit=False).error is ErrorCode.PRODUCER_FENCED
