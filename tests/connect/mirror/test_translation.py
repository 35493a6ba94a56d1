"""Offset syncs: how many are kept, what they translate, when they are written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.connect.mirror.codec import OffsetSync
from minikafka.connect.mirror.translation import MOST_SYNCS, OffsetSyncStore, SyncEmitter
from minikafka.protocol.types import TopicPartition

HERE = TopicPartition("t", 0)


def store_of(*pairs: tuple[int, int]) -> OffsetSyncStore:
    store = OffsetSyncStore()
    for upstream, downstream in pairs:
        store.add(OffsetSync(HERE, upstream, downstream))
    return store


@pytest.mark.parametrize(
    ("upstream", "downstream"),
    [(99, None), (100, 10), (101, 11), (199, 11), (200, 50), (10_000, 51)],
)
def test_an_offset_is_translated_by_the_newest_sync_before_it(
    upstream: int, downstream: int | None
) -> None:
    assert store_of((100, 10), (200, 50)).translate(HERE, upstream) == downstream


def test_without_syncs_nothing_is_translated() -> None:
    assert OffsetSyncStore().translate(HERE, 5) is None
    assert OffsetSyncStore().newest(HERE) is None


@pytest.mark.parametrize("back", [(50, 300), (300, 5), (300, 50)])
def test_a_sync_that_goes_back_forgets_the_older_ones(back: tuple[int, int]) -> None:
    store = store_of((100, 10), (200, 50), back)
    assert (store.count(HERE), store.newest(HERE)) == (1, back)
    assert store.translate(HERE, 49) is None


def test_a_record_that_was_mirrored_twice_counts_where_it_is_last() -> None:
    assert store_of((100, 10), (100, 12)).translate(HERE, 100) == 12


def test_few_syncs_are_all_kept() -> None:
    store = store_of(*((n, n) for n in range(0, MOST_SYNCS * 100, 100)))
    assert [store.translate(HERE, n) for n in (99, 100, 6_299, 6_300)] == [1, 100, 6_201, 6_300]


@pytest.mark.parametrize("step", [1, 100, 100_000])
def test_of_many_syncs_the_one_before_an_offset_is_near_compared_with_the_end(step: int) -> None:
    store = OffsetSyncStore()
    for upstream in range(0, 10_000 * step, step):
        store.add(OffsetSync(HERE, upstream, upstream))
        assert store.count(HERE) <= MOST_SYNCS
    newest = 9_999 * step
    for upstream in range(0, newest, 37 * step):
        found = store.translate(HERE, upstream)
        assert found is not None
        assert upstream - found <= max(step, (newest - upstream) / 2)


steps = st.lists(st.tuples(st.integers(1, 2**40), st.integers(1, 2**20)), min_size=1, max_size=200)


@given(steps)
def test_the_first_sync_and_the_newest_two_are_always_kept(moves: list[tuple[int, int]]) -> None:
    upstream = downstream = 0
    pairs = []
    for up, down in moves:
        upstream, downstream = upstream + up, downstream + down
        pairs.append((upstream, downstream))
    store = store_of(*pairs)
    assert store.count(HERE) == min(len(pairs), MOST_SYNCS)
    for at, expected in (pairs[0], *pairs[-2:]):
        assert store.translate(HERE, at) == expected


class Mirror:
    """A partition that is mirrored: which of its records are where at the target."""

    def __init__(self, lag_max: int) -> None:
        self.lag_max = lag_max
        self.store = OffsetSyncStore()
        self.emitter = SyncEmitter(lag_max)
        self.copies: list[tuple[int, int]] = []
        """(upstream, downstream) of each record written, in order."""
        self.next_upstream = self.next_downstream = 0

    def mirror(self, kind: str) -> None:
        if kind == "dropped" and self.next_upstream not in dict(self.copies):
            self.next_upstream += 1
        elif kind == "marker at the target":
            self.next_downstream += 1
        elif kind == "task again":
            # What was not committed is mirrored a second time.
            self.emitter = SyncEmitter(self.lag_max)
            self.next_upstream = max(0, self.next_upstream - 3)
        elif kind == "commit":
            self.emitter.on_commit()
            self.take()
        else:
            sync = OffsetSync(HERE, self.next_upstream, self.next_downstream)
            self.copies.append((sync.upstream, sync.downstream))
            self.emitter.on_mirrored(sync)
            self.take()
            self.next_upstream += 1
            self.next_downstream += 1

    def take(self) -> None:
        while (sync := self.emitter.next_due()) is not None:
            self.store.add(sync)


events = st.lists(
    st.sampled_from(["record"] * 12 + ["dropped", "marker at the target", "task again", "commit"]),
    max_size=300,
)


@given(events, st.integers(0, 20))
def test_a_translated_offset_skips_no_record_and_is_not_beyond_what_is_mirrored(
    moves: list[str], lag_max: int
) -> None:
    mirror = Mirror(lag_max)
    for move in moves:
        mirror.mirror(move)
    end = mirror.copies[-1][1] + 1 if mirror.copies else 0
    for upstream in range(mirror.next_upstream + 2):
        found = mirror.store.translate(HERE, upstream)
        if found is None:
            continue
        assert found <= end
        # What the task began with again comes a second time, behind.
        unread = {up for up, _ in mirror.copies if upstream <= up < mirror.next_upstream}
        assert unread <= {up for up, down in mirror.copies if down >= found}


@given(st.integers(0, 50), st.integers(1, 400))
def test_a_group_at_the_end_reads_at_most_offset_lag_max_records_again(
    lag_max: int, count: int
) -> None:
    mirror = Mirror(lag_max)
    for _ in range(count):
        mirror.mirror("record")
    found = mirror.store.translate(HERE, mirror.next_upstream)
    assert found is not None
    assert mirror.next_downstream - found <= lag_max
    mirror.mirror("commit")
    assert mirror.store.translate(HERE, mirror.next_upstream) == mirror.next_downstream


def due(emitter: SyncEmitter) -> list[tuple[int, int]]:
    found = []
    while (sync := emitter.next_due()) is not None:
        found.append((sync.upstream, sync.downstream))
    return found


def test_a_sync_is_due_at_the_start_behind_gaps_and_every_so_many_records() -> None:
    emitter = SyncEmitter(lag_max=3)
    places = [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4), (9, 5), (10, 6), (11, 2)]
    written = {}
    for upstream, downstream in places:
        emitter.on_mirrored(OffsetSync(HERE, upstream, downstream))
        written[upstream] = due(emitter)
    assert [upstream for upstream, found in written.items() if found] == [0, 4, 9, 11]
    emitter.on_mirrored(OffsetSync(HERE, 12, 3))
    emitter.on_commit()
    assert due(emitter) == [(12, 3)]


def test_a_sync_that_was_not_written_comes_again_unless_a_newer_one_waits() -> None:
    emitter = SyncEmitter(lag_max=100)
    first, second = OffsetSync(HERE, 0, 0), OffsetSync(HERE, 1, 1)
    emitter.on_mirrored(first)
    assert emitter.next_due() == first
    emitter.again(first)
    assert emitter.next_due() == first
    emitter.on_mirrored(second)
    emitter.again(first)
    assert emitter.next_due() is None
    emitter.on_commit()
    assert emitter.next_due() == second
    emitter.again(first)
    assert emitter.next_due() is None
    emitter.again(second)
    assert emitter.next_due() == second
