"""The segment log on the simulated disk: random work, crashes anywhere, and what must come back.

After a kill everything that was appended is there, and at most part of what was being appended.
After a power loss at least everything that was flushed is there, even where an earlier flush had
failed and left the page cache calling clean what was never written. Always a prefix, never an
invention, and producers as the surviving batches make them.
"""

import asyncio
import errno
from typing import Any

import pytest

from minikafka.protocol.records.record_batch import BatchBuilder, BatchHeader, read_header
from minikafka.runtime.config import from_mapping
from minikafka.runtime.errors import LogDirectoryFailed
from minikafka.storage.log import Cold, Log
from minikafka.storage.producer_state import ProducerState
from minikafka.storage.topic_config import TopicConfig

from .disk import Disk
from .world import SimRuntime, World

DIRECTORY = "/data/t-0"
SEEDS = range(60)


class Model:
    """What the log should hold: every batch that was appended, and how far it is stable."""

    def __init__(self) -> None:
        self.batches: list[bytes] = []
        self.in_flight: list[bytes] = []
        """The batches of an append that has not returned."""
        self.stable_count = 0
        """The number of batches that survive anything."""
        self.versions: list[list[bytes]] = []
        """The batches before each cut, because a cut may come undone until the next flush."""
        self.epoch = 0
        self.sequence = 0

    @property
    def end(self) -> int:
        return read_header(self.batches[-1]).next_offset if self.batches else 0

    def continue_sequences(self) -> None:
        self.sequence = sum(read_header(data).record_count for data in self.batches)


class FailOnce:
    """A hook that lets one sync of a disk fail, after `spared` syncs that succeed."""

    def __init__(self, spared: int, disk: Disk) -> None:
        self.spared = spared
        self.disk = disk

    def __call__(self, path: str) -> int | None:
        self.spared -= 1
        if self.spared >= 0:
            return None
        self.disk.mend()
        return errno.EIO


