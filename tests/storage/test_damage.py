"""Bytes that are not what was written: found by any reader, bounded exactly, mended in place."""

from pathlib import Path

import pytest

from minikafka.runtime.errors import CorruptLog
from minikafka.storage import log_reader
from minikafka.storage.damage import Damage
from minikafka.storage.integrity import Rules, judge, size_of_first
from minikafka.storage.leader_epochs import LeaderEpochs
from minikafka.storage.log import Cold, Log
from minikafka.storage.segment import Segment
from tests.storage.support import TestRuntime, batch, contents, fill, joined, read_all, topic

SMALL = topic(segment_bytes=900, index_interval_bytes=150)
ALL = Rules(LeaderEpochs([(0, 0), (3, 2)]))


def test_good_batches_are_judged_good() -> None:
    made = [batch(0), batch(1), batch(2, count=3, epoch=3), batch(5, epoch=3)]
    data = joined(made)
    assert judge(data, 0, ALL, is_exact=True) == (len(data), 6, "")
    # A reader asks for an offset within the first batch.
    tail = joined(made[2:])
    assert judge(tail, 4, ALL) == (len(tail), 6, "")
    assert judge(b"", 4, ALL) == (0, 4, "")


def test_any_wrong_byte_is_found_and_what_is_before_it_kept() -> None:
    made = [batch(n, epoch=0 if n < 2 else 3) for n in range(4)]
    data, size = joined(made), made[0][0].size
    for at in range(size, 3 * size):
        for bits in (0x01, 0x80):
            wrong = bytearray(data)
            wrong[at] ^= bits
            verdict = judge(wrong, 0, ALL, is_exact=True)
            assert verdict.size == at // size * size, at
            assert verdict.next_offset == at // size
            assert verdict.problem


