"""A segment of a delay topic is rewritten on the simulated disk, with a crash at each step (R-22).

Whatever was done by then, the log opens, has every record that waits and every control batch, and
is rewritten again.
"""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from minikafka.protocol.records.batch_header import CONTROL_BIT
from minikafka.protocol.records.record_batch import BatchBuilder, headers, read_header, records
from minikafka.runtime.config import from_mapping
from minikafka.runtime.errors import LogDirectoryFailed
from minikafka.storage.compaction.compactor import Compactor
from minikafka.storage.compaction.finished import due_of_finished
from minikafka.storage.files import Files
from minikafka.storage.log import Log
from minikafka.storage.offset_set import OffsetSet
from minikafka.storage.topic_config import TopicConfig

from ..storage.transactions import Writer, append, marker
from .disk import FileNode
from .world import SimRuntime, World

DIRECTORY = "/data/t-0"
CONFIG = from_mapping(
    TopicConfig,
    {"minikafka.delay.target": "x", "minikafka.delay.keep.ms": "0", "index.interval.bytes": "1"},
)
WAITING = (3, 17, 18)
CONTROL = 20
"""The offset of the control batch, behind the records of the segment that is rewritten."""
STEPS_MOST = 200


class Rewritten:
    """One disk with the log of a delay topic."""

    def __init__(self, seed: int) -> None:
        self.world = World(seed)
        self.host = self.world.add_host("machine")

    async def fill(self, runtime: SimRuntime) -> None:
        runtime.fs.mkdir("/data")
        await runtime.fs.fsync_dir("/")
        log = await self.open(runtime)
        for number in range(20):
            builder = BatchBuilder()
            builder.append(1, b"key", b"%d" % number)
            data = builder.build(base_offset=number, leader_epoch=0)
            log.append([(read_header(data), bytes(data))])
        append(log, marker(CONTROL, Writer(7), commits=True))
        log.roll()
        builder = BatchBuilder()
        builder.append(1, b"key", b"newest")
        data = builder.build(base_offset=CONTROL + 1, leader_epoch=0)
        log.append([(read_header(data), bytes(data))])
        await log.flush()

    async def open(self, runtime: SimRuntime) -> Log:
        files = Files(runtime.fs, "/data")
        return await Log.open(runtime, DIRECTORY, CONFIG, files=files, clean=False)

    async def rewrite(self, runtime: SimRuntime) -> bool:
        """Rewrite the first segment; return False if nothing of it is over any more."""
        log = await self.open(runtime)
        over = OffsetSet()
        over.add_all(each for each in range(CONTROL) if each not in WAITING)
        log.segments.finished = over
        await log.flush()
        # What was rewritten before the crash is rewritten once more: nobody remembers it.
        part = due_of_finished(log, {}, CONTROL + 1, runtime.wall_ms())
        if part is None:
            return False

        async def pay(count: int) -> None:
            await asyncio.sleep(0.001)

        assert await Compactor(runtime, 1 << 20, pay).compact(log, part) == part.first_dirty
        return True

    def check(self, left: tuple[int, ...] | None = None) -> None:
        """Check what is on the disk, after a start: nothing that is needed is missing."""
        found: dict[int, bytes | None] = {}
        is_control: dict[int, None] = {}
        directory = self.host.disk.find(DIRECTORY)
        for name, node in sorted(directory.entries.items()):
            assert not name.endswith((".cleaned", ".swap", ".deleted")), name
            if not name.endswith(".log") or not isinstance(node, FileNode):
                continue
            data = bytes(node.cache)
            for position, header in headers(data):
                for record in records(data, position, check_crc=True):
                    found[record.offset] = record.value
                    if header.attributes & CONTROL_BIT:
                        is_control[record.offset] = None
        assert [*found] == sorted(found)
        assert {offset: found.get(offset) for offset in WAITING} == {
            offset: b"%d" % offset for offset in WAITING
        }
        assert (found[CONTROL + 1], [*is_control]) == (b"newest", [CONTROL])
        if left is not None:
            assert tuple(found) == left

    def life(self, body: Callable[[SimRuntime], Awaitable[object]]) -> asyncio.Future[None]:
        """Start a process that runs `body(runtime)`; the result is done once that has ended."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def main(runtime: SimRuntime) -> None:
            try:
                await body(runtime)
            except LogDirectoryFailed:
                assert not self.world.processes["log"].alive, "the disk was fine"
            done.set_result(None)
            await asyncio.sleep(1e6)

        self.world.start(self.host, "log", main)
        return done

    async def crash_at(self, step: int, *, is_power_lost: bool) -> bool:
        """Rewrite, dying at the n-th operation of the disk; return False if it ended before."""
        await self.life(self.fill)
        self.world.kill(self.world.processes["log"])
        done = self.life(self.rewrite)
        process = self.world.processes["log"]
        process.die_at_disk_operation = step
        await asyncio.wait({done}, timeout=10)
        has_died = not process.alive
        if is_power_lost:
            self.world.power_off(self.host)
            self.world.power_on(self.host)
        else:
            self.world.kill(process)
        self.host.disk.mend()
        await self.life(self.open)
        self.check()
        self.world.kill(self.world.processes["log"])
        await self.life(self.rewrite)
        self.check((*WAITING, CONTROL, CONTROL + 1))
        return has_died


@pytest.mark.parametrize("is_power_lost", [False, True])
def test_r_22_a_crash_at_any_step_of_a_rewriting_loses_nothing_that_waits(
    is_power_lost: bool,
) -> None:
    for step in range(1, STEPS_MOST):
        one = Rewritten(step)
        if not one.world.run(one.crash_at(step, is_power_lost=is_power_lost)):
            break
    assert 10 < step < STEPS_MOST - 1
