"""Columns hold what the records hold, for any records, codec and cut; damage is refused."""

import struct
from collections.abc import Collection, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minikafka.protocol.compression import Codec
from minikafka.protocol.errors import RemoteProtocolError
from minikafka.protocol.records.record_batch import (
    HEADER_SIZE,
    headers,
    rewrite_as_log_append_time,
    seal,
)
from minikafka.protocol.records.records import NewRecord, build, records
from minikafka.spark.columns import Columns, decode_batches
from minikafka.spark.committed import checked
from minikafka.spark.header_columns import MANY

MAYBE_BYTES = st.none() | st.binary(max_size=300)
RECORDS = st.lists(
    st.builds(
        NewRecord,
        timestamp=st.integers(0, 2**45),
        key=MAYBE_BYTES,
        value=MAYBE_BYTES,
        headers=st.lists(st.tuples(st.text(max_size=5), MAYBE_BYTES), max_size=2),
    ),
    min_size=1,
    max_size=30,
)


PLAIN = ("key", "value")
ALL = (*PLAIN, "headers")


def decode(
    data: bytes | bytearray,
    start: int,
    end: int,
    *,
    fields: Collection[str],
    check_crcs: bool = True,
) -> Iterator[Columns]:
    batches = (each for each in checked(data, check_crcs=check_crcs) if not each[1].is_control)
    return decode_batches(data, batches, range(start, end), fields)


def batch(new: list[NewRecord], codec: Codec, base_offset: int) -> bytearray:
    return build(new, compression=codec, base_offset=base_offset, leader_epoch=3)


@settings(max_examples=150)
@given(RECORDS, RECORDS, st.sampled_from(Codec), st.integers(0, 70), st.integers(0, 70))
def test_columns_equal_the_records(
    first: list[NewRecord], second: list[NewRecord], codec: Codec, start: int, length: int
) -> None:
    data = batch(first, codec, 10) + batch(second, codec, 10 + len(first))
    end = start + length
    expected = [
        record
        for pos, _ in headers(data)
        for record in records(data, pos)
        if start <= record.offset < end
    ]
    found = [
        (offset, timestamp, key, value, [(h["key"], h["value"]) for h in row or ()])
        for columns in decode(data, start, end, fields=ALL)
        for offset, timestamp, key, value, row in zip(
            columns.offsets.tolist(),
            columns.timestamps_ms.tolist(),
            columns.keys.to_pylist(),
            columns.values.to_pylist(),
            columns.headers.to_pylist(),
            strict=True,
        )
    ]
    assert found == [(r.offset, r.timestamp, r.key, r.value, list(r.headers)) for r in expected]


@given(RECORDS, st.data())
def test_any_damage_is_refused_or_decodes(new: list[NewRecord], data: st.DataObject) -> None:
    made = batch(new, Codec.NONE, 0)
    for _ in range(3):
        at = data.draw(st.integers(61, len(made) - 1))
        made[at] = data.draw(st.integers(0, 255))
    try:
        list(decode(made, 0, 1000, fields=ALL, check_crcs=False))
    except RemoteProtocolError:
        return


def test_what_is_not_asked_for_is_left_out() -> None:
    made = batch([NewRecord(5, b"k", b"v", [("h", b"x")])] * 2, Codec.NONE, 7)
    (columns,) = decode(made, 8, 100, fields=PLAIN)
    assert columns.headers is None
    assert (columns.offsets.tolist(), columns.values.to_pylist()) == ([8], [b"v"])
    (columns,) = decode(made, 8, 100, fields=("offset", "key"))
    assert (columns.values, columns.keys.to_pylist()) == (None, [b"k"])


def test_a_batch_cut_off_is_refused() -> None:
    made = batch([NewRecord(5, b"k", b"v" * 200)], Codec.NONE, 0)
    made[57:61] = (2).to_bytes(4, "big")
    with pytest.raises(RemoteProtocolError, match="inside a record"):
        list(decode(made, 0, 100, fields=PLAIN, check_crcs=False))


def test_a_wrong_checksum_is_refused_unless_checks_are_off() -> None:
    made = batch([NewRecord(5, b"k", b"v", [])], Codec.NONE, 0)
    made[-2] ^= 1
    with pytest.raises(RemoteProtocolError, match="corrupt"):
        list(decode(made, 0, 100, fields=PLAIN))
    list(decode(made, 0, 100, fields=PLAIN, check_crcs=False))


