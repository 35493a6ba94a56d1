"""The pure state of a producer's transactions: a table of what answers mean, and its paths."""

import pytest

from minikafka.client.errors import (
    DeliveryFailed,
    DeliveryTimeout,
    ProducerFenced,
    TransactionAbortable,
    TransactionError,
    TransactionFailed,
    TransactionMisuse,
)
from minikafka.client.producer.batch import ProducerIdentity
from minikafka.client.producer.transaction import (
    Phase,
    Reaction,
    Step,
    Transaction,
    reaction_to,
)
from minikafka.protocol.errors import ApiError, ErrorCode
from minikafka.protocol.types import TopicPartition

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)
FIRST, SECOND = ProducerIdentity(7, 3), ProducerIdentity(7, 4)
NOBODY = ProducerIdentity(-1, -1)


def opened(*, is_implicit: bool) -> Transaction:
    state = Transaction()
    state.on_identity(FIRST, is_implicit=is_implicit)
    state.begin()
    return state


def has_begun(state: Transaction) -> bool:
    return state.must_tell_coordinator


def is_due(state: Transaction) -> bool:
    return state.must_renew


@pytest.mark.parametrize("step", list(Step))
@pytest.mark.parametrize("code", list(ErrorCode))
def test_every_code_has_one_meaning_at_every_step(step: Step, code: ErrorCode) -> None:
    reaction = reaction_to(step, code)
    assert (reaction is Reaction.DONE) == (code is ErrorCode.NONE)
    if code.retriable:
        assert reaction is Reaction.AGAIN
    if code in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH):
        assert reaction is Reaction.FAIL


@pytest.mark.parametrize(
    ("step", "code", "reaction"),
    [
        (Step.INIT, ErrorCode.CONCURRENT_TRANSACTIONS, Reaction.AGAIN),
        (Step.INIT, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, Reaction.FAIL),
        (Step.INIT, ErrorCode.INVALID_TRANSACTION_TIMEOUT, Reaction.FAIL),
        (Step.ADD_PARTITIONS, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, Reaction.AGAIN),
        (Step.ADD_PARTITIONS, ErrorCode.TOPIC_AUTHORIZATION_FAILED, Reaction.ABORT),
        (Step.ADD_PARTITIONS, ErrorCode.INVALID_TXN_STATE, Reaction.FAIL),
        (Step.ADD_OFFSETS, ErrorCode.GROUP_AUTHORIZATION_FAILED, Reaction.ABORT),
        (Step.ADD_OFFSETS, ErrorCode.INVALID_PRODUCER_ID_MAPPING, Reaction.RENEW),
        (Step.COMMIT_OFFSETS, ErrorCode.ILLEGAL_GENERATION, Reaction.ABORT),
        (Step.COMMIT_OFFSETS, ErrorCode.FENCED_INSTANCE_ID, Reaction.ABORT),
        (Step.COMMIT_OFFSETS, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, Reaction.FAIL),
        (Step.END, ErrorCode.TRANSACTION_ABORTABLE, Reaction.ABORT),
        (Step.END, ErrorCode.UNKNOWN_PRODUCER_ID, Reaction.RENEW),
        (Step.END, ErrorCode.UNKNOWN_SERVER_ERROR, Reaction.FAIL),
    ],
)
def test_what_an_answer_means(step: Step, code: ErrorCode, reaction: Reaction) -> None:
    assert reaction_to(step, code) is reaction


def test_in_the_newer_protocol_partitions_join_by_being_sent_to() -> None:
    state = opened(is_implicit=True)
    assert not has_begun(state)
    assert state.admit(A0)
    assert has_begun(state)
    assert state.to_add() == []
    state.begin_end(commit=True)
    assert state.on_end_answered(ErrorCode.NONE, SECOND) is Reaction.DONE
    state.on_ended()
    assert (state.phase, state.identity, is_due(state)) == (Phase.READY, SECOND, False)


def test_in_the_older_protocol_partitions_are_added_first() -> None:
    state = opened(is_implicit=False)
    assert not state.admit(A0)
    assert not state.admit(A1)
    assert state.to_add() == [A0, A1]
    state.on_asked(Step.ADD_PARTITIONS)
    done = {A0: ErrorCode.NONE, A1: ErrorCode.CONCURRENT_TRANSACTIONS}
    assert state.on_partitions_answered(done) is Reaction.AGAIN
    assert state.admit(A0)
    assert state.to_add() == [A1]
    state.begin_end(commit=False)
    assert state.to_add() == []
    assert state.on_end_answered(ErrorCode.NONE, NOBODY) is Reaction.DONE
    state.on_ended()
    assert state.identity == FIRST


