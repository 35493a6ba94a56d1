"""The part of a log that a reader has left: counted by headers, estimated where it is long."""

import asyncio
import itertools
import random
from pathlib import Path

import pytest

from minikafka.storage.log import Log
from minikafka.storage.unread import NOTHING_UNREAD, Unread, count_unread
from tests.storage.compaction_support import InlineRuntime, compacted, put
from tests.storage.faults import FaultyFs
from tests.storage.support import SMALL, Made, TestRuntime, batch, fill, topic
from tests.storage.transactions import Writer, append, marker, naive_aborted, transactional

ALL = 1 << 30
"""More headers than any log here has."""
KEYED = {"cleanup_policy": "compact", **SMALL}


async def opened(runtime: TestRuntime, path: Path, **settings: object) -> Log:
    return await Log.open(runtime, str(path / "t-0"), topic(**settings), clean=True)


def mixed(log: Log, seed: int, count: int) -> list[Made]:
    """Batches of one to three records, transactions and their markers, in no order."""
    rng = random.Random(seed)
    sequences: dict[int, int] = {}
    undecided: dict[int, None] = {}
    made: list[Made] = []
    for _ in range(count):
        offset, number = log.log_end_offset, rng.randrange(3)
        writer = Writer(7 + number)
        if rng.random() < 0.4:
            one = batch(offset, count=rng.randint(1, 3), timestamp=offset)
        elif number in undecided and rng.random() < 0.5:
            one = marker(offset, writer, commits=rng.random() < 0.5)
            del undecided[number]
        else:
            size = rng.randint(1, 3)
            one = transactional(offset, writer, sequences.get(number, 0), count=size)
            sequences[number] = sequences.get(number, 0) + size
            undecided[number] = None
        append(log, one)
        made.append(one)
    for number in undecided:
        made.append(marker(log.log_end_offset, Writer(7 + number), commits=True))
        append(log, made[-1])
    return made


def overwrite(file: Path, at: int, what: bytes) -> None:
    data = bytearray(file.read_bytes())
    data[at : at + len(what)] = what
    file.write_bytes(data)


def naive(made: list[Made], offset: int) -> tuple[int, int, int]:
    """Records, bytes and the first timestamp, from `offset` on, found the slow way."""
    aborted = naive_aborted(made)
    records = size = 0
    timestamp = -1
    for header, _ in made:
        is_aborted = header.is_transactional and any(
            (producer == header.producer_id and first <= header.base_offset < end)
            for producer, first, end in aborted
        )
        if header.next_offset <= offset or header.is_control or is_aborted:
            continue
        left = header.next_offset - max(offset, header.base_offset)
        timestamp = header.base_timestamp if timestamp < 0 else timestamp
        records += left
        size += header.size * left // header.record_count
    return records, size, timestamp


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("is_cold", [False, True])
async def test_every_offset_of_a_log_of_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, is_cold: bool
) -> None:
    runtime = TestRuntime(FaultyFs())
    log = await opened(runtime, tmp_path, **SMALL)
    made = mixed(log, seed, 60)
    assert len(log.segments) > 2
    if is_cold:

        def waits(*_: object) -> int:
            raise BlockingIOError

        monkeypatch.setattr(type(log.segments[-1].file()), "preadv", waits)
    end = log.log_end_offset
    for offset in range(-1, end + 2):
        unread = await count_unread(log, runtime, offset, end, ALL)
        assert unread == (*naive(made, offset), False), offset
    monkeypatch.undo()
    log.abandon()
    runtime.close()