@pytest.mark.parametrize("bit", range(HEADER_SIZE * 8))
def test_a_flipped_bit_in_a_header_is_never_a_batch_less(bit: int) -> None:
    one, two = (batch([NewRecord(5, b"k", b"v", [])] * 3, Codec.NONE, n) for n in (3, 6))
    one[bit // 8] ^= 1 << bit % 8
    size = len(one)
    by_checksum_only = bit // 8 in (12, 13, 14, 15)
    is_cut_off = struct.unpack_from(">i", one, 8)[0] + 12 > size + len(two)
    try:
        found = [o for c in decode(one + two, 0, 100, fields=PLAIN) for o in c.offsets.tolist()]
    except RemoteProtocolError:
        return
    # The leader's epoch says nothing of records; a batch that is cut off is fetched again; a base
    # offset that still lies before the next batch cannot be known to be wrong.
    assert by_checksum_only or is_cut_off or len(found) == 6


def test_offsets_that_do_not_rise_are_refused() -> None:
    same = batch([NewRecord(5, b"k", b"v", [])], Codec.NONE, 4)
    with pytest.raises(RemoteProtocolError, match="offset 4 ends at 4, and follows offset 4"):
        list(decode(same + same, 0, 9, fields=PLAIN))


def test_small_batches_are_decoded_together() -> None:
    made = b"".join(batch([NewRecord(n, b"%d" % n, None, [])], Codec.NONE, n) for n in range(500))
    (columns,) = decode(made, 100, 400, fields=ALL)
    assert columns.offsets.tolist() == list(range(100, 400))
    assert columns.timestamps_ms.tolist() == list(range(100, 400))
    assert columns.keys.to_pylist() == [b"%d" % n for n in range(100, 400)]
    assert columns.values.null_count == 300


def test_append_time_is_that_of_the_batch() -> None:
    first = batch([NewRecord(5, b"a", None, []), NewRecord(6, b"b", None, [])], Codec.NONE, 0)
    second = batch([NewRecord(7, b"c", None, [])], Codec.NONE, 2)
    rewrite_as_log_append_time(first, 0, 999)
    (columns,) = decode(first + second, 0, 3, fields=PLAIN)
    assert columns.timestamps_ms.tolist() == [999, 999, 7]
    assert columns.timestamp_types.tolist() == [1, 1, 0]


def test_control_batches_hold_no_rows() -> None:
    marker = batch([NewRecord(5, b"k", b"v", [])], Codec.NONE, 0)
    marker[22] |= 0x20
    seal(marker)
    data = marker + batch([NewRecord(5, b"k", b"v", [])], Codec.NONE, 1)
    found = [c.offsets.tolist() for c in decode(data, 0, 9, fields=PLAIN)]
    assert found == [[1]]


def test_headers_by_the_hundred_and_keys_that_are_no_text_are_read_too() -> None:
    some: list[list[tuple[str, bytes | None]]] = [
        [("h", b"%d" % n) for n in range(MANY + 1)],
        [],
        [("nul", None), ("", b"")],
    ]
    made = batch([NewRecord(5, None, b"v", each) for each in some], Codec.NONE, 0)
    (columns,) = decode(made, 0, 9, fields=ALL)
    rows = [row and [(h["key"], h["value"]) for h in row] for row in columns.headers.to_pylist()]
    assert rows == [each or None for each in some]
    few = batch([NewRecord(5, None, b"v", [("nul", b"x")])], Codec.NONE, 0)
    few[few.index(b"nul") + 1] = 0xFF
    (columns,) = decode(few, 0, 9, fields=ALL, check_crcs=False)
    assert columns.headers.to_pylist() == [[{"key": "n\ufffdl", "value": b"x"}]]


@pytest.mark.parametrize("count", [2, 40, 63])
def test_headers_that_overrun_their_record_are_refused(count: int) -> None:
    made = batch([NewRecord(5, None, b"v", [("h", b"x" * 200)])], Codec.NONE, 0)
    made[made.index(b"v") + 1] = count << 1
    with pytest.raises(RemoteProtocolError, match="header"):
        list(decode(made, 0, 9, fields=ALL, check_crcs=False))
