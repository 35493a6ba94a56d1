"""Trace points: which batches are watched, what is told of them, and what is dropped."""

import pytest

from minikafka.broker.deadlines import Deadlines
from minikafka.broker.metrics.tracing import TraceMetrics
from minikafka.broker.tracing.config import CLIENTS_MAX, EVERY, PENDING_MAX, WATCHED_MS, TraceConfig
from minikafka.broker.tracing.points import RateLimit, Watch, Watched
from minikafka.broker.tracing.tracer import QUEUE_MAX, Ground, Queue, Tracer
from minikafka.protocol.control.image import MetadataImage
from minikafka.protocol.errors import RemoteProtocolError
from minikafka.protocol.trace_points import (
    Fetched,
    Forwarded,
    GroupPassed,
    Part,
    PointKey,
    Written,
    decode,
    encode,
    first_sampled,
    place_of,
)
from minikafka.runtime.config import from_mapping
from minikafka.runtime.errors import ConfigError
from minikafka.runtime.runtime import SystemRuntime

from ..support.scrape import Scrape

TOPIC_ID = bytes(range(16))
WRITTEN = {
    "broker": 1,
    "leader_epoch": 3,
    "size": 70,
    "acks": -1,
    "client_id": "p",
    "host": "10.0.0.1",
    "principal": "User:p",
    "producer_id": -1,
    "producer_epoch": -1,
    "appended_ms": 100,
    "in_sync": (1, 2, 3),
    "trace_id": "",
}


def batch(base: int, last: int) -> Watched:
    return Watched(PointKey(TOPIC_ID, 0, base), base, last, WRITTEN)


def written(base: int, last: int, committed_ms: int, why: str = "", **followers: int) -> Written:
    return Written(
        base_offset=base,
        last_offset=last,
        committed_ms=committed_ms,
        followers=tuple(int(name[1:]) for name in followers),
        followers_ms=tuple(followers.values()),
        why=why,
        **WRITTEN,  # type: ignore[arg-type]
    )


def test_a_batch_tells_who_had_it_when_it_was_committed_and_who_fetched_it() -> None:
    watch = Watch(1)
    assert watch.on_appended(batch(4, 9), now_ms=0) == []
    watch.on_follower(2, 9, wall_ms=101)
    assert watch.on_committed(9, wall_ms=102) == []
    watch.on_follower(2, 10, wall_ms=103)
    watch.on_follower(2, 11, wall_ms=104)
    watch.on_follower(3, 10, wall_ms=99)
    (told,) = watch.on_committed(10, wall_ms=105)
    assert told == (PointKey(TOPIC_ID, 0, 4), written(4, 9, 105, b2=103, b3=99))
    assert not watch.may_hold(10)
    assert watch.on_fetched(("c", "h"), 0, 4, wall_ms=106) == []
    assert watch.on_fetched(("c", "h"), 9, 12, wall_ms=107) == [
        (PointKey(TOPIC_ID, 0, 4), Fetched(1, 4, 9, "c", "h", 107))
    ]
    assert watch.on_fetched(("c", "h"), 4, 10, wall_ms=108) == []
    more = [watch.on_fetched((f"c{n}", "h"), 4, 10, wall_ms=109) for n in range(CLIENTS_MAX)]
    assert [len(each) for each in more] == [1] * (CLIENTS_MAX - 1) + [0]


def test_what_was_not_committed_says_why() -> None:
    watch = Watch(1)
    watch.on_appended(batch(0, 0), now_ms=0)
    watch.on_appended(batch(1, 1), now_ms=10)
    assert (watch.until_ms, watch.on_time(WATCHED_MS - 1)) == (WATCHED_MS, [])
    ((_, told),) = watch.on_time(WATCHED_MS)
    assert told == written(0, 0, -1, "not within 30 s")
    ((_, told),) = watch.close("the leader has changed")
    assert told == written(1, 1, -1, "the leader has changed")
    assert not watch


def test_the_oldest_batch_gives_way_first_one_that_has_been_told_of() -> None:
    watch = Watch(1)
    for offset in range(PENDING_MAX):
        assert watch.on_appended(batch(offset, offset), now_ms=offset) == []
    assert len(watch.on_committed(1, wall_ms=1)) == 1
    assert watch.on_appended(batch(100, 100), now_ms=100) == []
    ((key, told),) = watch.on_appended(batch(101, 101), now_ms=101)
    assert (key.offset, told) == (1, written(1, 1, -1, f"{PENDING_MAX} newer batches came"))
    assert watch.end == 102


