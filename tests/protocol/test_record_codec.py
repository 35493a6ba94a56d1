"""The record codec: one contract, and every way of doing it writes the same bytes, reads the same
records and refuses the same damage."""

import random
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minikafka.client.records import ConsumerRecord
from minikafka.protocol import partitioning
from minikafka.protocol.errors import LocalProtocolError
from minikafka.protocol.partitioning import murmur2
from minikafka.protocol.records import record_backend, record_columns, record_python
from minikafka.protocol.records.record_batch import TimestampType
from minikafka.protocol.records.records import Record
from minikafka.protocol.types import TopicPartition

try:
    from minikafka.protocol.records import _records
except ImportError:
    _records = None  # type: ignore[assignment]

WRITERS = [
    record_python,
    pytest.param(
        _records,
        marks=pytest.mark.skipif(_records is None, reason="nothing was compiled here"),
        id="compiled",
    ),
]
READERS = [record_python, record_columns, *WRITERS[1:]]
EACH_WRITER = pytest.mark.parametrize("codec", WRITERS, ids=lambda codec: codec.__name__)
EACH_READER = pytest.mark.parametrize("codec", READERS, ids=lambda codec: codec.__name__)
LIVE_READERS: list[Any] = [record_python, record_columns] + ([_records] if _records else [])
CREATE, APPEND = TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME

SIZES = st.sampled_from([0, 1, 63, 64, 65, 500, 8191, 8192, 9000])
BYTES = st.none() | st.binary(max_size=30) | SIZES.map(lambda n: b"v" * n)
HEADERS = st.lists(
    st.tuples(st.text(max_size=9), st.none() | st.binary(max_size=70)), max_size=3
).map(tuple)
TIMES = st.integers(-1, 2**62) | st.integers(1_700_000_000_000, 1_700_000_100_000)
ROWS = st.lists(st.tuples(TIMES, BYTES, BYTES, HEADERS), min_size=1, max_size=30)


def written(codec: Any, rows: list[Any]) -> bytes:
    body = codec.RecordBody()
    for row in rows:
        size = body.append(*row)
    assert size == body.size
    assert body.record_count == len(rows)
    return bytes(body.take()[61:])


