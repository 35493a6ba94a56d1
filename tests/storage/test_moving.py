"""A log moves between two data directories: what the copy holds, what a stop leaves of a move."""

from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from minikafka.protocol.types import TopicPartition
from minikafka.runtime.errors import LogDirectoryFailed
from minikafka.storage.checkpoints import decode_offsets
from minikafka.storage.directory import LogDirectory
from minikafka.storage.files import HIGH_WATERMARKS
from minikafka.storage.log import Log
from minikafka.storage.moving import Move, settle
from tests.storage.faults import EIO, Fault, FaultyFs
from tests.storage.support import SMALL, TestRuntime, batch, contents, fill, topic
from tests.storage.transactions import Writer, aborted_in, append, marker, transactional

NAME = TopicPartition("t", 0)
ID = bytes(range(16))
ALL = 1 << 30


class Place:
    """A log in the first of two data directories."""

    def __init__(self, runtime: TestRuntime, root: Path, one: LogDirectory, two: LogDirectory):
        self.runtime = runtime
        self.root = root
        self.one = one
        self.two = two
        self.log: Log = one.new_log(NAME, ID, topic(**SMALL))

    def move(self) -> Move:
        return Move(self.runtime, NAME, self.one, self.two)

    def names(self, place: str) -> list[str]:
        return [each for each in self.runtime.fs.listdir(str(self.root / place)) if "t-0" in each]


async def opened(runtime: TestRuntime, root: Path, name: str) -> LogDirectory:
    return await LogDirectory.open(runtime, str(root / name), node_id=1)


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    runtime = TestRuntime(FaultyFs())
    one, two = [await opened(runtime, tmp_path, name) for name in ("one", "two")]
    found = Place(runtime, tmp_path, one, two)
    yield found
    for directory in (one, two):
        directory.abandon()
    runtime.close()


async def copied(move: Move, *, bytes_a_step: int = 300, high_watermark: int = ALL) -> None:
    while not move.copy.is_whole:
        await move.copy.step(bytes_a_step, high_watermark)


async def moved(move: Move, high_watermark: int = ALL) -> None:
    await copied(move)
    await move.make_ready(high_watermark)
    async with move.held():
        assert move.copy.catch_up(ALL, high_watermark)
        move.swap()
    await move.finish()


async def reopened(place: Place) -> Log:
    """The log as a start after kill -9 finds it, which is in the second directory."""
    for directory in (place.one, place.two):
        directory.abandon()
    place.one, place.two = [
        await opened(place.runtime, place.root, name) for name in ("one", "two")
    ]
    await settle([place.one, place.two])
    assert [each.partition for each in place.one.stored()] == []
    assert [each.partition for each in place.two.stored()] == [NAME]
    return await place.two.open_log(NAME, ID, topic(**SMALL))


async def test_a_log_goes_on_in_another_directory_with_all_that_it_was(place: Place) -> None:
    log = place.log
    fill(log, 25, epoch=1)
    log.assign_epoch(2, 25)
    for n in range(9):
        log.append([batch(25 + n, epoch=3, producer=(7, 0, n))])
    log.advance_log_start(12)
    log.delete_old_segments(0, 30)
    before, epochs, producers = contents(log), list(log.leader_epochs), list(log.producers)
    await moved(place.move(), high_watermark=30)
    assert place.names("one") == []
    assert place.names("two") == ["t-0"]
    assert (place.two.logs, place.one.logs) == ({NAME: log}, {})
    log.append([batch(34, epoch=3, producer=(7, 0, 9))])
    await log.flush()
    assert log.directory == str(place.root / "two" / "t-0")
    assert contents(log)[: len(before)] == before
    assert place.two.checkpoints.high_watermarks == {NAME: 30}
    again = await reopened(place)
    assert contents(again) == contents(log)
    assert (again.log_start_offset, again.log_end_offset) == (12, 35)
    assert list(again.leader_epochs) == [entry for entry in epochs if entry[0] != 2]
    assert [each for each, _ in again.producers] == [each for each, _ in producers] == [7]


async def test_what_is_cut_from_the_source_is_cut_from_the_copy_before_anything_is_added(
    place: Place,
) -> None:
    log = place.log
    fill(log, 30, epoch=1)
    move = place.move()
    await copied(move)
    log.truncate_to(21)
    assert move.copy.log.log_end_offset == 21
    fill(log, 5, epoch=2)
    await copied(move)
    assert contents(move.copy.log) == contents(log)
    log.truncate_fully_and_start_at(50)
    assert not move.copy.is_whole
    fill(log, 3, epoch=2)
    await moved(move)
    assert (log.log_start_offset, log.log_end_offset) == (50, 53)
    assert contents(await reopened(place)) == contents(log)


