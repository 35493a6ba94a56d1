"""A metadata log that is not what was written: told from one that a crash has torn."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from minikafka.controller.quorum.log_damage import DamagedLog
from minikafka.controller.quorum.log_facts import LogEnd
from minikafka.controller.quorum.lost_log import CUT_AT, open_metadata_log
from minikafka.controller.quorum.metadata_log import MetadataLog
from minikafka.controller.quorum.quorum_state import (
    QuorumState,
    read_quorum_state,
    write_quorum_state,
)
from minikafka.controller.quorum.stable_end import FILE_NAME, FLUSH_EVERY, StableEnd
from minikafka.protocol.control.batches import encode_batch
from minikafka.protocol.control.records import BROKER, ConfigRecord
from minikafka.protocol.records.record_batch import headers, read_header
from minikafka.runtime.errors import CorruptLog, StorageError
from minikafka.storage.files import Files

from .faulty_fs import FaultyDisk, runtime_on

BATCHES = [(1, 2), (1, 1), (2, 3), (2, 1), (3, 2)]
"""Epoch and number of records of what is written: nine records."""


class Disk:
    """One data directory and who opens it."""

    def __init__(self, path: Path) -> None:
        self.path = path / "__cluster_metadata-0"
        self.fs = FaultyDisk()
        self.runtime = runtime_on(self.fs, [])
        self.files = Files(self.fs, str(path))

    @property
    def segment(self) -> Path:
        return self.path / f"{0:020d}.log"

    async def open(self, cut_at: int = -1) -> MetadataLog:
        return await MetadataLog.open(self.runtime, Files(self.fs, self.files.root), cut_at=cut_at)

    async def write(self, batches: Sequence[tuple[int, int]] = BATCHES) -> None:
        log = await self.open()
        append(log, batches)
        await log.flush()
        await log.close()

    def batches(self) -> list[tuple[int, int, int]]:
        """Where each begins in the file, its size and its first offset."""
        data = self.segment.read_bytes()
        return [(at, header.size, header.base_offset) for at, header in headers(data)]

    def flip(self, position: int, bits: int = 0x10) -> None:
        data = bytearray(self.segment.read_bytes())
        data[position] ^= bits
        self.segment.write_bytes(data)


def append(log: MetadataLog, batches: Sequence[tuple[int, int]]) -> None:
    for epoch, count in batches:
        records = [ConfigRecord(BROKER, "1", f"key {n}", "value") for n in range(count)]
        batch = encode_batch(records, base_offset=log.end_offset, epoch=epoch, timestamp_ms=1)
        log.append([(read_header(batch), batch)])


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path)


async def test_no_bit_of_what_was_stable_is_cut_off(disk: Disk) -> None:
    """Whatever turns over, the log is refused with the offset up to which it is good, as it is."""
    await disk.write()
    whole, bounds = disk.segment.read_bytes(), disk.batches()
    for position in range(len(whole)):
        disk.flip(position, 1 << position % 8)
        changed = disk.segment.read_bytes()
        with pytest.raises(DamagedLog) as refused:
            await disk.open()
        good = [first + 1 for at, size, first in bounds if at + size <= position]
        assert refused.value.offset >= max(good, default=0)
        assert refused.value.end == LogEnd(3, 9)
        assert disk.segment.read_bytes() == changed
        disk.segment.write_bytes(whole)


async def test_a_torn_tail_is_cut_off(disk: Disk) -> None:
    """What came after the last flush was never acknowledged, whatever of it is there."""
    await disk.write()
    log = await disk.open()
    append(log, [(4, 2), (4, 1), (4, 1)])
    (_, _, _, _, _, (torn, size, _), *_) = disk.batches()
    disk.flip(torn + size - 1)
    again = await disk.open()
    assert again.end == LogEnd(3, 9)
    await again.close()


@pytest.mark.parametrize("lost", [1, 100, 10_000])
async def test_a_log_that_ends_too_early_is_refused(disk: Disk, lost: int) -> None:
    await disk.write()
    data = disk.segment.read_bytes()
    disk.segment.write_bytes(data[: max(len(data) - lost, 0)])
    with pytest.raises(DamagedLog) as refused:
        await disk.open()
    assert refused.value.end == LogEnd(3, 9)


async def test_without_a_note_what_follows_the_damage_shows_that_it_is_none_of_a_crash(
    disk: Disk,
) -> None:
    """Of an older release, or with both slots damaged."""
    await disk.write()
    (disk.path / FILE_NAME).write_bytes(b"\x01" * 1024)
    at, size, first = disk.batches()[2]
    disk.flip(at + size - 1)
    with pytest.raises(DamagedLog) as refused:
        await disk.open()
    assert (refused.value.offset, refused.value.end) == (first, LogEnd(3, 9))
    disk.flip(at + size - 1)
    at, size, first = disk.batches()[-1]
    disk.flip(at + size - 1)
    log = await disk.open()
    assert log.end_offset == first
    await log.close()


async def test_one_damaged_slot_costs_one_note(disk: Disk) -> None:
    await disk.write()
    path = disk.path / FILE_NAME
    whole = path.read_bytes()
    found = []
    for place in (0, 512):
        path.write_bytes(whole[:place] + b"\xff" + whole[place + 1 :])
        noted = StableEnd(disk.files, str(disk.path))
        assert noted.is_known
        found.append(noted.end)
    assert max(found) == LogEnd(3, 9)
    assert min(found) <= LogEnd(3, 9)


async def test_what_a_leader_has_cut_is_not_missed(disk: Disk) -> None:
    """The note is lowered on the disk before the log becomes shorter."""
    await disk.write()
    log = await disk.open()
    log.truncate_to(4)
    note = (disk.path / FILE_NAME).read_bytes()
    for slot in (0, 512):
        (disk.path / FILE_NAME).write_bytes(note[:slot] + b"\xff" + note[slot + 1 :])
        assert StableEnd(disk.files, str(disk.path)).end == LogEnd(1, 3)
    again = await disk.open()
    assert again.end == LogEnd(1, 3)
    append(again, [(5, 1)])
    await again.flush()
    await again.close()
    last = await disk.open()
    assert last.end == LogEnd(5, 4)
    await last.close()


async def test_an_only_voter_refuses_until_the_offset_is_given_up(disk: Disk) -> None:
    await disk.write()
    at, size, first = disk.batches()[1]
    disk.flip(at + size - 1)
    files = Files(disk.fs, disk.files.root)
    with pytest.raises(CorruptLog) as refused:
        await open_metadata_log(disk.runtime, files, is_alone=True, cut_at=first + 1)
    line = str(refused.value)
    assert f"{disk.segment} at byte {at}: crc" in line
    assert f"offsets {first} to 8 cannot be read" in line
    assert f"{CUT_AT}={first}" in line
    log = await open_metadata_log(disk.runtime, files, is_alone=True, cut_at=first)
    assert log.end == LogEnd(1, first)
    await log.close()
    again = await open_metadata_log(disk.runtime, files, is_alone=True)
    assert again.end == LogEnd(1, first)
    await again.close()


async def test_a_voter_among_others_gives_its_log_up_and_knows_how_far_it_was(disk: Disk) -> None:
    await disk.write()
    files, directory = Files(disk.fs, disk.files.root), str(disk.path)
    await write_quorum_state(files, directory, QuorumState("cluster", epoch=3, voted_id=2))
    at, size, _ = disk.batches()[1]
    disk.flip(at + size - 1)
    for _ in range(2):
        log = await open_metadata_log(disk.runtime, files, is_alone=False)
        assert log.end == LogEnd(-1, 0)
        await log.close()
    state = read_quorum_state(files, directory, None)
    assert state == QuorumState("cluster", epoch=3, voted_id=2, recover_to=(3, 9))
    assert [path.name for path in disk.path.glob("*.damaged")] == [f"{0:020d}.log.damaged"]


async def test_a_damaged_epoch_is_not_taken_for_one_that_was_reached(disk: Disk) -> None:
    """No voter could follow others any more that had taken part in the epoch 2^30."""
    await disk.write()
    files, directory = Files(disk.fs, disk.files.root), str(disk.path)
    await write_quorum_state(files, directory, QuorumState("cluster", epoch=3))
    at, _, _ = disk.batches()[-1]
    disk.flip(at + 12, 0x40)
    log = await open_metadata_log(disk.runtime, files, is_alone=False)
    await log.close()
    state = read_quorum_state(files, directory, None)
    assert state == QuorumState("cluster", epoch=3, recover_to=(3, 9))


async def test_a_voter_that_has_lost_its_vote_too_is_for_the_operator(disk: Disk) -> None:
    await disk.write()
    at, size, _ = disk.batches()[1]
    disk.flip(at + size - 1)
    files = Files(disk.fs, disk.files.root)
    with pytest.raises(CorruptLog, match="empty directory"):
        await open_metadata_log(disk.runtime, files, is_alone=False)
    assert disk.segment.exists()


async def test_notes_are_flushed_now_and_then(disk: Disk) -> None:
    log = await disk.open()
    for _ in range(FLUSH_EVERY + 5):
        append(log, [(1, 1)])
        await log.flush()
    assert log._noted._unflushed < FLUSH_EVERY
    await log.close()


async def test_a_cut_while_notes_are_flushed_leaves_their_count_right(disk: Disk) -> None:
    """Otherwise the next notes, and those of a clean stop, would stay off the disk."""
    await disk.write()
    noted = StableEnd(disk.files, str(disk.path))
    noted.note(LogEnd(1, 5))
    settling = asyncio.create_task(noted.settle(at_least=1))
    await asyncio.sleep(0)
    noted.note_at_once(LogEnd(1, 3))
    await settling
    assert noted._unflushed == 0
    noted.close()


async def test_a_cut_that_could_not_be_noted_can_be_made_later(disk: Disk) -> None:
    await disk.write()
    log = await disk.open()
    (disk.path / FILE_NAME).rename(disk.path / "elsewhere")
    (disk.path / FILE_NAME).mkdir()
    with pytest.raises(StorageError):
        log.truncate_to(4)
    assert log.end == LogEnd(3, 9)
    (disk.path / FILE_NAME).rmdir()
    (disk.path / "elsewhere").rename(disk.path / FILE_NAME)
    log.truncate_to(4)
    assert log.end == LogEnd(1, 3)
    again = await disk.open()
    assert again.end == LogEnd(1, 3)
    await again.close()