def decode_named(codec: Any, body: bytes, count: int, names: list[str]) -> list[Record]:
    """What the chosen codec reads, with headers of these names alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record_backend, "compiled", None if codec is record_python else codec)
        patch.setattr(record_backend, "decode", codec.decode)
        return record_backend.decode_named(body, count, (10, 5, CREATE), Record, names)


def read(codec: Any, body: bytes, count: int, base: Any = (0, 0, CREATE)) -> Any:
    """What was read, or that it was refused."""
    try:
        return codec.decode(body, count, base, Record)
    except (ValueError, IndexError):
        return "refused"


@settings(max_examples=150, deadline=None)
@given(ROWS, st.integers(0, 2**62))
def test_all_write_and_read_alike(rows: list[Any], base_offset: int) -> None:
    body = written(record_python, rows)
    if _records is not None:
        assert written(_records, rows) == body
    base = rows[0][0]
    expected = [
        Record(base_offset + n, timestamp, CREATE, key, value, headers)
        for n, (timestamp, key, value, headers) in enumerate(rows)
    ]
    for codec in LIVE_READERS:
        found = codec.decode(body, len(rows), (base_offset, base, CREATE), Record)
        assert found == expected
        assert {type(one) for one in found} == {Record}
        assert (
            codec.decode(memoryview(body), len(rows), (base_offset, base, CREATE), Record)
            == expected
        )


@EACH_WRITER
def test_times_of_a_body(codec: Any) -> None:
    body = codec.RecordBody()
    for timestamp in (50, 40, 60, 55):
        body.append(timestamp, None, b"")
    assert (body.base_timestamp, body.max_timestamp) == (50, 60)


@EACH_WRITER
def test_what_cannot_be_written_leaves_no_trace(codec: Any) -> None:
    body = codec.RecordBody()
    body.append(-(2**62), None, b"first")
    size = body.size
    for row in ((0, None, "text"), (0, 7, b""), (0, None, [1]), (0, None, b"", [("h", "text")])):
        with pytest.raises(TypeError):
            body.append(*row)
    with pytest.raises(LocalProtocolError):
        body.append(2**62, None, b"")
    assert (body.size, body.record_count, body.max_timestamp) == (size, 1, -(2**62))
    body.append(-(2**62) + 2**63 - 1, None, b"second")
    assert body.record_count == 2


@EACH_WRITER
def test_bytes_like_keys_and_values_are_written(codec: Any) -> None:
    rows = [(1, bytearray(b"k"), memoryview(b"value")), (1, b"k", b"value")]
    body = written(codec, rows)
    assert [(r.key, r.value) for r in codec.decode(body, 2, (0, 1, CREATE), Record)] == [
        (b"k", b"value")
    ] * 2


def by_hand(rows: list[Any], max_size: int) -> tuple[bytes, int]:
    """What `extend` must do: append while it fits."""
    body = record_python.RecordBody()
    for taken, (timestamp, key, value) in enumerate(rows):
        once = record_python.RecordBody()
        for row in rows[: taken + 1]:
            once.append(*row)
        if once.size > max_size and taken:
            return bytes(body.take()), taken
        body.append(timestamp, key, value)
    return bytes(body.take()), len(rows)


@settings(max_examples=80, deadline=None)
@given(
    values=st.lists(BYTES, min_size=1, max_size=25),
    keyed=st.booleans(),
    max_size=st.integers(0, 3000) | st.just(1 << 30),
    seed=st.integers(0, 1000),
)
def test_extend_takes_what_fits(
    values: list[bytes | None], keyed: bool, max_size: int, seed: int
) -> None:
    dice = random.Random(seed)
    keys = [dice.choice([None, b"k", b"key" * 30]) for _ in values] if keyed else None
    rows = [(9, None if keys is None else keys[n], value) for n, value in enumerate(values)]
    expected, taken = by_hand(rows, max_size)
    for codec in [record_python] + ([_records] if _records else []):
        body = codec.RecordBody()
        assert body.extend(9, values, keys, 0, max_size) == taken
        assert body.record_count == taken
        assert bytes(body.take()) == expected


@EACH_WRITER
@pytest.mark.parametrize("count", [63, 64, 65, 8191, 8192, 8193, 20_000])
def test_extend_is_many_appends(codec: Any, count: int) -> None:
    dice = random.Random(count)
    values = [dice.randbytes(dice.choice([0, 5, 60, 61, 62, 63, 64, 200])) for _ in range(count)]
    for keys in (None, [b"%d" % n for n in range(count)]):
        body = codec.RecordBody()
        body.append(100, b"k", b"before")
        taken = 0
        while taken < count:  # in pieces, as batches are filled
            taken = body.extend(7_000, values, keys, taken, body.size + 50_000)
        rows = [(7_000, None if keys is None else keys[n], v) for n, v in enumerate(values)]
        expected = written(record_python, [(100, b"k", b"before"), *rows])
        assert (body.base_timestamp, body.max_timestamp) == (100, 7_000)
        assert bytes(body.take()[61:]) == expected


@EACH_WRITER
def test_extend_from_the_end_takes_nothing(codec: Any) -> None:
    body = codec.RecordBody()
    assert body.extend(1, [b"a"], None, 1, 1000) == 1
    assert body.record_count == 0


@EACH_WRITER
def test_measure(codec: Any) -> None:
    assert codec.measure([b"abc", None, b"a"], None) == (3, 4)
    assert codec.measure([b"abc", None], [None, b"keys"]) == (4, 7)
    assert codec.measure([], None) == (0, 0)
    for values, keys in (([b"a", "b"], None), ([b"a"], [1]), ([bytearray(b"a")], None)):
        with pytest.raises(TypeError):
            codec.measure(values, keys)
    with pytest.raises(ValueError, match="1 keys for 2 values"):
        codec.measure([b"a", b"b"], [b"k"])


@EACH_READER
def test_the_brokers_time_is_that_of_all(codec: Any) -> None:
    body = written(record_python, [(5, None, b"a"), (9, None, b"b")])
    found = codec.decode(body, 2, (10, 777, APPEND), Record)
    assert [(r.offset, r.timestamp, r.timestamp_type) for r in found] == [
        (10, 777, APPEND),
        (11, 777, APPEND),
    ]


@EACH_READER
def test_a_prefix_stands_before_each_record(codec: Any) -> None:
    body = written(record_python, [(5, b"k", b"a", (("h", None),))])
    found = codec.decode(body, 1, (10, 5, CREATE), tuple, ("topic", 3))
    assert found == [("topic", 3, 10, 5, CREATE, b"k", b"a", (("h", None),))]
    named = codec.decode(body, 1, (10, 5, CREATE), ConsumerRecord, TopicPartition("topic", 3))
    assert named == [ConsumerRecord(*found[0])]


@EACH_WRITER
@given(
    st.lists(
        st.lists(
            st.tuples(st.sampled_from(["a", "ab", "b", "\xe4"]), st.none() | st.binary(max_size=3)),
            max_size=4,
        ),
        min_size=1,
    ),
    st.lists(st.sampled_from(["a", "ab", "c"])),
)
def test_headers_of_other_names_are_stepped_over(
    codec: Any, headers: list[list[tuple[str, bytes | None]]], names: list[str]
) -> None:
    body = written(record_python, [(5, b"k", b"v", each) for each in headers])
    found = decode_named(codec, body, len(headers), names)
    everything = record_python.decode(body, len(headers), (10, 5, CREATE), Record)
    assert found == [
        each._replace(headers=tuple(one for one in each.headers if one[0] in names))
        for each in everything
    ]
    for end in range(len(body)):
        with pytest.raises((IndexError, ValueError)):
            decode_named(codec, body[:end], len(headers), names)


@EACH_READER
def test_numbers_have_no_end(codec: Any) -> None:
    body = written(record_python, [(0, None, b""), (2**62, None, b"")])
    top = 2**63 - 1
    found = codec.decode(body, 2, (top, top, CREATE), Record)
    assert [(r.offset, r.timestamp) for r in found] == [(top, top), (top + 1, top + 2**62)]


@settings(max_examples=100, deadline=None)
@given(ROWS, st.integers(0, 2**62), st.sampled_from(TimestampType))
def test_columns_are_the_rows_turned(rows: list[Any], offset: int, kind: TimestampType) -> None:
    body = written(record_python, rows)
    base = (offset, rows[0][0], kind)
    found = record_python.decode(body, len(rows), base, Record)
    for codec in LIVE_READERS:
        columns = codec.decode_columns(body, len(rows), base)
        assert columns.offsets == range(offset, offset + len(rows))
        assert list(columns.timestamps) == [r.timestamp for r in found]
        assert columns.values == [r.value for r in found]
        assert (columns.keys or [None] * len(rows)) == [r.key for r in found]
        assert (columns.headers or [()] * len(rows)) == [r.headers for r in found]
        assert (columns.keys is None) == all(r.key is None for r in found)
        assert (columns.headers is None) == (not any(r.headers for r in found))
        assert codec.decode_columns(b"", 0, base) == ([], [], None, [], None)


@EACH_READER
def test_columns_of_a_compacted_batch_have_gaps(codec: Any) -> None:
    body = b"".join(bytes((14, 0, 0, delta << 1, 1, 2, 65 + delta, 0)) for delta in (3, 4, 9, 10))
    columns = codec.decode_columns(body, 4, (100, 5, CREATE))
    assert columns.offsets == [103, 104, 109, 110]
    assert columns.values == [b"D", b"E", b"J", b"K"]


def read_columns(codec: Any, body: bytes, count: int) -> Any:
    try:
        return codec.decode_columns(body, count, (0, 0, CREATE))
    except (ValueError, IndexError):
        return "refused"


def hostile(dice: random.Random, good: bytes) -> bytes:
    """Damage that is likely to get far: bits, bytes of varints, cuts, insertions."""
    data = bytearray(good)
    for _ in range(dice.randint(1, 3)):
        at = dice.randrange(len(data)) if data else 0
        match dice.randrange(6):
            case 0 if data:
                data[at] ^= 1 << dice.randrange(8)
            case 1 if data:
                data[at] = dice.choice([0, 1, 2, 3, 0x7E, 0x7F, 0x80, 0x81, 0xFE, 0xFF])
            case 2:
                del data[at:]
            case 3:
                del data[at : at + dice.randint(1, 4)]
            case 4:
                data[at:at] = dice.randbytes(dice.randint(1, 4))
            case 5:
                data[at:at] = b"\xff" * dice.randint(1, 11) + bytes([dice.choice([0, 1, 2, 0x7F])])
    return bytes(data)


@pytest.mark.parametrize("seed", range(12))
def test_m_05_all_refuse_the_same_damage(seed: int) -> None:
    dice = random.Random(seed)
    refused = 0
    for _ in range(400):
        rows = [
            (
                dice.choice([5, 5, 70, 9000]),
                dice.choice([None, b"", b"key"]),
                dice.choice([None, b"v", dice.randbytes(70), b"w" * 130]),
                dice.choice([(), (), (("h", b"1"), ("ü", None))]),
            )
            for _ in range(dice.randint(1, 4))
        ]
        body = hostile(dice, written(record_python, rows))
        count = max(-1, len(rows) + dice.choice([0, 0, 0, 0, 1, -1, 2**31 - 1 - len(rows)]))
        expected = read(record_python, body, count)
        refused += expected == "refused"
        for codec in LIVE_READERS[1:]:
            assert read(codec, body, count) == expected, (codec.__name__, body.hex(), count)
        turned = read_columns(record_python, body, count)
        assert (turned == "refused") == (expected == "refused")
        for codec in LIVE_READERS[1:]:
            assert read_columns(codec, body, count) == turned, (codec.__name__, body.hex(), count)
        if _records is not None:
            assert located(_records, body, count) == located(record_columns, body, count)
    assert refused > 100


@pytest.mark.parametrize("seed", range(3))
def test_m_05_noise_is_refused_alike(seed: int) -> None:
    dice = random.Random(seed)
    for _ in range(2_000):
        body = dice.randbytes(dice.randint(0, 40))
        count = dice.randint(0, 4)
        expected = read(record_python, body, count)
        for codec in LIVE_READERS[1:]:
            assert read(codec, body, count) == expected, (codec.__name__, body.hex(), count)


def located(codec: Any, body: bytes, count: int) -> Any:
    if not 0 <= count < 100:
        return None
    table = np.zeros((9, count + 5), dtype=np.int64)
    try:
        codec.locate(body, count, 1000, table, 3)
    except ValueError:
        return "refused"
    assert not table[:, :3].any()
    assert not table[:, count + 3 :].any()
    return table.tolist()


@pytest.mark.parametrize("codec", [record_columns, *WRITERS[1:]], ids=lambda codec: codec.__name__)
def test_locate_says_where_fields_are(codec: Any) -> None:
    rows = [(5, None, b"value"), (9, b"key", None), (7, b"", b"x" * 100, (("h", b"1"),))]
    body = written(record_python, rows)
    table = record_columns.new_table(3)
    codec.locate(body, 3, 1000, table, 0)
    assert table[0].tolist() == [0, 4, 2]
    assert table[1].tolist() == [0, 1, 2]
    for row, (_, key, value, *_) in enumerate(rows):
        for at, wanted in ((2, key), (4, value)):
            start, length = int(table[at][row]) - 1000, int(table[at + 1][row])
            assert (None if length < 0 else body[start : start + length]) == wanted
    assert table[7].tolist() == [0, 0, 1]
    assert table[8].tolist()[-1] == 1000 + len(body)
    for column, count in ((1, 3), (-1, 3), (0, -1), (0, 4)):
        with pytest.raises(ValueError, match="no room"):
            codec.locate(body, count, 0, table, column)


@pytest.mark.parametrize("live", [None, *([_records] if _records else [])])
def test_many_batches_are_located_together(live: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_backend, "compiled", live)
    lots = [[(n, None, b"%d" % n) for n in range(size)] for size in (1, 300, 2)]
    bodies = [written(record_python, lot) for lot in lots]
    payload, table = record_columns.locate_all(bodies, [1, 300, 2])
    values = [payload[at : at + size] for at, size in zip(*table[4:6].tolist(), strict=True)]
    assert values == [value for lot in lots for _, _, value in lot]
    assert table[1].tolist() == [0, *range(300), 0, 1]
    assert record_columns.locate_all([], [])[1].shape == (9, 0)
    for counts in ([1, 300, 3], [1, 299, 2], [1, 2**31 - 1, 2], [-1, 300, 2]):
        with pytest.raises(ValueError, match=r"record|bytes"):
            record_columns.locate_all(bodies, counts)


@pytest.mark.skipif(_records is None, reason="nothing was compiled here")
class TestSpans:
    """Only the compiled codec writes straight out of Arrow's buffers."""

    DATA = b"onetwothree"

    def spans(self, *pairs: tuple[int, int]) -> Any:
        starts, lengths = zip(*pairs, strict=True)
        return self.DATA, np.array(starts, dtype=np.int64), np.array(lengths, dtype=np.int64)

    def test_they_are_written_like_lists(self) -> None:
        body = _records.RecordBody()
        times = np.array([5, 6, 7], dtype=np.int64)
        values = self.spans((0, 3), (3, 3), (6, 5))
        keys = self.spans((0, 0), (0, -1), (3, 1))
        assert body.extend_spans(times, values, keys, 0, 1 << 20) == 3
        rows = [(5, b"", b"one"), (6, None, b"two"), (7, b"t", b"three")]
        assert bytes(body.take()[61:]) == written(record_python, rows)
        assert body.extend_spans(times, values, None, 1, 80) == 2

    def test_headers_are_copied_as_they_were_written(self) -> None:
        some: list[Any] = [[("h", b"1"), ("i", None)], [], [("\xfc", b"")]]
        parts = [record_python.encode_headers(each) for each in some]
        starts = np.cumsum([0, *map(len, parts)])[:-1]
        lengths = np.array([len(parts[0]), -1, len(parts[2])], dtype=np.int64)
        times = np.array([5, 6, 7], dtype=np.int64)
        values = self.spans((0, 3), (3, 3), (6, 5))
        body = _records.RecordBody()
        headers = b"".join(parts), starts, lengths
        assert body.extend_spans(times, values, None, 0, 1 << 20, headers) == 3
        expected = record_python.RecordBody()
        rows = zip((5, 6, 7), (b"one", b"two", b"three"), some, strict=True)
        for timestamp, value, each in rows:
            expected.append(timestamp, None, value, each)
        assert bytes(body.take()) == bytes(expected.take())

    def test_keys_are_hashed_like_one_by_one(self) -> None:
        pairs = [(start, length) for start in range(8) for length in range(4)] + [(0, -1)]
        hashes = np.zeros(len(pairs), dtype=np.uint32)
        _records.murmur2_spans(self.spans(*pairs), hashes)
        keys = [self.DATA[start : start + max(length, 0)] for start, length in pairs]
        assert hashes.tolist() == [murmur2(key) for key in keys]
        with pytest.raises(ValueError, match="no room"):
            _records.murmur2_spans(self.spans(*pairs), hashes[1:])
        with pytest.raises(ValueError, match="outside"):
            _records.murmur2_spans(self.spans((11, 1)), hashes)

    @pytest.mark.parametrize("pair", [(9, 3), (-1, 3), (2**62, 3), (0, 2**62), (12, 0)])
    def test_m_05_a_span_outside_its_buffer_is_refused(self, pair: tuple[int, int]) -> None:
        times = np.array([5], dtype=np.int64)
        with pytest.raises(ValueError, match="outside"):
            _records.RecordBody().extend_spans(times, self.spans(pair), None, 0, 1 << 20)

    def test_m_05_columns_of_unequal_length_are_refused(self) -> None:
        times = np.array([5], dtype=np.int64)
        two, one = self.spans((0, 1), (0, 1)), self.spans((0, 1))
        columns: list[Any] = [(two, None), (one, ()), ((two[0], two[1], one[2]), None)]
        for values, keys in columns:
            with pytest.raises(ValueError, match=r"unequal|unpack"):
                _records.RecordBody().extend_spans(times, values, keys, 0, 1 << 20)
        none = self.DATA, times[:0], times[:0]
        with pytest.raises(ValueError, match="unequal"):
            _records.RecordBody().extend_spans(times, one, None, 0, 1 << 20, none)
        long = np.array([5, 5], dtype=np.int64)
        with pytest.raises(ValueError, match="unequal"):
            _records.RecordBody().extend_spans(long, two, one, 0, 1 << 20)


