"""Segments of delay topics, rewritten without the records that are over."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.protocol.records.record_batch import Codec
from minikafka.storage.compaction.compactor import Compactor, Due
from minikafka.storage.compaction.finished import due_of_finished, needed_in
from minikafka.storage.log import Log
from minikafka.storage.offset_set import BLOCK, OffsetSet

from .compaction_support import InlineRuntime, all_records, put
from .support import topic
from .transactions import Writer, append, marker

SETTINGS = {"minikafka_delay_target": "t", "minikafka_delay_keep_ms": 1_000}
NEAR = st.one_of(
    st.integers(0, 40),
    st.integers(BLOCK - 20, BLOCK + 20),
    st.integers(2 * BLOCK, 2 * BLOCK + 9),
)


@given(st.lists(NEAR), NEAR, NEAR, NEAR, st.lists(NEAR, max_size=5))
def test_a_part_has_what_the_whole_has(
    added: list[int], lowest: int, one: int, other: int, but: list[int]
) -> None:
    whole = OffsetSet()
    whole.rise_to(lowest)
    whole.add_all(added)
    start, end = min(one, other), max(one, other)
    inside = [each for each in but if start <= each < end]
    part = whole.part(start, end, inside)
    members = [each for each in range(start, end) if each in whole]
    assert whole.count(start, end) == len(members)
    wanted = [each for each in members if each not in inside]
    assert [each for each in range(start, end) if each in part] == wanted
    assert part.count(start, end) == len(wanted)


@pytest.fixture
def runtime() -> InlineRuntime:
    return InlineRuntime()


async def opened(runtime: InlineRuntime, path: Path) -> Log:
    log = await Log.open(runtime, str(path / "t-0"), topic(**SETTINGS, index_interval_bytes=0))
    for number in range(10):
        put(log, (b"k", b"%d" % (2 * number)), (None, b"%d" % (2 * number + 1)))
    log.roll()
    put(log, (b"k", b"20"))
    await log.flush()
    return log


def over(log: Log, *needed: int) -> OffsetSet:
    """Have all records below 20 over, but these; return their offsets."""
    finished = OffsetSet()
    finished.add_all(each for each in range(20) if each not in needed)
    log.segments.finished = finished
    return finished


async def rewrite(runtime: InlineRuntime, log: Log, part: Due) -> None:
    async def pay(count: int) -> None:
        pass

    assert await Compactor(runtime, 1 << 20, pay).compact(log, part) == part.first_dirty


def values(log: Log) -> list[tuple[int, bytes | None]]:
    return [(each.offset, each.value) for each in all_records(log)]


async def test_r_22_a_segment_of_which_most_is_over_keeps_what_waits(
    runtime: InlineRuntime, tmp_path: Path
) -> None:
    log = await opened(runtime, tmp_path)
    finished = over(log, 3, 8, 9)
    part = due_of_finished(log, {}, 21, 10**9)
    assert part is not None
    await rewrite(runtime, log, part)
    wanted = [(3, b"3"), (8, b"8"), (9, b"9")]
    assert [each for each in values(log) if each[0] < 20] == wanted
    assert values(log)[-1] == (20, b"20")
    # It is due again once half of that is over.
    left = {0: needed_in(log.segments[0], finished)}
    assert left == {0: 3}
    assert due_of_finished(log, left, 21, 10**9) is None
    finished.add_all([8, 9])
    assert due_of_finished(log, left, 21, 10**9) is not None
    await log.close()
    again = await Log.open(runtime, str(tmp_path / "t-0"), topic(**SETTINGS), clean=True)
    assert [each for each in values(again) if each[0] < 20] == wanted
    again.abandon()


async def test_what_is_young_undecided_mostly_needed_or_newest_stays(
    runtime: InlineRuntime, tmp_path: Path
) -> None:
    log = await opened(runtime, tmp_path)
    assert due_of_finished(log, {}, 21, 10**9) is None  # Nobody knows what is over.
    over(log)
    newest = log.segments[0].newest_ms
    assert due_of_finished(log, {}, 21, newest + 1_000) is None
    assert due_of_finished(log, {}, 21, newest + 1_001) is not None
    assert due_of_finished(log, {}, 19, newest + 1_001) is None
    over(log, *range(10))
    assert due_of_finished(log, {}, 21, 10**9) is None
    over(log, *range(9))
    assert due_of_finished(log, {}, 21, 10**9) is not None
    log.abandon()


async def test_r_18_where_newer_records_replace_others_nothing_is_rewritten(
    runtime: InlineRuntime, tmp_path: Path
) -> None:
    """Without the newer record, which is over, the older one would wait again after a start."""
    log = await opened(runtime, tmp_path)
    over(log, 4)
    assert due_of_finished(log, {}, 21, 10**9) is not None
    log.reconfigure(topic(**SETTINGS, minikafka_delay_replace="key"))
    assert due_of_finished(log, {}, 21, 10**9) is None


async def test_r_22_retention_that_deletes_the_segment_meanwhile_ends_the_round(
    runtime: InlineRuntime, tmp_path: Path
) -> None:
    log = await opened(runtime, tmp_path)
    over(log)
    part = due_of_finished(log, {}, 21, 10**9)
    assert part is not None

    def delete(number: int) -> None:
        log.advance_log_start(20)
        log.delete_old_segments(10**9, 21)

    async def pay(count: int) -> None:
        pass

    runtime.before_job = delete
    assert await Compactor(runtime, 1 << 20, pay).compact(log, part) is None
    assert log.files.failure is None, "the disk is fine"
    assert values(log) == [(20, b"20")]
    log.abandon()


async def test_r_23_control_batches_stay_and_a_producer_is_remembered(
    runtime: InlineRuntime, tmp_path: Path
) -> None:
    config = topic(**SETTINGS, index_interval_bytes=0)
    log = await Log.open(runtime, str(tmp_path / "t-0"), config)
    put(log, (b"k", b"0"), (b"k", b"1"), producer=(7, 0, 0), is_transactional=True)
    append(log, marker(2, Writer(7), commits=True))
    put(log, (b"k", b"3"), producer=(8, 0, 0), codec=Codec.LZ4)
    log.roll()
    put(log, (b"k", b"4"))
    await log.flush()
    end = log.segments[0].next_offset
    finished = OffsetSet(end)
    log.segments.finished = finished
    part = due_of_finished(log, {}, end + 1, 10**9)
    assert part is not None
    await rewrite(runtime, log, part)
    assert [each[0] for each in values(log)] == [2, end]
    assert log.producers.known(8) is not None
    await log.close()
    again = await Log.open(runtime, str(tmp_path / "t-0"), config, clean=True)
    assert (again.log_end_offset, again.log_start_offset) == (end + 1, 0)
    assert again.producers.known(8) is not None
    again.abandon()