def test_judging_ends_where_it_was_told_to() -> None:
    made = [batch(0), batch(1), batch(2, epoch=3)]
    wrong = bytearray(joined(made))
    wrong[-1] ^= 1
    assert judge(wrong, 0, ALL, at_most=2) == (len(wrong) * 2 // 3, 2, "")
    assert judge(wrong, 0, ALL, at_most=3).problem


async def test_a_read_of_very_many_batches_ends_early(
    runtime: TestRuntime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_reader, "MAX_JUDGED", 4)
    log, whole = await rotten(runtime, tmp_path, 0, 0)
    found = (await log.reader.read_cold(1, max_bytes=10_000, up_to=30)).data
    assert len(found) == len(whole) // 30 * 4
    assert await read_all(log) == whole
    log.abandon()


def test_the_batch_in_front_must_hold_the_offset() -> None:
    assert judge(batch(5, count=2)[1], 7, ALL).problem == "base offset 5 where 7 is due"
    assert judge(batch(5, count=2)[1], 4, ALL).problem == "base offset 5 where 4 is due"
    assert not judge(batch(5, count=2, epoch=3)[1], 4, ALL._replace(has_gaps=True)).problem


def test_what_is_cut_off_is_no_batch() -> None:
    data = bytes(batch(0)[1])
    assert size_of_first(data) == len(data)
    for end in range(1, len(data)):
        verdict = judge(data[:end], 0, ALL)
        assert (verdict.size, bool(verdict.problem)) == (0, True)
    assert size_of_first(data[:60]) == 0
    assert size_of_first(bytes(100)) == 0


async def rotten(runtime: TestRuntime, path: Path, at: int, bits: int = 1) -> tuple[Log, bytes]:
    """A closed and reopened log of many segments with one wrong byte; and what it held."""
    log = await Log.open(runtime, str(path / "t-0"), SMALL)
    whole = joined(fill(log, 30))
    await log.close()
    flip(path, at, bits)
    return await Log.open(runtime, str(path / "t-0"), SMALL, clean=True), whole


def flip(path: Path, at: int, bits: int = 1) -> None:
    """Turn bits over in the log's byte `at`, counted through all segments."""
    for file in sorted((path / "t-0").glob("*.log")):
        data = bytearray(file.read_bytes())
        if at < len(data):
            data[at] ^= bits
            file.write_bytes(data)
            return
        at -= len(data)


async def read_until_damage(log: Log) -> tuple[bytes, CorruptLog]:
    found, offset = b"", log.log_start_offset
    while True:
        try:
            data = (
                await log.reader.read_cold(offset, max_bytes=400, up_to=log.log_end_offset)
            ).data
        except CorruptLog as error:
            return found, error
        found += data
        verdict = judge(data, offset, Rules(LeaderEpochs()))
        assert verdict.problem == ""
        offset = verdict.next_offset


@pytest.mark.parametrize("bits", [0x01, 0x40])
async def test_any_wrong_byte_is_never_served_and_can_be_mended(
    runtime: TestRuntime, tmp_path: Path, bits: int
) -> None:
    log, whole = await rotten(runtime, tmp_path, 0, 0)
    size = len(whole) // 30
    told: list[CorruptLog] = []
    log.reader.on_damaged = lambda _, error: told.append(error)
    for at in range(12 * size, 14 * size, 3):
        flip(tmp_path, at, bits)
        before, error = await read_until_damage(log)
        assert whole.startswith(before)
        assert len(before) <= at // size * size
        assert told.pop() is error
        assert len(told) <= 1, "once where a read ended before it, once where one began with it"
        told.clear()
        damage = await log.reader.damage_at(error)
        assert damage is not None, (at, error)
        assert damage.first_offset == at // size
        bad = slice(damage.first_offset * size, damage.next_offset * size)
        assert damage.size == bad.stop - bad.start
        await log.reader.mend(damage, whole[bad])
        assert await log.reader.damage_at(error) is None
        assert contents(log) == whole
    await log.close()


async def test_what_does_not_fit_is_refused(runtime: TestRuntime, tmp_path: Path) -> None:
    log, whole = await rotten(runtime, tmp_path, 100)
    size = len(whole) // 30
    _, error = await read_until_damage(log)
    damage = await log.reader.damage_at(error)
    assert damage == Damage(0, size, 2 * size, 1, 2, damage.why if damage else "")
    good = whole[size : 2 * size]
    rotten_too = bytearray(good)
    rotten_too[70] ^= 4
    for wrong in (
        b"",
        good[:-1],
        whole[: 2 * size],
        whole[size : 3 * size],
        whole[2 * size : 3 * size],
        rotten_too,
        batch(1, epoch=7)[1],
        batch(1, size=19)[1],
    ):
        with pytest.raises(CorruptLog):
            await log.reader.mend(damage, wrong)
    await log.reader.mend(damage, good)
    assert contents(log) == whole
    log.truncate_to(0)
    with pytest.raises(CorruptLog, match="cut off"):
        await log.reader.mend(damage, good)
    await log.close()


async def test_neighbours_that_are_damaged_too_are_one_damage(
    runtime: TestRuntime, tmp_path: Path
) -> None:
    log, whole = await rotten(runtime, tmp_path, 100)
    size = len(whole) // 30
    flip(tmp_path, 2 * size + 65)
    _, error = await read_until_damage(log)
    damage = await log.reader.damage_at(error)
    assert damage is not None
    # It ends at the next boundary that the index knows.
    assert damage.first_offset == 1
    assert 3 <= damage.next_offset <= 4
    await log.reader.mend(damage, whole[size : damage.next_offset * size])
    assert contents(log) == whole
    await log.close()


async def test_the_last_batch_of_a_log(runtime: TestRuntime, tmp_path: Path) -> None:
    log, whole = await rotten(runtime, tmp_path, 0, 0)
    size = len(whole) // 30
    flip(tmp_path, 29 * size + 18)
    _, error = await read_until_damage(log)
    damage = await log.reader.damage_at(error)
    assert damage is not None
    assert (damage.first_offset, damage.next_offset) == (29, 30)
    await log.reader.mend(damage, whole[29 * size :])
    assert contents(log) == whole
    await log.close()


async def test_what_was_just_written_is_not_judged_again(
    runtime: TestRuntime, tmp_path: Path
) -> None:
    """The price of judging is paid only for bytes that the disk may have given back."""
    log = await Log.open(runtime, str(tmp_path / "t-0"), topic())
    fill(log, 3)
    flip(tmp_path, 70)
    assert log.reader.read(0, max_bytes=1000, up_to=3).data, (
        "served from what is known to be memory"
    )
    segment = log.segments[0]
    assert segment.doubt_below == 0
    with pytest.raises(CorruptLog):
        await log.reader.read_cold(0, max_bytes=1000, up_to=3)
    assert segment.doubt_below == segment.size
    with pytest.raises(CorruptLog):
        log.reader.read(0, max_bytes=1000, up_to=3)
    made = fill(log, 1)
    assert bytes(log.reader.read(3, max_bytes=1000, up_to=4).data) == joined(made)
    log.abandon()


async def test_a_read_that_finds_the_page_cold_begins_the_doubt(
    runtime: TestRuntime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = await Log.open(runtime, str(tmp_path / "t-0"), topic())
    fill(log, 3)
    file = type(log.segments[0].file())

    def cold(*_: object) -> int:
        raise BlockingIOError

    with monkeypatch.context() as patched:
        patched.setattr(file, "preadv", cold)
        with pytest.raises(Cold):
            log.reader.read(0, max_bytes=1000, up_to=3)
    assert log.segments[0].doubt_below == log.segments[0].size
    log.abandon()


async def test_an_inspection_pays_for_what_it_reads_and_tells_what_it_finds(
    runtime: TestRuntime, tmp_path: Path
) -> None:
    log, whole = await rotten(runtime, tmp_path, 0, 0)
    paid: list[int] = []
    told: list[CorruptLog] = []
    log.reader.on_damaged = lambda _, error: told.append(error)

    async def pay(count: int) -> None:
        paid.append(count)

    async def inspect(segment: Segment) -> CorruptLog | None:
        return await log.reader.inspect(segment, pay)

    assert [await inspect(segment) for segment in log.segments] == [None] * len(log.segments)
    assert sum(paid) == len(whole)
    flip(tmp_path, log.segments[0].size + 100)
    found = [await inspect(segment) for segment in log.segments]
    assert [error is None for error in found][:3] == [True, False, True]
    assert told == [found[1]]
    await log.close()


async def test_a_log_goes_on_though_its_active_segment_is_damaged(
    runtime: TestRuntime, tmp_path: Path
) -> None:
    """Appending never needs the damaged batch, not even where the indexes are lost with it."""
    log = await Log.open(runtime, str(tmp_path / "t-0"), topic(index_interval_bytes=150))
    made = fill(log, 10)
    size = made[0][0].size
    flip(tmp_path, 4 * size + 11)
    log.segments[0].drop_indexes()
    made += fill(log, 2)
    assert log.log_end_offset == 12
    before, error = await read_until_damage(log)
    assert before == joined(made[:4])
    damage = await log.reader.damage_at(error)
    assert damage is not None
    await log.reader.mend(damage, joined(made[damage.first_offset : damage.next_offset]))
    assert contents(log) == joined(made)
    log.abandon()
