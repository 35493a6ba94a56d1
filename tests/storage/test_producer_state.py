import struct

import pytest

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.records.record_batch import BatchHeader
from minikafka.storage.producer_snapshots import decode_producers, encode_producers
from minikafka.storage.producer_state import MAX_SEQUENCE, ProducedBatch, ProducerState
from tests.storage.support import batch


def sent(sequence: int, *, count: int = 1, epoch: int = 0, offset: int = 0) -> BatchHeader:
    return batch(offset, count=count, producer=(7, epoch, sequence))[0]


def state_after(*headers: BatchHeader) -> ProducerState:
    state = ProducerState()
    for header in headers:
        assert state.check(header) is None
        state.observe(header, 1000)
    return state


def test_of_an_unknown_producer_any_sequence_is_taken() -> None:
    assert ProducerState().check(sent(17)) is None


def test_the_next_sequence_is_due() -> None:
    state = state_after(sent(0, count=3, offset=10))
    assert state.check(sent(3)) is None
    for sequence in (1, 2, 4):
        assert state.check(sent(sequence)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_one_of_the_last_five_is_a_duplicate_at_its_old_offset() -> None:
    state = state_after(*(sent(n * 2, count=2, offset=100 + n * 2) for n in range(7)))
    for n in range(2, 7):
        known = state.check(sent(n * 2, count=2))
        assert isinstance(known, ProducedBatch)
        assert (known.base_offset, known.last_offset) == (100 + n * 2, 101 + n * 2)
    for n in range(2):
        assert state.check(sent(n * 2, count=2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    # The same first sequence with another count is another batch.
    assert state.check(sent(12, count=1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_epochs() -> None:
    state = state_after(sent(0, epoch=3), sent(1, epoch=3, offset=1))
    assert state.check(sent(2, epoch=2)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert state.check(sent(2, epoch=4)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert state.check(sent(0, epoch=4)) is None
    state.observe(sent(0, epoch=4, offset=2), 1000)
    assert state.check(sent(1, epoch=3)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert state.check(sent(1, epoch=4)) is None


def test_sequences_wrap() -> None:
    state = state_after(sent(MAX_SEQUENCE - 1, count=2, offset=5))
    assert state.check(sent(0)) is None
    state = state_after(sent(MAX_SEQUENCE, count=3, offset=5))
    assert state.check(sent(2)) is None
    assert state.check(sent(1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert isinstance(state.check(sent(MAX_SEQUENCE, count=3)), ProducedBatch)


def test_seeing_a_batch_twice_changes_nothing() -> None:
    one = sent(0, offset=5)
    state = state_after(one)
    state.observe(one, 2000)
    producer = state.get(7)
    assert producer is not None
    assert (len(producer.batches), producer.last_seen_ms) == (1, 1000)


def test_truncation_keeps_what_the_next_sequence_needs() -> None:
    state = state_after(*(sent(n, offset=n) for n in range(20)))
    assert state.truncate_to(14)
    assert state.check(sent(14)) is None
    assert not state.truncate_to(2)  # forgotten: to be learnt again from the log
    assert state.get(7) is None


def test_the_idle_expire_by_the_clock_not_by_their_records() -> None:
    state = ProducerState()
    old_records = batch(0, timestamp=5, producer=(7, 0, 0))[0]
    state.observe(old_records, 10_000)
    assert state.remove_expired(10_999, 1000) == 0
    assert state.remove_expired(11_000, 1000) == 1
    assert len(state) == 0


def test_its_snapshot_is_kafkas() -> None:
    state = state_after(sent(4, count=3, offset=10))
    data = encode_producers(state, 13)
    version, _crc, count = struct.unpack_from(">hIi", data)
    assert (version, count) == (1, 1)
    assert struct.unpack_from(">qhiqiqiq", data, 10) == (7, 0, 6, 12, 2, 1000, -1, -1)
    assert len(data) == 10 + 46


def test_a_snapshot_brings_back_the_newest_batch() -> None:
    state = state_after(sent(4, count=3, offset=10), sent(7, offset=13))
    again = decode_producers(encode_producers(state, 14), 5000)
    assert again is not None
    known = again.check(sent(7))
    assert isinstance(known, ProducedBatch)
    assert known.base_offset == 13
    assert again.check(sent(8)) is None
    assert again.check(sent(9)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_what_a_snapshot_has_no_room_for_is_still_a_duplicate() -> None:
    """Five are in flight when the broker restarts; the answers to all of them are lost."""
    state = state_after(*(sent(n * 2, count=2, offset=100 + n * 2) for n in range(5)))
    again = decode_producers(encode_producers(state, 110), 5000)
    assert again is not None
    for n in range(4):
        known = again.check(sent(n * 2, count=2))
        assert isinstance(known, ProducedBatch)
        assert known.base_offset == -1, "where it is, nobody knows"
        assert known.last_offset == 107, "but below this, and so committed with it"
    # Half of a batch that is known, and what has not been sent yet, are something else.
    assert again.check(sent(9)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert again.check(sent(11)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    for n in range(5, 9):
        again.observe(sent(n * 2, count=2, offset=100 + n * 2), 5000)
    assert again.check(sent(0, count=2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_snapshot_tells_nothing_of_what_lies_behind_it() -> None:
    """A staged batch may be lost: a snapshot that knew it would refuse its retry."""
    state = state_after(sent(0, offset=10), sent(1, offset=11))
    again = decode_producers(encode_producers(state, 11), 5000)
    assert again is not None
    assert again.check(sent(1)) is None
    nothing = decode_producers(encode_producers(state, 10), 5000)
    assert nothing is not None
    assert len(nothing) == 0


def test_a_producer_of_a_snapshot_is_idle_since_the_snapshot_was_read() -> None:
    """The clock may have been set meanwhile, and a restart is no reason to forget anybody."""
    data = encode_producers(state_after(sent(0)), 1)
    for now_ms in (400, 1 << 50):
        again = decode_producers(data, now_ms)
        assert again is not None
        assert again.remove_expired(now_ms + 99, 100) == 0
        assert again.remove_expired(now_ms + 100, 100) == 1


def test_expiry_is_postponed_by_what_a_clock_was_set_forward_but_not_beyond_now() -> None:
    state = ProducerState()
    state.observe(batch(0, producer=(7, 0, 0))[0], 10_000)
    state.observe(batch(1, producer=(8, 0, 0))[0], 90_000)
    state.postpone_expiry(80_000, 90_500)
    assert state.remove_expired(90_000 + 999, 1_000) == 0
    assert state.remove_expired(90_000 + 1_000, 1_000) == 1
    assert state.remove_expired(90_500 + 999, 1_000) == 0
    assert state.remove_expired(90_500 + 1_000, 1_000) == 1


@pytest.mark.parametrize("at", range(0, 56, 5))
def test_a_damaged_snapshot_is_none(at: int) -> None:
    data = bytearray(encode_producers(state_after(sent(0)), 1))
    assert decode_producers(bytes(data[:at]), 0) is None
    data[at] ^= 1
    assert decode_producers(bytes(data), 0) is None
    assert decode_producers(bytes(len(data)), 0) is None
