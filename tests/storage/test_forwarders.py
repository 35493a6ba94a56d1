"""The batches of Forwarders: each once, without a gap, and none after a fence."""

import pytest

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.records.record_batch import BatchHeader
from minikafka.storage.forwarders import check_forwarded, find_forwarded
from minikafka.storage.markers import TransactionMarker
from minikafka.storage.producer_snapshots import decode_producers, encode_producers
from minikafka.storage.producer_state import (
    FORWARD_EPOCH,
    FORWARD_LIFE_MS,
    ProducedBatch,
    ProducerState,
)
from tests.storage.support import batch


def sent(sequence: int, offset: int = 0, count: int = 1) -> BatchHeader:
    return batch(offset, count=count, producer=(7, FORWARD_EPOCH, sequence))[0]


def state_after(*headers: BatchHeader) -> ProducerState:
    state = ProducerState()
    for header in headers:
        assert check_forwarded(state, header) is None
        state.observe(header, 1_000)
    return state


def fenced(state: ProducerState, sequence: int) -> ProducerState:
    marker = TransactionMarker(7, FORWARD_EPOCH + 1, sequence, is_commit=False)
    assert not state.check_marker(marker)
    state.observe_marker(marker, 500, 1_000)
    return state


def again(state: ProducerState) -> ProducerState:
    """Return the state as a snapshot brings it back."""
    found = decode_producers(encode_producers(state, 1_000), 1_000)
    assert found is not None
    return found


def test_a_batch_behind_a_lost_one_is_refused() -> None:
    """A usual producer's first known batch may have any sequence number (KIP-360); not so here."""
    assert check_forwarded(ProducerState(), sent(0)) is None
    assert check_forwarded(ProducerState(), sent(3)) is ErrorCode.UNKNOWN_PRODUCER_ID
    state = state_after(sent(0, 10, count=2))
    assert check_forwarded(state, sent(2)) is None
    assert check_forwarded(state, sent(3)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@pytest.mark.parametrize("restarts", [False, True])
def test_a_repeated_batch_is_known_however_old(restarts: bool) -> None:
    state = state_after(*(sent(each, 10 + each) for each in range(12)))
    state = again(state) if restarts else state
    newest = check_forwarded(state, sent(11))
    assert isinstance(newest, ProducedBatch)
    assert newest.base_offset == 21
    for sequence in range(11):
        known = check_forwarded(state, sent(sequence))
        assert known is not None
        assert isinstance(known, ProducedBatch) or known is ErrorCode.DUPLICATE_SEQUENCE_NUMBER
        assert find_forwarded(state, 7, sequence)
    assert find_forwarded(state, 7, 12) is None
    assert find_forwarded(state, 8, 0) is None


@pytest.mark.parametrize("restarts", [False, True])
def test_after_a_fence_nothing_comes_and_every_question_has_the_same_answer(
    restarts: bool,
) -> None:
    state = fenced(state_after(sent(0, 10), sent(1, 11)), 2)
    state = again(state) if restarts else state
    for sequence in range(4):
        assert check_forwarded(state, sent(sequence)) is ErrorCode.INVALID_PRODUCER_EPOCH
        assert find_forwarded(state, 7, sequence) is (sequence < 2)


def test_an_id_that_never_came_can_be_fenced() -> None:
    state = again(fenced(ProducerState(), 0))
    assert check_forwarded(state, sent(0)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert find_forwarded(state, 7, 0) is False


def test_a_truncated_fence_fences_nothing() -> None:
    state = fenced(state_after(sent(0, 10)), 1)
    assert state.truncate_to(500)
    assert check_forwarded(state, sent(1)) is None


def test_ids_of_forwarders_are_remembered_for_long() -> None:
    state = state_after(sent(0))
    usual = batch(5, producer=(8, 0, 0))[0]
    state.observe(usual, 1_000)
    assert state.remove_expired(1_000 + FORWARD_LIFE_MS - 1, 10) == 1
    assert state.known(8) is None
    assert state.known(7) is not None
    assert state.remove_expired(1_000 + FORWARD_LIFE_MS, 10) == 1