@pytest.mark.skipif(_records is None, reason="nothing was compiled here")
def test_m_05_rows_are_made_of_plain_tuples_only() -> None:
    class Heavy(tuple[Any, ...]):
        """Instances have a dict, which rows would come without."""

    body = written(record_python, [(5, None, b"a")])
    wrong_types: list[Any] = [Heavy, list, 7]
    for wrong in wrong_types:
        with pytest.raises(TypeError):
            _records.decode(body, 1, (0, 5, CREATE), wrong)


@pytest.mark.skipif(_records is None, reason="nothing was compiled here")
@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=40))
def test_keys_hash_alike(key: bytes) -> None:
    assert _records.murmur2(key) == partitioning.murmur2(key)


def test_the_backend_that_is_live_is_named() -> None:
    live: ModuleType = record_python if record_backend.compiled is None else _records
    assert ("python" if live is record_python else "compiled") == record_backend.NAME
    assert record_backend.RecordBody is live.RecordBody


FURTHEST = ((-1 << 63), (1 << 63) - 1)


def examined(codec: Any, body: bytes, count: int, *rules: Any) -> Any:
    """What was found, or which record is refused."""
    try:
        return codec.examine(body, count, *rules)
    except record_python.BadRecord as error:
        return "refused", error.index


@settings(max_examples=100, deadline=None)
@given(ROWS, st.integers(-50, 50), st.integers(-50, 50))
def test_both_find_the_same_in_good_records(rows: list[Any], earliest: int, latest: int) -> None:
    body = written(record_python, rows)
    deltas = [timestamp - rows[0][0] for timestamp, *_ in rows]
    keyless = tuple(n for n, (_, key, _, _) in enumerate(rows) if key is None)
    untimely = tuple(n for n, delta in enumerate(deltas) if not earliest <= delta <= latest)
    for codec in (record_python, *([_records] if _records else [])):
        found = codec.examine(body, len(rows), True, earliest, latest)
        assert found == (min(deltas), max(deltas), keyless, untimely)
        assert codec.examine(memoryview(body), len(rows), False, *FURTHEST)[2:] == ((), ())
        first = next(((d, n) for n, d in enumerate(deltas) if d >= latest and n >= 1), None)
        assert codec.first_at(body, len(rows), latest, 1) == first