@pytest.mark.parametrize(
    ("base", "last", "every", "offset"),
    [(0, 0, 4, 0), (1, 3, 4, -1), (1, 4, 4, 4), (5, 20, 4, 8), (7, 7, 1, 7), (1, 1023, 1024, -1)],
)
def test_a_batch_is_sampled_by_the_first_offset_divisible_by_n(
    base: int, last: int, every: int, offset: int
) -> None:
    assert first_sampled(base, last, every) == offset
    ground = Ground(SystemRuntime(), Deadlines(SystemRuntime()), 1, MetadataImage)
    tracer = Tracer(ground, from_mapping(TraceConfig, {EVERY: str(every)}), Queue())
    assert bool((base - 1 ^ last) >> tracer.shift) == (offset >= 0)
    below = tracer.sampled_below(base, last + 1)
    assert (below >= offset) if offset >= 0 else below == -1


@pytest.mark.parametrize("value", ["0", "1", "2", "1024", "1073741824"])
def test_n_is_a_power_of_two(value: str) -> None:
    assert from_mapping(TraceConfig, {"minikafka.trace.every": value}).every == int(value)


@pytest.mark.parametrize("value", ["3", "1000", "-1", "x"])
def test_other_values_of_n_are_refused(value: str) -> None:
    with pytest.raises(ConfigError, match=r"minikafka\.trace\.every"):
        from_mapping(TraceConfig, {"minikafka.trace.every": value})
    if value == "1000":
        with pytest.raises(ConfigError, match="is no power of two, such as 512 or 1024"):
            from_mapping(TraceConfig, {"minikafka.trace.every": value})


def test_so_many_pass_each_second() -> None:
    limit = RateLimit(2)
    seen = []
    for now_ms in (0, 10, 20, 999, 1000):
        seen.append(limit.may(now_ms))
        if seen[-1]:
            limit.spend()
    assert seen == [True, True, False, False, True]


@pytest.mark.parametrize(
    "part",
    [
        written(0, 9, 105, b2=103),
        Fetched(1, 0, 9, "c", "h", 107),
        GroupPassed(1, "g", "m", "c", -1, 10, 4, 108, is_transactional=True),
        Forwarded(1, 5, 6, TOPIC_ID, 2, 17),
    ],
)
def test_a_part_is_read_as_it_was_written_in_few_bytes(part: Part) -> None:
    key = PointKey(TOPIC_ID, 7, 1 << 40)
    encoded = encode(key, part)
    assert decode(*encoded) == (key, part)
    assert sum(map(len, encoded)) < 200
    assert 0 <= place_of(TOPIC_ID, 7, 8) < 8


def test_parts_of_other_versions_are_passed_over_and_damaged_ones_refused() -> None:
    key, value = encode(PointKey(TOPIC_ID, 0, 0), Fetched(1, 0, 0, "c", "h", 1))
    assert decode(key, b"\x92\x7f\x00") is None
    longer = bytes([value[0] + 1]) + value[1:] + b"\x05"
    assert decode(key, longer) == decode(key, value)
    for bad in (None, b"", b"\x90", value[:-1], b"\x91\x02"):
        with pytest.raises(RemoteProtocolError):
            decode(key, bad)
    with pytest.raises(RemoteProtocolError):
        decode(b"short", value)


@pytest.mark.moves("minikafka_trace_dropped_total")
def test_what_finds_the_queue_full_is_dropped_and_counted() -> None:
    queue = Queue()
    woken: list[int] = []
    queue.on_first = lambda: woken.append(1)
    assert Scrape([TraceMetrics(queue)])("minikafka_trace_dropped_total") == 0
    told = [(PointKey(TOPIC_ID, 0, 0), Fetched(1, 0, 0, "c", "h", 1))]
    queue.put(told * (QUEUE_MAX + 3), wall_ms=5)
    assert (len(queue.waiting), len(woken)) == (QUEUE_MAX, 1)
    assert Scrape([TraceMetrics(queue)])("minikafka_trace_dropped_total") == 3
