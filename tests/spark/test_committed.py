"""Records of aborted transactions are passed over, and nothing else is."""

from collections.abc import Sequence

from minikafka.client.records import AbortedTransaction, RawRecords
from minikafka.protocol.records import (
    BatchBuilder,
    EndTransactionMarker,
    build_end_transaction_batch,
)
from minikafka.spark.columns import decode
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
    data = memoryview(log_of(batches))
    end = len(batches)
    found = tuple(AbortedTransaction(*each) for each in aborted)
    raw = RawRecords("t", 0, 0, end, end, end, 0, data, found)
    return [
        value.as_py()
        for piece in visible(raw)
        for columns in decode(piece, 0, end, fields=("key", "value"))
        for value in columns.values
    ]


def test_without_aborted_transactions_the_bytes_are_handed_on_as_they_are() -> None:
    data = memoryview(log_of([(1, b"a"), (1, True)]))
    raw = RawRecords("t", 0, 0, 2, 2, 2, 0, data)
    (piece,) = visible(raw)
    assert piece is data


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
