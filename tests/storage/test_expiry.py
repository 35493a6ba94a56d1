"""What a consumer gets of batches that have expired, in whole or in part. The log keeps them."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.protocol.errors import ApiError, ErrorCode
from minikafka.protocol.expiry import EXPIRED_KEY, EXPIRES_AT, NEVER, TTL_MS, TtlRule, read_expiry
from minikafka.protocol.records.batch_header import crc_is_valid
from minikafka.protocol.records.record_batch import (
    BatchBuilder,
    Codec,
    Record,
    headers,
    records,
    rewrite_as_log_append_time,
)
from minikafka.storage.expiry import MOST_KNOWN, OPENED_BYTES, READ_OPENED, Expiry
from minikafka.storage.markers import TransactionMarker, encode_marker
from tests.support.bombs import Expanded

Headers = tuple[tuple[str, bytes], ...]
Entry = tuple[int, Headers]
STRICT = TtlRule(by_header=True, is_strict=True)
BY_HEADER = TtlRule(by_header=True)
AFTER_10 = TtlRule(10)


def at(expires_ms: int) -> Headers:
    return ((EXPIRES_AT, b"%d" % expires_ms),)


def built(offset: int, entries: Sequence[Entry], codec: Codec = Codec.NONE) -> bytearray:
    """A batch of (timestamp, headers); each value is the record's offset."""
    builder = BatchBuilder(codec, is_transactional=True)
    for number, (timestamp, said) in enumerate(entries):
        builder.append(timestamp, b"k", b"%d" % (offset + number), said)
    return builder.build(
        producer_id=7, producer_epoch=1, base_sequence=0, base_offset=offset, leader_epoch=3
    )


def joined(*batches: bytearray) -> memoryview:
    return memoryview(b"".join(batches))


def read(data: memoryview) -> list[tuple[int, int, bool]]:
    """First and last offset of each batch, and whether it is a control batch; checksums hold."""
    found = []
    for position, header in headers(data):
        assert crc_is_valid(data, position, header)
        found.append((header.base_offset, header.last_offset, header.is_control))
    return found


def values(data: memoryview) -> list[bytes | None]:
    return [
        record.value
        for position, header in headers(data)
        if not header.is_control
        for record in records(data, position)
    ]


def test_what_has_not_expired_is_passed_on_as_it_is() -> None:
    data = joined(built(0, [(5, ())]), built(1, [(6, ())]))
    assert Expiry(AFTER_10).without_expired(data, 14) is data
    assert Expiry(TtlRule(by_header=True)).without_expired(data, NEVER - 1) is data


def test_r_40_runs_of_expired_batches_are_one_control_batch_each() -> None:
    data = joined(*(built(2 * n, [(n, ()), (n, ())]) for n in (0, 1)), built(4, [(50, ())]))
    data = joined(bytearray(data), built(5, [(1, ())]), built(6, [(2, ())]))
    left = Expiry(AFTER_10).without_expired(data, 12)
    assert read(left) == [(0, 3, True), (4, 4, False), (5, 6, True)]
    (_, run), *_ = headers(left)
    assert (run.producer_id, run.is_transactional, run.leader_epoch) == (-1, False, 3)
    (record,) = records(left)
    assert record.key == EXPIRED_KEY
    whole = Expiry(AFTER_10).without_expired(data, 60)
    assert read(whole) == [(0, 6, True)]


def test_r_40_ends_of_transactions_are_never_hidden() -> None:
    marker = encode_marker(TransactionMarker(7, 1, 0, is_commit=False), 1)
    marker[0:8] = (1).to_bytes(8, "big")
    data = joined(built(0, [(1, ())]), marker, built(2, [(1, ())]))
    assert read(Expiry(AFTER_10).without_expired(data, 99)) == [
        (0, 0, True),
        (1, 1, True),
        (2, 2, True),
    ]
    assert bytes(marker) in bytes(Expiry(AFTER_10).without_expired(data, 99))


@pytest.mark.parametrize("codec", list(Codec))
def test_r_41_a_mixed_batch_stays_whole_or_loses_what_has_expired(codec: Codec) -> None:
    data = joined(built(4, [(1, at(10)), (2, ()), (3, at(30)), (4, at(20))], codec))
    assert Expiry(BY_HEADER).without_expired(data, 25) is data
    strict = Expiry(STRICT)
    assert strict.without_expired(data, 9) is data
    left = strict.without_expired(data, 25)
    assert (read(left), values(left)) == ([(4, 7, False)], [b"5", b"6"])
    assert [record.offset for record in records(left)] == [5, 6]
    (_, header), *_ = headers(left)
    assert (header.producer_id, header.base_sequence, header.last_sequence) == (7, 0, 3)
    assert header.compression is codec


