"""Records of aborted transactions are passed over, and nothing else is."""

from collections.abc import Sequence

import pytest

from minikafka.client.records import AbortedTransaction, RawRecords
from minikafka.protocol.errors import RemoteProtocolError
from minikafka.protocol.records.records import (
    BatchBuilder,
    EndTransactionMarker,
    build_end_transaction_batch,
)
from minikafka.protocol.types import Buffer
from minikafka.spark.columns import decode_batches
from minikafka.spark.committed import visible

Batch = tuple[int | None, bytes | bool]
"""Producer and value; None sends outside a transaction, True and False are its markers."""


def log_of(batches: Sequence[Batch]) -> bytes:
    data = bytearray()
    for offset, (producer, what) in enumerate(batches):
        if isinstance(what, bool):
            assert producer is not None
            marker = build_end_transaction_batch(EndTransactionMarker(what, 0), producer, 0, 1000)
            marker[:8] = offset.to_bytes(8, "big")
            data += marker
            continue
        builder = BatchBuilder(is_transactional=producer is not None)
        builder.append(1000, None, what)
        known = -1 if producer is None else producer
        data += builder.build(producer_id=known, producer_epoch=0, base_offset=offset)
    return bytes(data)


def seen(batches: Sequence[Batch], *aborted: tuple[int, int]) -> list[bytes]:
    """What is read, given (producer id, first offset) of aborted transactions."""
    raw = raw_of(log_of(batches), aborted)
    return [
        value.as_py()
        for columns in decode_batches(raw.data, visible(raw), range(len(batches)), ("value",))
        for value in columns.values
    ]


def raw_of(data: Buffer, aborted: Sequence[tuple[int, int]] = (), position: int = 0) -> RawRecords:
    found = tuple(AbortedTransaction(*each) for each in aborted)
    return RawRecords("t", 0, position, 9, 9, 9, 0, memoryview(data), found)


def test_an_aborted_transaction_between_others() -> None:
    log: list[Batch] = [(None, b"a"), (1, b"no"), (2, b"b"), (1, b"no"), (1, False), (2, True)]
    assert seen([*log, (None, b"c")], (1, 1)) == [b"a", b"b", b"c"]


def test_a_producers_committed_transactions_around_an_aborted_one() -> None:
    log: list[Batch] = [(1, b"a"), (1, True), (1, b"no"), (1, False), (1, b"b"), (1, True)]
    assert seen(log, (1, 2)) == [b"a", b"b"]


def test_two_aborted_transactions_in_any_order() -> None:
    log: list[Batch] = [(2, b"no"), (1, b"no"), (2, False), (2, b"a"), (1, False), (2, b"no")]
    assert seen([*log, (2, False)], (2, 5), (1, 1), (2, 0)) == [b"a"]


def test_a_transaction_that_began_before_the_fetch() -> None:
    assert seen([(1, b"no"), (1, False), (1, b"a")], (1, -7)) == [b"a"]


def test_records_outside_transactions_of_the_same_producer_count() -> None:
    assert seen([(None, b"a"), (1, b"no"), (None, b"b")], (1, 1)) == [b"a", b"b"]


def test_everything_aborted_is_nothing() -> None:
    assert seen([(1, b"no"), (1, b"no")], (1, 0)) == []


@pytest.mark.parametrize("bit", [0x10, 0x20])
@pytest.mark.parametrize("aborted", [(), [(1, 0)]])
def test_a_flipped_bit_hides_no_batch(bit: int, aborted: Sequence[tuple[int, int]]) -> None:
    data = bytearray(log_of([(1, b"no"), (2, b"a"), (None, b"b")]))
    data[len(data) // 3 + 22] ^= bit
    data[len(data) // 3 * 2 + 22] ^= bit
    raw = raw_of(data, aborted)
    with pytest.raises(RemoteProtocolError, match="corrupt"):
        list(visible(raw))
    assert list(visible(raw, check_crcs=False))


def test_a_base_offset_below_what_was_asked_for_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="asked for offset 5, got a batch that ends at 0"):
        list(visible(raw_of(log_of([(None, b"a")]), position=5)))


def test_only_an_abort_marker_ends_what_does_not_count() -> None:
    assert seen([(1, b"no"), (1, True), (1, b"no"), (1, False), (1, b"a")], (1, 0)) == [b"a"]