class Tortured:
    """One disk with one log, which is opened again and again."""

    def __init__(self, seed: int) -> None:
        self.world = World(seed)
        self.host = self.world.add_host("machine")
        self.rng = self.world.rng("test")
        self.model = Model()
        self.may_have_lost = False
        """True if the power failed since the log was last compared."""
        self.config = from_mapping(
            TopicConfig,
            {
                "segment.bytes": str(self.rng.choice((300, 2000, 10**6))),
                "index.interval.bytes": "1",
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
            end = self.rng.choice(("kill", "power", "inside", "rest"))
            if end == "inside":
                process.die_at_disk_operation = self.rng.randint(1, 60)
                await asyncio.wait({done}, timeout=10)
            elif end == "rest":
                await done
            else:
                await asyncio.wait({done}, timeout=self.rng.random() * 0.1)
            if end == "power":
                self.world.power_off(self.host)
                self.world.power_on(self.host)
            else:
                self.world.kill(process)
            self.may_have_lost = self.may_have_lost or end == "power"

    async def live(self, runtime: SimRuntime) -> None:
        self.host.disk.mend()
        runtime.fs.mkdir("/data")  # its owner's business: see LogDirectory
        await runtime.fs.fsync_dir("/")
        log = await Log.open(runtime, DIRECTORY, self.config, clean=False)
        if not self.alive:
            return  # It died while opening, and what it seems to have found is nobody's.
        await self.compare(log)
        try:
            await self.work(log)
        except LogDirectoryFailed:
            log.abandon()  # Nothing is done here until the process starts anew.
        else:
            await self.read_through(log)

    async def work(self, log: Log) -> None:
        for _ in range(self.rng.randint(1, 30)):
            action = self.rng.random()
            if action < 0.75:
                self.append(log)
            elif action < 0.85:
                await self.flush(log)
            elif action < 0.92:
                self.truncate(log)
            else:
                self.model.epoch += 1
                log.assign_epoch(self.model.epoch, log.log_end_offset)
            if self.rng.random() < 0.3 or not self.alive:
                await asyncio.sleep(0.01 * self.rng.random())

    def append(self, log: Log) -> None:
        model, rng = self.model, self.rng
        batches: list[tuple[BatchHeader, bytes]] = []
        offset = log.log_end_offset
        for _ in range(rng.randint(1, 3)):
            count = rng.randint(1, 4)
            builder = BatchBuilder()
            for _ in range(count):
                builder.append(1000 + offset, None, rng.randbytes(rng.choice((1, 50, 700))))
            data = builder.build(
                producer_id=7,
                producer_epoch=0,
                base_sequence=model.sequence,
                base_offset=offset,
                leader_epoch=model.epoch,
            )
            model.sequence += count
            batches.append((read_header(data), bytes(data)))
            offset += count
        model.in_flight = [data for _, data in batches]
        log.append(batches)
        if self.alive:
            model.batches += model.in_flight
            model.in_flight = []
            assert log.log_end_offset == model.end

    @property
    def alive(self) -> bool:
        """False while code runs on after its process died inside a system call."""
        return self.world.processes["log"].alive

    async def flush(self, log: Log) -> None:
        count = len(self.model.batches)
        if self.rng.random() < 0.2:
            self.host.disk.fail_sync = FailOnce(self.rng.randint(0, 4), self.host.disk)
        await log.flush()
        self.model.stable_count = count

    def truncate(self, log: Log) -> None:
        model = self.model
        if not model.batches:
            return
        keep = self.rng.randint(max(0, len(model.batches) - 5), len(model.batches))
        offset = read_header(model.batches[keep - 1]).next_offset if keep else 0
        # From here on a crash may find it done or not done.
        model.versions.append(list(model.batches))
        model.stable_count = min(model.stable_count, keep)
        model.in_flight, model.batches = model.batches[keep:], model.batches[:keep]
        log.truncate_to(offset)
        if self.alive:
            model.in_flight = []
            model.continue_sequences()
            assert log.log_end_offset == model.end
            model.epoch += 1  # Offsets are given out anew only by a new leader.

    async def compare(self, log: Log) -> None:
        """Check a log after a start: it is a prefix of what was appended.

        All that must survive is in it.
        """
        model = self.model
        found = await self.contents(log)
        possible = [model.batches + model.in_flight]
        possible += model.versions if self.may_have_lost else []
        least = model.stable_count if self.may_have_lost else len(model.batches)
        is_prefix = any(found == version[: len(found)] for version in possible)
        assert is_prefix, "not a prefix of what was appended"
        assert len(found) >= least, f"{len(found)} batches of {least}"
        assert found[:least] == model.batches[:least]
        self.may_have_lost = False
        model.versions.append(model.batches)
        model.batches, model.in_flight = found, []
        model.continue_sequences()
        model.epoch += 1
        assert log.log_end_offset == model.end
        expected = ProducerState()
        for data in found:
            expected.observe(read_header(data), 0)
        assert self.kept(log.producers) == self.kept(expected)
        newest = read_header(found[-1]).leader_epoch if found else -1
        assert log.leader_epochs.latest_epoch == newest

    async def read_through(self, log: Log) -> None:
        assert await self.contents(log) == self.model.batches

    async def contents(self, log: Log) -> list[bytes]:
        found: list[bytes] = []
        offset = log.log_start_offset
        while offset < log.log_end_offset:
            size = self.rng.choice((1, 500, 10_000))
            try:
                data = log.reader.read(offset, max_bytes=size, up_to=log.log_end_offset).data
            except Cold:
                cold = await log.reader.read_cold(offset, max_bytes=size, up_to=log.log_end_offset)
                data = cold.data
            position = 0
            assert len(data)
            while position < len(data):
                header = read_header(data, position)
                found.append(bytes(data[position : position + header.size]))
                position += header.size
                offset = header.next_offset
        return found

    def kept(self, producers: ProducerState) -> list[Any]:
        """Return what is known of the producers, in a form that can be compared."""
        return [
            (producer_id, producer.epoch, [tuple(batch) for batch in producer.batches[-5:]])
            for producer_id, producer in producers
        ]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_log_survives_crashes(seed: int) -> None:
    tortured = Tortured(seed)
    tortured.world.run(tortured.story())
