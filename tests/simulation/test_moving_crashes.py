"""A log that moves to and fro between two disks: random work, crashes anywhere, what comes back.

The same is asked as of a log that stays (test_storage_crashes.py), whichever of the two directories
a start finds it in: after a kill everything that was appended, after a loss of power at least what
was flushed, and always a prefix. While it is copied the log is appended to, cut, flushed and read.
"""

import asyncio
from typing import Any

import pytest

from minikafka.broker.partition.log_store import LogStore
from minikafka.protocol.types import TopicPartition
from minikafka.runtime.errors import LogDirectoryFailed
from minikafka.storage.directory import LogDirectory
from minikafka.storage.log import Log
from minikafka.storage.moving import Move
from minikafka.storage.producer_state import ProducerState

from .test_storage_crashes import Tortured
from .world import SimRuntime

NAME = TopicPartition("t", 0)
ID = bytes(range(16))
SEEDS = range(120)
ENOUGH = 1 << 20


class Moved(Tortured):
    """One log that moves to and fro between two directories, through crashes and starts."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.swaps = 0
        self.directories: list[LogDirectory] = []

    async def live(self, runtime: SimRuntime) -> None:
        self.host.disk.mend()
        self.host.disk.locks.clear()  # A process that died while it took one has it still.
        for path in ("/data/a", "/data/b"):
            runtime.fs.mkdir(path)
            await runtime.fs.fsync_dir("/data")
        await runtime.fs.fsync_dir("/")
        try:
            self.directories = [
                await LogDirectory.open(runtime, path, node_id=1) for path in ("/data/a", "/data/b")
            ]
            store = LogStore(runtime, self.directories)
            await store.load(lambda topic: self.config)
            if not self.alive:
                return
            stored = store.claim(ID, NAME, self.config)
            assert stored is not None
            await self.compare(stored.log)
            mover = runtime.spawn(self.move_about(runtime), "mover")
            await self.work(stored.log)
            await mover
            await self.read_through(stored.log)
        except LogDirectoryFailed:
            pass  # Nothing is done here until the process starts anew.

    async def move_about(self, runtime: SimRuntime) -> None:
        for _ in range(3):
            source = next((each for each in self.directories if NAME in each.logs), None)
            if source is None or not self.alive:
                return
            (target,) = [each for each in self.directories if each is not source]
            try:
                move = Move(runtime, NAME, source, target)
            except LogDirectoryFailed:
                return
            try:
                if await self.carry_out(move):
                    self.swaps += self.alive
                    await move.finish()
                    continue
            except LogDirectoryFailed:
                pass
            if move.log.copy is move.copy:
                move.give_up()
                await move.clear()

    async def carry_out(self, move: Move) -> bool:
        """Copy and swap; False if the test gave the move up on the way."""
        rng, log = self.rng, move.log
        for _ in range(20):
            while not move.copy.is_whole:
                if rng.random() < 0.02 or not self.alive:
                    return False
                await move.copy.step(rng.choice((1, 500, 5000)), log.flushed_offset)
                await asyncio.sleep(0.002 * rng.random())
            await move.make_ready(log.flushed_offset)
            async with move.held():
                await move.copy.flush()
                if not self.alive:
                    return False
                is_whole = move.copy.catch_up(ENOUGH, log.flushed_offset)
                if is_whole and move.copy.is_stable:
                    move.swap()
                    return True
        return False

    def kept(self, producers: ProducerState) -> list[Any]:
        """Return what is known of the producers; snapshots keep only the last sequence of each."""
        return [
            (producer_id, producer.epoch, producer.batches[-1].last_sequence)
            for producer_id, producer in producers
        ]

    async def flush(self, log: Log) -> None:
        await super().flush(log)
        if self.rng.random() < 0.5 and self.alive:
            for directory in self.directories:
                if NAME in directory.logs:
                    await directory.checkpoint({NAME: log.flushed_offset})


@pytest.mark.parametrize("seed", SEEDS)
def test_a_log_that_moves_survives_crashes(seed: int) -> None:
    moved = Moved(seed)
    moved.world.run(moved.story())


def test_logs_do_move_in_these_stories() -> None:
    stories = [Moved(seed) for seed in range(10)]
    for each in stories:
        each.world.run(each.story())
    assert sum(each.swaps for each in stories) > 20