def test_why_some_partition_was_refused_counts_not_that_others_were_not_tried() -> None:
    state = opened(is_implicit=False)
    state.admit(A0)
    state.on_asked(Step.ADD_PARTITIONS)
    refused = {
        A0: ErrorCode.OPERATION_NOT_ATTEMPTED,
        A1: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    }
    assert state.on_partitions_answered(refused) is Reaction.ABORT
    assert isinstance(state.error, TransactionAbortable)
    assert "a-1" in str(state.error)


def test_a_request_that_was_never_answered_may_have_begun_a_transaction() -> None:
    state = opened(is_implicit=False)
    state.admit(A0)
    state.on_asked(Step.ADD_PARTITIONS)
    state.begin_end(commit=False)
    assert not has_begun(state)
    assert is_due(state)
    state.on_identity(SECOND, is_implicit=False)
    state.on_ended()
    assert not is_due(state)


@pytest.mark.parametrize("was_sent", [False, True])
def test_a_batch_that_was_sent_and_given_up_leaves_a_gap(was_sent: bool) -> None:
    state = opened(is_implicit=False)
    state.admit(A0)
    state.on_asked(Step.ADD_PARTITIONS)
    state.on_partitions_answered({A0: ErrorCode.NONE})
    state.on_batch_lost(DeliveryTimeout(A0, 5, "silence"), was_sent=was_sent)
    with pytest.raises(TransactionAbortable, match="silence"):
        state.begin_end(commit=True)
    assert isinstance(state.why_not_send, TransactionAbortable)
    assert not state.admit(A0)
    state.begin_end(commit=False)
    assert has_begun(state)
    assert is_due(state) is was_sent


@pytest.mark.parametrize(
    ("error", "phase"),
    [
        (DeliveryFailed(A0, ApiError(ErrorCode.MESSAGE_TOO_LARGE)), Phase.DOOMED),
        (DeliveryFailed(A0, ApiError(ErrorCode.INVALID_PRODUCER_EPOCH)), Phase.DOOMED),
        (ProducerFenced(A0, ApiError(ErrorCode.PRODUCER_FENCED)), Phase.FAILED),
        (DeliveryFailed(A0, ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)), Phase.FAILED),
    ],
)
def test_what_a_lost_batch_costs(error: DeliveryFailed, phase: Phase) -> None:
    state = opened(is_implicit=True)
    state.on_batch_lost(error, was_sent=True)
    assert state.phase is phase
    assert isinstance(state.error, TransactionError | ProducerFenced)
    if phase is Phase.FAILED:
        with pytest.raises((TransactionFailed, ProducerFenced)):
            state.begin_end(commit=False)


def test_an_abort_that_the_coordinator_does_not_know_of_is_made_good_by_a_new_epoch() -> None:
    state = opened(is_implicit=False)
    state.admit(A0)
    state.on_asked(Step.ADD_PARTITIONS)
    state.on_partitions_answered({A0: ErrorCode.NONE})
    state.begin_end(commit=False)
    code = ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert state.on_end_answered(code, NOBODY) is Reaction.DONE
    assert is_due(state)


def test_a_commit_that_is_under_way_cannot_be_aborted() -> None:
    state = opened(is_implicit=True)
    state.admit(A0)
    state.begin_end(commit=True)
    with pytest.raises(TransactionMisuse, match="call commit_transaction again"):
        state.begin_end(commit=False)
    state.begin_end(commit=True)
    assert state.phase is Phase.COMMITTING


def test_going_over_to_the_newer_protocol_raises_the_epoch_and_coming_back_does_not() -> None:
    state = Transaction()
    state.on_identity(FIRST, is_implicit=False)
    state.on_protocol(is_implicit=False)
    assert not is_due(state)
    state.on_protocol(is_implicit=True)
    assert is_due(state)
    state.on_identity(SECOND, is_implicit=True)
    state.on_protocol(is_implicit=False)
    assert not is_due(state)