async def test_nothing_above_the_bound_counts(runtime: TestRuntime, tmp_path: Path) -> None:
    log = await opened(runtime, tmp_path)
    made = [batch(n * 10, count=10, timestamp=5_000 + n) for n in range(5)]
    log.append(made)
    size = made[0][0].size
    assert await count_unread(log, runtime, 20, 30, ALL) == Unread(10, size, 5_002, False)
    assert await count_unread(log, runtime, 30, 30, ALL) == NOTHING_UNREAD
    assert await count_unread(log, runtime, 40, 30, ALL) == NOTHING_UNREAD
    # The last stable offset is where a batch begins; one that lies across it is not readable.
    assert await count_unread(log, runtime, 20, 35, ALL) == Unread(10, size, 5_002, False)
    log.advance_log_start(40)
    assert await count_unread(log, runtime, 0, 50, ALL) == Unread(10, size, 5_004, False)
    log.abandon()


async def test_only_so_many_headers_are_walked_and_the_rest_is_estimated(
    runtime: TestRuntime, tmp_path: Path
) -> None:
    log = await opened(runtime, tmp_path, **SMALL)
    made = fill(log, 200, timestamp=7_000)
    size = made[0][0].size
    told = await count_unread(log, runtime, 3, 200, 10)
    assert told == Unread(197, told.size_bytes, 7_000, True)
    assert abs(told.size_bytes - 197 * size) <= 3 * size, "by the indexes: to a few batches"
    assert await count_unread(log, runtime, 3, 200, 197) == Unread(197, 197 * size, 7_000, False)
    log.abandon()


async def test_an_estimate_goes_by_the_share_that_is_visible(
    runtime: TestRuntime, tmp_path: Path
) -> None:
    log = await opened(runtime, tmp_path)
    for _ in range(100):
        end = log.log_end_offset
        append(
            log, transactional(end, Writer(7), end // 2), marker(end + 1, Writer(7), commits=True)
        )
    told = await count_unread(log, runtime, 0, 200, 20)
    assert (told.records, told.is_estimated) == (100, True)
    log.abandon()


async def test_a_compacted_log_counts_what_is_kept(tmp_path: Path) -> None:
    runtime = InlineRuntime()
    log = await opened(runtime, tmp_path, **KEYED)
    for number in range(30):
        put(log, (b"k%d" % (number % 3), b"%d" % number), (b"once%d" % number, b"x"))
        if number % 10 == 9:
            log.roll()
    put(log, (b"last", b"x"))
    await compacted(runtime, log)
    whole = await count_unread(log, runtime, 0, log.log_end_offset, ALL)
    assert (whole.records, whole.is_estimated) == (34, False)
    # Of the batch at 0 and 1 the second record is left; that nobody tells by its header.
    inside = await count_unread(log, runtime, 1, log.log_end_offset, ALL)
    assert inside.is_estimated
    assert abs(inside.records - 34) <= 1
    log.abandon()
    runtime.close()


async def test_a_header_that_does_not_fit_ends_the_walk(
    runtime: TestRuntime, tmp_path: Path
) -> None:
    log = await opened(runtime, tmp_path)
    made = fill(log, 100)
    overwrite(Path(log.segments[0].path + ".log"), made[0][0].size * 50 + 8, b"\x7f\xff\xff\xff")
    told = await count_unread(log, runtime, 0, 100, ALL)
    assert told == Unread(100, sum(header.size for header, _ in made), 1_000, True)
    log.abandon()


@pytest.mark.parametrize("change", ["cut", "delete", "abandon"])
async def test_a_log_that_changes_under_the_walk_ends_it(tmp_path: Path, change: str) -> None:
    runtime = TestRuntime(FaultyFs())
    log = await opened(runtime, tmp_path, **SMALL)
    fill(log, 100)
    clock = itertools.count(0, 10)
    runtime.monotonic_ms = lambda: next(clock)  # type: ignore[method-assign]
    counting = asyncio.ensure_future(count_unread(log, runtime, 0, 100, ALL))
    for _ in range(3):
        await asyncio.sleep(0)
    assert not counting.done(), "others have their turns in between"
    if change == "cut":
        log.truncate_to(5)
    elif change == "delete":
        log.truncate_fully_and_start_at(300)
    else:
        log.abandon()
    told = await counting
    assert told.is_estimated
    assert told.records >= 0
    assert told.size_bytes >= 0
    log.abandon()
    runtime.close()