async def test_the_old_name_is_gone_for_good_before_anything_is_called_stable(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a loss of power could bring the old log back beside what was flushed since.

    The next checkpoint of its directory would do it too, but nobody waits for that.
    """
    monkeypatch.setattr(place.one, "_checkpoint_soon", lambda: None)
    fill(place.log, 5)
    move = place.move()
    await copied(move)
    await move.make_ready(5)
    async with move.held():
        assert move.copy.catch_up(ALL, 5)
        move.swap()
    fs: Any = place.runtime.fs
    fs.calls.clear()
    await place.log.flush()
    flushed = [path for kind, path in fs.calls if kind in ("fdatasync", "fsync_dir")]
    ours = next(n for n, path in enumerate(flushed) if path.startswith(place.log.directory))
    assert flushed.index(place.one.path) < ours
    await move.finish()


async def test_the_old_files_are_removed_once_the_new_name_is_stable(place: Place) -> None:
    """Else a loss of power could leave neither: the new name is undone, the old files are gone."""
    fill(place.log, 5)
    move = place.move()
    await copied(move)
    await move.make_ready(5)
    async with move.held():
        assert move.copy.catch_up(ALL, 5)
        move.swap()
    fs: Any = place.runtime.fs
    fs.calls.clear()
    await move.finish()
    removed = [n for n, (kind, path) in enumerate(fs.calls) if kind == "remove"]
    assert removed, "the old files"
    assert fs.calls.index(("fsync_dir", place.two.path)) < removed[0]
    assert place.names("one") == []


async def test_checkpoints_of_an_earlier_stay_do_not_vouch_for_a_copy(place: Place) -> None:
    fill(place.log, 30)
    await moved(place.move(), high_watermark=30)
    back = Move(place.runtime, NAME, place.two, place.one)
    await moved(back, high_watermark=30)
    marks = place.root / "two" / HIGH_WATERMARKS
    assert decode_offsets(marks.read_bytes()) == {NAME: 30}
    move = place.move()
    assert decode_offsets(marks.read_bytes()) == {}
    move.give_up()


async def test_a_copy_that_is_overtaken_by_the_log_start_begins_anew(place: Place) -> None:
    fill(place.log, 30)
    move = place.move()
    await move.copy.step(1, ALL)
    await move.copy.step(1, ALL)
    assert move.copy.log.log_end_offset == 1
    place.log.advance_log_start(25)
    place.log.delete_old_segments(0, 30)
    assert move.copy.lag == 5
    await moved(move)
    assert contents(await reopened(place)) == contents(place.log)


async def test_a_copy_follows_the_log_start_and_deletes_below_it(place: Place) -> None:
    fill(place.log, 30)
    move = place.move()
    await copied(move)
    place.log.advance_log_start(22)
    async with move.held():
        assert move.copy.catch_up(ALL, ALL)
    copy = move.copy.log
    assert (copy.log_start_offset, len(copy.segments)) == (22, 1)
    move.give_up()
    await move.clear()


async def test_a_log_without_records_moves_too(place: Place) -> None:
    await moved(place.move())
    assert place.names("two") == ["t-0"]
    fill(place.log, 3)
    assert contents(await reopened(place)) == contents(place.log)


async def test_a_log_that_begins_anew_without_records_moves_with_its_end(place: Place) -> None:
    fill(place.log, 5)
    place.log.truncate_fully_and_start_at(50)
    await moved(place.move())
    again = await reopened(place)
    assert (again.log_start_offset, again.log_end_offset) == (50, 50)


async def test_gaps_are_copied_and_known_as_such(place: Place) -> None:
    log = place.log
    log.segments.note_gaps()
    for offset in (3, 4, 9, 20):
        log.append([batch(offset)])
    await moved(place.move())
    again = await reopened(place)
    assert contents(again) == contents(log)
    assert again.segments.has_gaps


async def test_what_is_copied_knows_its_producers_even_if_their_records_are_deleted(
    place: Place,
) -> None:
    log = place.log
    log.append([batch(0, producer=(7, 3, 0))])
    fill(log, 29)
    log.advance_log_start(25)
    log.delete_old_segments(0, 30)
    await moved(place.move())
    assert [each for each, _ in (await reopened(place)).producers] == [7]


async def test_aborted_transactions_are_known_to_the_copy_even_if_their_beginnings_are_not(
    place: Place,
) -> None:
    """As after a crash, which takes snapshots of producers away."""
    log, writer = place.log, Writer(9)
    append(log, transactional(0, writer))
    fill(log, 11)
    append(log, transactional(12, writer, 1))
    fill(log, 9)
    append(log, marker(22, writer, commits=False))
    fill(log, 20)
    log.advance_log_start(11)
    log.delete_old_segments(0, 43)
    for name in place.runtime.fs.listdir(log.directory):
        if name.endswith(".snapshot"):
            place.runtime.fs.remove(f"{log.directory}/{name}")
    expected = aborted_in(log)
    assert [(each.producer_id, each.first_offset) for each in expected] == [(9, 0)]
    await moved(place.move())
    assert aborted_in(log) == expected
    again = await reopened(place)
    assert aborted_in(again) == expected
    assert [each for each, _ in again.producers] == [9]


async def test_a_move_that_is_given_up_leaves_no_trace(place: Place) -> None:
    fill(place.log, 30)
    move = place.move()
    await copied(move)
    await move.make_ready(30)
    move.give_up()
    await move.clear()
    assert place.names("two") == []
    assert (place.two.arriving, place.log.copy) == ({}, None)
    assert NAME not in place.two.checkpoints.high_watermarks
    log = place.two.new_log(NAME, bytes(16), topic())
    assert place.two.checkpoints.recovery_points == {}
    place.two.delete(NAME)
    assert log.log_end_offset == 0
    await moved(place.move())
    assert place.names("two") == ["t-0"]


@pytest.mark.parametrize("kind", ["write", "rename", "fdatasync", "create"])
async def test_a_target_that_fails_ends_the_move_and_the_source_never_notices(
    place: Place, kind: str
) -> None:
    fs: Any = place.runtime.fs
    made = b"".join(bytes(each) for _, each in fill(place.log, 30))
    for spared in range(0, 200, 2):
        move = place.move()
        fs.calls.clear()
        fs.fault = Fault(spared, error=EIO, only=kind, lasts=True, under=str(place.root / "two"))
        with suppress(LogDirectoryFailed):
            await moved(move)
        fs.fault = None
        if place.two.failure is None:
            break
        if place.log.directory.startswith(place.two.path):
            # It failed after the swap: the old files are kept until the new names are stable.
            assert place.names("one")[0].endswith("-moved")
            assert spared, "nothing failed before"
            return
        assert place.one.failure is None
        assert contents(place.log) == made
        made += bytes(fill(place.log, 1)[0][1])
        move.give_up()
        place.two.abandon()
        place.two = await opened(place.runtime, place.root, "two")
        await settle([place.one, place.two])
    assert spared, "nothing failed"
    assert place.names("two") == ["t-0"]


async def test_rotten_bytes_are_not_copied(place: Place) -> None:
    made = fill(place.log, 30)
    segment = place.log.segments[1]
    data = bytearray(made[12][1])
    data[70] ^= 1
    segment.file().pwritev([data], 2 * len(data))
    told: list[object] = []
    place.log.reader.on_damaged = lambda directory, error: told.append(error)
    move = place.move()
    with pytest.raises(Exception, match="crc"):
        await copied(move, bytes_a_step=100)
    assert (move.copy.log.log_end_offset, len(told)) == (12, 1)
    segment.file().pwritev([made[12][1]], 2 * len(data))
    await moved(move)
    assert contents(await reopened(place)) == contents(place.log)


def left(place: Place, one: str, two: str) -> None:
    for name, where in ((one, "one"), (two, "two")):
        if name:
            (place.root / where / name).mkdir()
            (place.root / where / name / "kept").write_text(name)


MARK, OTHER = "m" * 22, "o" * 22


@pytest.mark.parametrize(
    ("one", "two", "kept_in_one", "kept_in_two"),
    [
        ("t-0", f"t-0.{MARK}-future", "t-0", None),
        (f"t-0.{MARK}-moved", f"t-0.{MARK}-future", None, "t-0"),
        (f"t-0.{MARK}-moved", "t-0", None, "t-0"),
        (f"t-0.{MARK}-moved", f"t-0.{OTHER}-future", f"t-0.{MARK}-stray", None),
        (f"t-0.{MARK}-moved", "", f"t-0.{MARK}-stray", None),
        ("t-0", "t-0", "t-0", "t-0"),
    ],
    ids=["begun", "between", "swapped", "unrelated", "target lost", "first rename undone"],
)
async def test_a_start_settles_what_a_stop_has_left(
    place: Place, one: str, two: str, kept_in_one: str | None, kept_in_two: str | None
) -> None:
    left(place, one, two)
    await settle([place.one, place.two])
    assert place.names("one") == [name for name in (kept_in_one,) if name]
    assert place.names("two") == [name for name in (kept_in_two,) if name]