@settings(max_examples=100, deadline=None)
@given(ROWS, st.sets(st.integers(-1, 30)))
def test_both_find_records_by_their_offsets(rows: list[Any], wanted: set[int]) -> None:
    body = written(record_python, rows)
    base = (0, 0, TimestampType.CREATE_TIME)
    everything = record_python.decode(body, len(rows), base, Record)
    for codec in (record_python, *([_records] if _records else [])):
        places = codec.find(memoryview(body), len(rows), sorted(wanted))
        read = [codec.decode(body[start:end], 1, base, Record)[0] for start, end in places]
        assert read == [record for record in everything if record.offset in wanted]


@EACH_WRITER
def test_a_search_by_offset_reads_up_to_the_last_record_that_is_wanted(codec: Any) -> None:
    rows: list[Any] = [(1, None, b"value", ())] * 3
    body = bytearray(written(record_python, rows))
    places = record_python.find(body, 3, [0, 1, 2])
    body[places[2][0]] = 1
    assert codec.find(body, 3, [1]) == [places[1]]
    assert codec.find(body, 3, []) == []
    with pytest.raises(record_python.BadRecord) as refused:
        codec.find(body, 3, [2])
    assert refused.value.index == 2
    with pytest.raises(record_python.BadRecord):
        codec.find(body, 10_000, [0])


