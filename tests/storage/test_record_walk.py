"""The records of a batch as slices, and what is left of a batch written again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.protocol.errors import RemoteProtocolError
from minikafka.protocol.records.record_batch import (
    BatchBuilder,
    Codec,
    Record,
    read_header,
    records,
    rewrite_as_log_append_time,
)
from minikafka.storage.compaction.record_walk import Rewrite, rewritten, walk

ENTRIES = st.lists(
    st.tuples(
        st.integers(0, 2**41),
        st.none() | st.binary(max_size=200),
        st.none() | st.binary(max_size=200),
        st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=3)), max_size=2),
    ),
    min_size=1,
    max_size=20,
)


def built(entries: list[tuple[int, bytes | None, bytes | None, list]], codec: Codec) -> bytearray:  # type: ignore[type-arg]
    builder = BatchBuilder(codec)
    for entry in entries:
        builder.append(*entry)
    return builder.build(base_offset=1_000, leader_epoch=3)


@given(ENTRIES, st.sampled_from(list(Codec)), st.booleans(), st.none() | st.integers(0, 2**41))
def test_what_is_kept_is_as_it_was(
    entries: list[tuple[int, bytes | None, bytes | None, list]],  # type: ignore[type-arg]
    codec: Codec,
    is_append_time: bool,
    horizon_ms: int | None,
) -> None:
    data = built(entries, codec)
    if is_append_time:
        rewrite_as_log_append_time(data, 0, 777)
    header, before = read_header(data), records(data)
    body, slices = walk(data, 0, header)
    assert [(s.offset_delta, s.key, s.has_value) for s in slices] == [
        (r.offset - 1_000, r.key, r.value is not None) for r in before
    ]
    kept = slices[::2]
    once = rewritten(header, body, Rewrite(kept, horizon_ms))
    again = read_header(once)
    assert records(once, check_crc=True) == before[::2]
    assert (again.base_offset, again.last_offset, again.leader_epoch) == (
        header.base_offset,
        header.last_offset,
        header.leader_epoch,
    )
    assert again.compression is codec
    assert again.has_delete_horizon is (horizon_ms is not None)
    assert horizon_ms is None or again.base_timestamp == horizon_ms
    assert again.max_timestamp == max(record.timestamp for record in before[::2])
    # A batch that has its horizon keeps it when it loses more.
    body, slices = walk(once, 0, again)
    twice = rewritten(again, body, Rewrite(slices[:1]))
    assert records(twice) == before[:1]
    assert read_header(twice).has_delete_horizon is again.has_delete_horizon


def test_an_emptied_batch_still_says_where_the_log_goes_on() -> None:
    data = built([(5, b"a", b"1", []), (9, b"b", b"2", [])], Codec.ZSTD)
    header = read_header(data)
    left = rewritten(header, b"", Rewrite([]))
    found: list[Record] = records(left, check_crc=True)
    assert found == []
    empty = read_header(left)
    assert (empty.last_offset, empty.max_timestamp, empty.size) == (1_001, 9, 61)
    assert walk(left, 0, empty) == (b"", [])


@given(st.data())
def test_damage_is_told(data: st.DataObject) -> None:
    batch = built([(5, b"key", b"value", [])] * 3, Codec.NONE)
    at = data.draw(st.integers(61, len(batch) - 1))
    batch[at] ^= data.draw(st.integers(1, 255))
    header = read_header(batch)
    try:
        body, slices = walk(batch, 0, header)
    except RemoteProtocolError:
        return
    # What reads well is within the batch: a slice never reaches beyond it.
    assert all(0 <= each.start < each.rest < each.end <= len(body) for each in slices)


def test_a_batch_that_ends_early_is_damaged() -> None:
    batch = built([(5, b"key", b"value", [])] * 3, Codec.NONE)
    header = read_header(batch)
    header.record_count = 4
    with pytest.raises(RemoteProtocolError):
        walk(batch, 0, header)
    header.record_count = 2
    with pytest.raises(RemoteProtocolError):
        walk(batch, 0, header)