def test_a_batch_out_of_which_records_were_taken_expires_too() -> None:
    whole = joined(built(0, [(1, ()), (9, ()), (5, ())]))
    left = Expiry(TtlRule(10, is_strict=True)).without_expired(whole, 11)
    assert [record.offset for record in records(left)] == [1, 2]
    for rule in (TtlRule(10, is_strict=True), TtlRule(10, True, True)):
        assert Expiry(rule).without_expired(left, 14) is left
        assert values(Expiry(rule).without_expired(left, 15)) == [b"1"]
        assert read(Expiry(rule).without_expired(left, 19)) == [(0, 2, True)]


def test_r_42_what_was_hidden_on_a_replica_is_not_seen_there_again() -> None:
    data = joined(built(0, [(1, ())]))
    expiry = Expiry(AFTER_10)
    assert expiry.without_expired(data, 10) is data
    assert read(expiry.without_expired(data, 11)) == [(0, 0, True)]
    assert read(expiry.without_expired(data, 0)) == [(0, 0, True)]


def test_a_record_without_a_timestamp_expires_by_its_header_only() -> None:
    data = joined(built(0, [(-1, ())]))
    assert Expiry(AFTER_10).without_expired(data, NEVER - 1) is data
    said = joined(built(0, [(-1, at(5))]))
    assert read(Expiry(STRICT).without_expired(said, 5)) == [(0, 0, True)]


def test_the_brokers_timestamps_count_where_it_sets_them() -> None:
    batch = built(0, [(1, ()), (2, ())])
    rewrite_as_log_append_time(batch, 0, 1_000)
    data = joined(batch)
    for rule in (AFTER_10, TtlRule(10, is_strict=True), TtlRule(10, by_header=True)):
        assert Expiry(rule).without_expired(data, 1_009) is data
        assert read(Expiry(rule).without_expired(data, 1_010)) == [(0, 1, True)]


def test_another_batch_at_the_same_offset_is_opened_again() -> None:
    expiry = Expiry(STRICT)
    assert expiry.without_expired(joined(built(0, [(1, at(50))])), 10)
    assert read(expiry.without_expired(joined(built(0, [(1, at(9))])), 10)) == [(0, 0, True)]


def test_as_many_batches_are_known_as_may_be() -> None:
    expiry = Expiry(STRICT)
    data = joined(*(built(n, [(1, at(5))]) for n in range(MOST_KNOWN + 10)))
    assert expiry.without_expired(data, 4) is data
    assert len(expiry._known) == MOST_KNOWN
    assert read(expiry.without_expired(data, 5)) == [(0, MOST_KNOWN + 9, True)]


def test_what_cannot_be_opened_expires_never() -> None:
    builder = BatchBuilder(Codec.ZSTD)
    builder.append(1, b"k", b"v" * (OPENED_BYTES + 1), at(5))
    data = joined(builder.build())
    assert Expiry(STRICT).without_expired(data, 10) is data
    torn = built(0, [(1, at(5))], Codec.GZIP)
    torn[70:] = bytes(len(torn) - 70)
    assert len(Expiry(STRICT).without_expired(joined(torn), 10)) == len(torn)


def read_on(expiry: Expiry, data: memoryview, now_ms: int) -> list[list[tuple[int, int, bool]]]:
    """Read as a consumer does, which goes on behind what it got; one item for each answer."""
    answers = []
    while len(data):
        answers.append(read(expiry.without_expired(data, now_ms)))
        assert answers[-1], "a consumer always gets on"
        behind = answers[-1][-1][1] + 1
        rest = [at for at, header in headers(data) if header.base_offset >= behind]
        data = data[rest[0] :] if rest else data[:0]
    return answers