@EACH_WRITER
def test_the_cheapest_walk_finds_what_the_thorough_one_does(codec: Any) -> None:
    dice = random.Random(5)
    found = 0
    for _ in range(500):
        rows = [
            (dice.randrange(99), dice.choice([None, b"k", b"k"]), b"v" * dice.randrange(90))
            for _ in range(dice.randint(1, 3))
        ]
        body = written(record_python, rows)
        if dice.random() < 0.5:
            body = hostile(dice, body)
        count = len(rows) + dice.choice([0, 0, 0, 1, -1])
        for needs_keys in (False, True):
            thorough = examined(record_python, body, count, needs_keys, *FURTHEST)
            is_good = thorough[0] != "refused" and not thorough[2]
            expected = thorough[1] if is_good else None
            found += is_good
            assert codec.highest_delta(b"head" + body, 4, count, needs_keys) == expected
    assert 200 < found < 800
    assert codec.highest_delta(b"", 4, 1, False) is None


@EACH_WRITER
def test_only_so_many_bad_records_are_named(codec: Any) -> None:
    count = record_python.MOST_NAMED + 50
    body = written(codec, [(n, None, b"") for n in range(count)])
    _, _, keyless, untimely = codec.examine(body, count, True, count, count)
    assert keyless == untimely == tuple(range(record_python.MOST_NAMED))


