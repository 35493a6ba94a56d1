import struct

from hypothesis import given
from hypothesis import strategies as st

from minikafka.storage.indexes import OffsetIndex, TimeIndex

BASE = 1000
STEPS = st.lists(st.tuples(st.integers(1, 50), st.integers(1, 9000)), max_size=30)


def offset_index(steps: list[tuple[int, int]]) -> tuple[OffsetIndex, list[tuple[int, int]]]:
    index = OffsetIndex(BASE)
    entries: list[tuple[int, int]] = []
    offset, position = BASE, 0
    for more_offsets, more_bytes in steps:
        offset, position = offset + more_offsets, position + more_bytes
        index.append(offset, position)
        entries.append((offset, position))
    return index, entries


@given(STEPS, st.integers(BASE - 5, BASE + 1600))
def test_entries_around_an_offset(steps: list[tuple[int, int]], offset: int) -> None:
    index, entries = offset_index(steps)
    before = [entry for entry in entries if entry[0] <= offset]
    assert index.entry_before(offset) == (before[-1] if before else None)
    after = [position for last, position in entries if last >= offset]
    assert index.position_after(offset, 10**6) == (after[0] if after else 10**6)


@given(STEPS, st.integers(-5, 300_000))
def test_entries_around_a_position(steps: list[tuple[int, int]], position: int) -> None:
    index, entries = offset_index(steps)
    before = [entry for entry in entries if entry[1] <= position]
    assert index.entry_before_position(position) == (before[-1] if before else None)
    index.truncate_to(position)
    assert len(index) == len([entry for entry in entries if entry[1] < position])


@given(STEPS)
def test_the_offset_index_is_kafkas_on_disk(steps: list[tuple[int, int]]) -> None:
    index, entries = offset_index(steps)
    data = index.encode()
    assert data == b"".join(struct.pack(">ii", last - BASE, at) for last, at in entries)
    again = OffsetIndex.decode(data, BASE, 10**6)
    assert again is not None
    assert (again.offsets, again.positions) == (index.offsets, index.positions)


@given(st.lists(st.tuples(st.integers(-1, 2**42), st.integers(1, 9)), max_size=30))
def test_the_time_index_is_kafkas_on_disk(steps: list[tuple[int, int]]) -> None:
    index, offset = TimeIndex(BASE), BASE
    entries: list[tuple[int, int]] = []
    for timestamp, more in steps:
        offset += more
        index.maybe_append(timestamp, offset)
        if timestamp >= 0 and (not entries or timestamp > entries[-1][0]):
            entries.append((timestamp, offset))
    data = index.encode()
    assert data == b"".join(struct.pack(">qi", at, last - BASE) for at, last in entries)
    again = TimeIndex.decode(data, BASE, offset + 1)
    assert again is not None
    assert again.last() == (entries[-1] if entries else (-1, BASE))
    for timestamp, _ in steps:
        before = [entry for entry in entries if entry[0] <= timestamp]
        assert again.entry_before(timestamp) == (before[-1] if before else None)


def test_what_cannot_be_true_is_none() -> None:
    def entries(*values: int) -> bytes:
        return struct.pack(f">{len(values)}i", *values)

    assert OffsetIndex.decode(entries(1, 10, 2, 20), BASE, 100) is not None
    assert OffsetIndex.decode(entries(1, 10, 2, 20)[:-1], BASE, 100) is None
    assert OffsetIndex.decode(entries(1, 10, 1, 20), BASE, 100) is None
    assert OffsetIndex.decode(entries(1, 10, 2, 10), BASE, 100) is None
    assert OffsetIndex.decode(entries(1, 10, 2, 20), BASE, 20) is None
    assert OffsetIndex.decode(bytes(80), BASE, 100) is None  # Kafka's preallocation
    assert TimeIndex.decode(struct.pack(">qiqi", 5, 1, 6, 2), BASE, BASE + 3) is not None
    assert TimeIndex.decode(struct.pack(">qiqi", 5, 1, 6, 2), BASE, BASE + 2) is None
    assert TimeIndex.decode(struct.pack(">qiqi", 5, 1, 5, 2), BASE, None) is None
    assert TimeIndex.decode(struct.pack(">qiqi", 5, 2, 6, 1), BASE, None) is None
    assert TimeIndex.decode(bytes(11), BASE, None) is None
