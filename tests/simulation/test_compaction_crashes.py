"""Compaction on the simulated disk: random histories, crashes anywhere, and what must come back.

Whatever happened, what can be read folds by key to the same as all that was appended, offsets and
values unchanged; nothing above what a round was allowed to touch is missing; and after the crash
the log goes on, and is compacted again. Tombstones go as soon as they may.
"""

import asyncio
from typing import Any, NamedTuple

import pytest

from minikafka.protocol.records.record_batch import (
    BatchBuilder,
    Codec,
    headers,
    read_header,
    records,
)
from minikafka.protocol.types import TopicPartition
from minikafka.runtime.config import from_mapping
from minikafka.runtime.errors import LogDirectoryFailed
from minikafka.storage.compaction.cleaner_offsets import CleanerOffsets
from minikafka.storage.compaction.compactor import Compactor, due
from minikafka.storage.files import Files
from minikafka.storage.log import Cold, Log
from minikafka.storage.topic_config import TopicConfig

from .world import SimRuntime, World

NAME = TopicPartition("t", 0)
DIRECTORY = "/data/t-0"
SEEDS = range(100, 180)


class Entry(NamedTuple):
    offset: int
    key: bytes
    value: bytes | None


def fold(entries: list[Entry]) -> dict[bytes, tuple[int, bytes]]:
    newest = {entry.key: entry for entry in entries}
    return {
        key: (entry.offset, entry.value) for key, entry in newest.items() if entry.value is not None
    }