@EACH_WRITER
def test_the_first_record_that_does_not_add_up_is_named(codec: Any) -> None:
    three = written(codec, [(1, b"key", b"value")] * 3)
    size = len(three) // 3
    twice = three[:size] * 2
    cases = {
        "a record less": (three, 4, 3),
        "a record more": (three, 2, -1),
        "offset deltas that stand still": (twice, 2, 1),
        "noise": (three[:size] + b"\xff" * size, 2, 1),
        "more than could be": (three, 1000, -1),
        "none": (three, 0, -1),
        "fewer than none": (three, -1, -1),
        "a key beyond its record": (three.replace(b"\x06key", b"\x7ekey", 1), 3, 0),
        "a negative length": (three[:size] + b"\x01" + three[size + 1 :], 3, 1),
    }
    for name, (body, count, index) in cases.items():
        assert examined(codec, body, count, False, *FURTHEST) == ("refused", index), name


@EACH_WRITER
@pytest.mark.parametrize(
    "at", [0, 3, 4, 8, 14], ids=["length", "offset", "key", "value", "headers"]
)
def test_no_number_takes_more_bytes_than_java_reads(codec: Any, at: int) -> None:
    record = bytes(written(codec, [(1, b"key", b"value")]))
    assert (record[3:5], record[8], record[14]) == (b"\x00\x06", 10, 0)

    def padded(size: int) -> bytes:
        number = bytes([record[at] | 0x80]) + b"\x80" * (size - 2) + b"\x00"
        if at == 0:
            return number + record[1:]
        # The record's own length grows with it.
        return bytes([record[0] + 2 * (size - 1)]) + record[1:at] + number + record[at + 1 :]

    assert examined(codec, padded(5), 1, False, *FURTHEST)[0] != "refused"
    assert examined(codec, padded(6), 1, False, *FURTHEST) == ("refused", 0)


@pytest.mark.parametrize("seed", range(6))
def test_m_05_both_judge_damage_alike_and_readers_read_what_they_let_pass(seed: int) -> None:
    dice = random.Random(seed)
    refused = 0
    for _ in range(400):
        rows = [
            (dice.randrange(99), dice.choice([None, b"k"]), b"v" * dice.randrange(90))
            for _ in range(dice.randint(1, 5))
        ]
        rows.append((1, b"k", b"v", (("h", b"x"), ("i", None))))  # type: ignore[arg-type]
        body = hostile(dice, written(record_python, rows))
        count = len(rows) + dice.choice([0, 0, 0, 1, -1])
        rules = (True, dice.randrange(-9, 9), dice.randrange(-9, 99))
        expected = examined(record_python, body, count, *rules)
        refused += expected[0] == "refused"
        if _records is not None:
            assert examined(_records, body, count, *rules) == expected, (body.hex(), count)
        if expected[0] != "refused":
            assert read(record_python, body, count) != "refused", (body.hex(), count)
    assert refused > 100