@pytest.mark.parametrize(("now_ms", "is_control"), [(4, False), (5, True)])
def test_a_read_opens_only_so_many_bytes_and_the_next_one_goes_on(
    now_ms: int, is_control: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    builder = BatchBuilder(Codec.ZSTD)
    builder.append(1, None, bytes(OPENED_BYTES - 100), at(5))
    large = builder.build()
    batches = [bytearray(large) for _ in range(20)]
    for offset, batch in enumerate(batches):
        batch[:8] = offset.to_bytes(8, "big")
    expiry, expanded = Expiry(STRICT), Expanded(monkeypatch)
    data = joined(*batches)
    first = expiry.without_expired(data, now_ms)
    most = READ_OPENED // OPENED_BYTES + 1
    assert sum(expanded.sizes) <= most * OPENED_BYTES * 2
    assert 1 < read(first)[-1][1] < most
    answers = read_on(Expiry(STRICT), data, now_ms)
    ends = [(one[0][0], one[-1][1]) for one in answers]
    assert ends == [(0, 4), (5, 9), (10, 14), (15, 19)]
    assert all(each[2] is is_control for one in answers for each in one)
    known = read_on(expiry, data, now_ms), read_on(expiry, data, now_ms)
    assert len(known[1]) == 1, "what is known is not opened again"


def test_a_read_opens_batches_of_only_so_many_records() -> None:
    batches = [built(n * 3_000, [(1, at(5))] * 3_000, Codec.ZSTD) for n in range(10)]
    ends = [one[-1][1] + 1 for one in read_on(Expiry(STRICT), joined(*batches), 4)]
    assert ends == [21_000, 30_000]
    mixed = [built(n * 3_000, [(1, at(5)), (1, at(9))] * 1_500) for n in range(10)]
    expiry = Expiry(STRICT)
    for _ in range(2):
        ends = [one[-1][1] + 1 for one in read_on(expiry, joined(*mixed), 6)]
        assert ends[-1] == 30_000
        assert len(ends) > 1, "batches of which some records have expired are opened each time"


@pytest.mark.parametrize("rule", [TtlRule(10, True), TtlRule(10, True, True)])
@pytest.mark.parametrize("times", [[3, 1, 2], [-1, 5], [-1], [7]])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_records_that_say_nothing_expire_by_their_timestamps(
    rule: TtlRule, times: list[int], codec: Codec
) -> None:
    wanted = [rule.by_topic(each) for each in times]
    data = joined(built(0, [(each, (("x", b"1"),)) for each in times], codec))
    for now_ms in range(20):
        left = read(Expiry(rule).without_expired(data, now_ms))
        assert left[0][2] is (max(wanted) <= now_ms)


TIMES = st.tuples(st.integers(0, 40), st.just(()) | st.integers(0, 40).map(at))


@given(
    st.lists(st.lists(TIMES, min_size=1, max_size=4), max_size=6),
    st.integers(-1, 20),
    st.booleans(),
    st.booleans(),
    st.integers(0, 60),
)
def test_r_41_offsets_go_on_and_no_record_is_lost_or_invented(
    batches: list[list[Entry]], ttl_ms: int, by_header: bool, is_strict: bool, now_ms: int
) -> None:
    rule = TtlRule(ttl_ms, by_header, is_strict)
    made: list[bytearray] = []
    alive: list[bool] = []
    parked: list[Record] = []
    for entries in batches:
        made.append(built(len(alive), entries))
        parked.extend(records(made[-1]))
        alive.extend(rule.expires_of(*entry) > now_ms for entry in entries)
    data = joined(*made)
    left = Expiry(rule).without_expired(data, now_ms)
    at_offset = 0
    for first, last, _ in read(left):
        assert first == at_offset
        at_offset = last + 1
    assert at_offset == len(alive)
    found = [
        record
        for position, header in headers(left)
        if not header.is_control
        for record in records(left, position)
    ]
    wanted = [record for record, is_alive in zip(parked, alive, strict=True) if is_alive]
    if is_strict:
        assert found == wanted
    else:
        assert [record for record in found if record in wanted] == wanted
        assert all(record in parked for record in found)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (((TTL_MS, b"abc"),), "no number"),
        (((TTL_MS, b"-1"),), "no number"),
        (((EXPIRES_AT, b""),), "no number"),
        (((EXPIRES_AT, b"never"),), "no number"),
        (((TTL_MS, b"1"), (EXPIRES_AT, b"1")), "headers"),
        (((TTL_MS, b"%d" % (NEVER + 1)),), "no number"),
        (((EXPIRES_AT, b"9" * 19),), "no number"),
    ],
)
def test_a_time_that_says_nothing_is_refused_and_does_not_count_later(
    said: Headers, why: str
) -> None:
    with pytest.raises(ApiError, match=why) as refused:
        read_expiry(5, said)
    assert refused.value.code is ErrorCode.INVALID_RECORD
    assert TtlRule(10, by_header=True).expires_of(5, said) == 15


def test_the_header_counts_before_the_topic() -> None:
    rule = TtlRule(10, by_header=True)
    assert rule.expires_of(5, ((TTL_MS, b"never"),)) == NEVER
    assert rule.expires_of(5, ((TTL_MS, b"3"),)) == 8
    assert rule.expires_of(5, ((EXPIRES_AT, b"99"),)) == 99
    assert rule.expires_of(5, ((TTL_MS, b"%d" % NEVER),)) == NEVER
    assert rule.expires_of(5, ()) == 15
    assert TtlRule(10).expires_of(5, ((TTL_MS, b"never"),)) == 15
    with pytest.raises(ApiError, match="needs the record's timestamp"):
        read_expiry(-1, ((TTL_MS, b"3"),))