class Compacted:
    """One disk with one compacted log, which is opened again and again."""

    def __init__(self, seed: int) -> None:
        self.world = World(seed)
        self.host = self.world.add_host("machine")
        self.rng = self.world.rng("test")
        self.entries: list[Entry] = []
        """All records that were appended and not cut."""
        self.in_flight: list[Entry] = []
        self.versions: list[list[Entry]] = []
        """The log's records before each cut that may come undone."""
        self.stable_end = 0
        self.allowed = 0
        """The offset from which on no round was allowed to touch anything."""
        self.rounds = 0
        self.dropped = 0
        self.epoch = 0
        self.number = 0
        self.config = from_mapping(
            TopicConfig,
            {
                "cleanup.policy": "compact",
                "segment.bytes": str(self.rng.choice((200, 900))),
                "index.interval.bytes": "1",
                "min.cleanable.dirty.ratio": "0",
                "delete.retention.ms": str(self.rng.choice((0, 30))),
            },
        )

    async def story(self) -> None:
        for _ in range(8):
            done = asyncio.get_running_loop().create_future()

            async def life(runtime: SimRuntime, done: Any = done) -> None:
                await self.live(runtime)
                done.set_result(None)
                await asyncio.sleep(1e6)

            process = self.world.start(self.host, "log", life)
            end = self.rng.choice(("kill", "power", "inside", "inside", "rest"))
            if end == "inside":
                process.die_at_disk_operation = self.rng.randint(1, 150)
                await asyncio.wait({done}, timeout=10)
            elif end == "rest":
                await done
            else:
                await asyncio.wait({done}, timeout=self.rng.random() * 0.3)
            if end == "power" or (end == "inside" and self.rng.random() < 0.5):
                self.world.power_off(self.host)
                self.world.power_on(self.host)
            else:
                self.world.kill(process)

    @property
    def alive(self) -> bool:
        return self.world.processes["log"].alive

    async def live(self, runtime: SimRuntime) -> None:
        self.host.disk.mend()
        runtime.fs.mkdir("/data")
        await runtime.fs.fsync_dir("/")
        files = Files(runtime.fs, "/data")
        offsets = CleanerOffsets(files)
        try:
            offsets.read()
            log = await Log.open(runtime, DIRECTORY, self.config, files=files, clean=False)
            if not self.alive:
                return
            offsets.cut(NAME, log.log_end_offset)
            log.on_truncating = lambda _, offset: offsets.cut(NAME, offset)
            await self.compare(log)
            await self.work(runtime, log, offsets)
            if self.alive:
                self.check(await self.contents(log), log.log_end_offset, self.entries)
        except LogDirectoryFailed:
            assert not self.alive, "the disk was fine"

    async def work(self, runtime: SimRuntime, log: Log, offsets: CleanerOffsets) -> None:
        for _ in range(self.rng.randint(1, 25)):
            action = self.rng.random()
            if not self.alive:
                return
            if action < 0.6:
                self.append(log)
            elif action < 0.7:
                await self.flush(log)
            elif action < 0.78:
                await self.truncate(log)
            else:
                await self.compact(runtime, log, offsets)
            if self.rng.random() < 0.2:
                await asyncio.sleep(0.02 * self.rng.random())

    def append(self, log: Log) -> None:
        rng, offset = self.rng, log.log_end_offset
        builder = BatchBuilder(rng.choice((Codec.NONE, Codec.NONE, Codec.ZSTD)))
        self.in_flight = []
        for n in range(rng.randint(1, 4)):
            self.number += 1
            value = None if rng.random() < 0.25 else b"%d" % self.number * rng.choice((1, 10))
            entry = Entry(offset + n, b"key%d" % rng.randrange(6), value)
            builder.append(self.number, entry.key, entry.value)
            self.in_flight.append(entry)
        data = builder.build(base_offset=offset, leader_epoch=self.epoch)
        log.append([(read_header(data), bytes(data))])
        if self.alive:
            self.entries += self.in_flight
            self.in_flight = []
            if rng.random() < 0.2:
                log.roll()

    async def flush(self, log: Log) -> None:
        end = log.log_end_offset
        await log.flush()
        if self.alive:
            self.stable_end = end
            self.versions.clear()

    async def truncate(self, log: Log) -> None:
        """Truncate as a follower does, never below what is committed.

        Only committed records have been compacted.
        """
        starts = [entry.offset for entry in self.entries if entry.offset >= self.allowed]
        if not starts:
            return
        offset = self.rng.choice(starts)
        self.versions.append(list(self.entries))
        kept = [entry for entry in self.entries if entry.offset < offset]
        self.stable_end = min(self.stable_end, offset - 3)  # The whole batch goes.
        log.truncate_to(offset)
        if self.alive:
            # Batches go whole.
            self.entries = [entry for entry in kept if entry.offset < log.log_end_offset]
            self.epoch += 1
            await self.flush(log)

    async def compact(self, runtime: SimRuntime, log: Log, offsets: CleanerOffsets) -> None:
        await self.flush(log)
        log.roll()
        await self.flush(log)
        if not self.alive:
            return
        up_to = self.rng.randint(0, log.log_end_offset)
        part = due(log, offsets.of(NAME), up_to, runtime.wall_ms())
        if part is None:
            return
        self.allowed = max(self.allowed, part.segments[-1].next_offset)

        async def pay(count: int) -> None:
            if self.rng.random() < 0.5:
                await asyncio.sleep(0.001)

        map_bytes = self.rng.choice((1, 600, 1 << 20))
        before = log.size_bytes
        end = await Compactor(runtime, map_bytes, pay).compact(log, part)
        if self.alive and end is not None:
            assert end > part.first_dirty
            self.rounds += 1
            self.dropped += before - log.size_bytes
            await offsets.note(NAME, end)
            self.check(await self.contents(log), log.log_end_offset, self.entries)

    def check(self, found: list[Entry], end: int, version: list[Entry]) -> None:
        below = [entry for entry in version if entry.offset < end]
        known = {entry.offset: entry for entry in below}
        assert [entry.offset for entry in found] == sorted({entry.offset for entry in found})
        for entry in found:
            assert known.get(entry.offset) == entry
        there = {entry.offset: None for entry in found}
        missing = [entry for entry in below if entry.offset not in there]
        assert all(entry.offset < self.allowed for entry in missing)
        assert fold(found) == fold(below)

    async def compare(self, log: Log) -> None:
        found, end = await self.contents(log), log.log_end_offset
        assert end >= self.stable_end
        last: AssertionError | None = None
        for version in (self.entries + self.in_flight, *self.versions):
            try:
                self.check(found, end, version)
            except AssertionError as error:
                last = error
            else:
                self.entries = [entry for entry in version if entry.offset < end]
                break
        else:
            assert last is not None
            raise last
        self.in_flight = []
        self.versions.append(list(self.entries))
        self.epoch += 1
        names = log.files.names(DIRECTORY)
        assert not [name for name in names if name.endswith((".cleaned", ".swap", ".deleted"))]

    async def contents(self, log: Log) -> list[Entry]:
        found: list[Entry] = []
        offset = log.log_start_offset
        while offset < log.log_end_offset:
            size = self.rng.choice((1, 500, 10_000))
            try:
                data = log.reader.read(offset, max_bytes=size, up_to=log.log_end_offset).data
            except Cold:
                cold = await log.reader.read_cold(offset, max_bytes=size, up_to=log.log_end_offset)
                data = cold.data
            if not data:
                break  # Cut within a gap.
            for position, header in headers(data):
                found += [
                    Entry(record.offset, record.key or b"", record.value)
                    for record in records(data, position, check_crc=True)
                ]
                offset = header.next_offset
        return found


def test_a_compacted_log_survives_crashes() -> None:
    """Besides survival, check that rounds end and drop records."""
    rounds = dropped = 0
    for seed in SEEDS:
        rounds, dropped = (a + b for a, b in zip((rounds, dropped), play(seed), strict=True))
    assert rounds > 2 * len(SEEDS)
    assert dropped > 10_000


def play(seed: int) -> tuple[int, int]:
    compacted = Compacted(seed)
    try:
        compacted.world.run(compacted.story())
    except AssertionError as error:
        pytest.fail(f"seed {seed}: {error!r}")
    return compacted.rounds, compacted.dropped
