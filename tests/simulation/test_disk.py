"""The simulated disk: the page cache survives a kill, only what was synced survives power loss."""

import asyncio
import errno
from collections.abc import Callable
from typing import Any

import pytest

from minikafka.runtime.fs import LockHeld

from .disk import Disk, SimFileSystem
from .world import SimRuntime, World

pytestmark = pytest.mark.slow


class Machine:
    """One host, on which one process runs after another."""

    def __init__(self, seed: int = 1) -> None:
        self.world = World(seed)
        self.host = self.world.add_host("machine")
        self.disk: Disk = self.host.disk
        self.disk.short_chance = self.disk.cold_chance = 0

    def story(self, main: Callable[["Machine"], Any]) -> Any:
        return self.world.run(main(self))

    async def process(self, body: Callable[[SimFileSystem], Any], *, end: str = "exit") -> Any:
        """Run `body` in a process of its own; afterwards it is killed, or the power fails."""
        result: list[Any] = []
        done = asyncio.get_running_loop().create_future()

        async def main(runtime: SimRuntime) -> None:
            result.append(await body(runtime.fs))
            done.set_result(None)
            if end != "exit":
                await asyncio.sleep(1e6)

        process = self.world.start(self.host, "p", main)
        await done
        await asyncio.sleep(0)
        if end == "kill":
            self.world.kill(process)
        elif end == "power":
            self.world.power_off(self.host)
            self.world.power_on(self.host)
        await asyncio.sleep(0)
        return result[0]


def contents(fs: SimFileSystem, path: str) -> bytes:
    file = fs.open(path)
    buffer = bytearray(file.size())
    assert file.preadv_wait(buffer, 0) == len(buffer)
    file.close()
    return bytes(buffer)


async def write_without_sync(fs: SimFileSystem) -> None:
    fs.mkdir("/data/log")
    file = fs.open("/data/log/0", create=True)
    assert file.pwritev([b"a" * 300, b"b" * 300], 0) == 600
    assert file.pwritev([b"c" * 1000], 600) == 1000


WRITTEN = b"a" * 300 + b"b" * 300 + b"c" * 1000


def test_a_kill_loses_nothing_that_was_written() -> None:
    async def story(machine: Machine) -> None:
        await machine.process(write_without_sync, end="kill")

        async def read(fs: SimFileSystem) -> bytes:
            return contents(fs, "/data/log/0")

        assert await machine.process(read) == WRITTEN

    Machine().story(story)


def test_power_loss_loses_names_that_were_not_synced() -> None:
    outcomes: list[bool] = []

    async def story(machine: Machine) -> None:
        await machine.process(write_without_sync, end="power")

        async def look(fs: SimFileSystem) -> bool:
            return fs.exists("/data/log/0")

        outcomes.append(await machine.process(look))

    for seed in range(30):
        Machine(seed).story(story)
    assert any(outcomes)
    assert not all(outcomes)


async def sync_names(fs: SimFileSystem) -> None:
    for path in ("/", "/data", "/data/log"):
        await fs.fsync_dir(path)


def test_power_loss_tears_at_sectors_what_was_not_synced() -> None:
    seen: dict[bytes, int] = {}

    async def write(fs: SimFileSystem) -> None:
        await write_without_sync(fs)
        await sync_names(fs)

    async def story(machine: Machine) -> None:
        await machine.process(write, end="power")

        async def read(fs: SimFileSystem) -> bytes:
            return contents(fs, "/data/log/0")

        found = await machine.process(read)
        seen[found] = seen.get(found, 0) + 1

    for seed in range(60):
        Machine(seed).story(story)
    assert b"" in seen
    assert WRITTEN in seen
    torn = [found for found in seen if found not in (b"", WRITTEN)]
    assert torn
    for found in torn:
        for start in range(0, len(found), 512):
            sector = found[start : start + 512]
            assert sector in (WRITTEN[start : start + len(sector)], bytes(len(sector)))


def test_power_loss_keeps_what_was_synced() -> None:
    async def write(fs: SimFileSystem) -> None:
        await write_without_sync(fs)
        await sync_names(fs)
        file = fs.open("/data/log/0", write=True)
        await file.fdatasync()
        file.pwritev([b"tail"], len(WRITTEN))

    async def story(machine: Machine) -> None:
        await machine.process(write, end="power")

        async def read(fs: SimFileSystem) -> bytes:
            return contents(fs, "/data/log/0")

        found = await machine.process(read)
        assert found[:1536] == WRITTEN[:1536]
        assert found[: len(WRITTEN)] == WRITTEN

    for seed in range(30):
        Machine(seed).story(story)


def test_a_rename_is_whole_or_not_at_all() -> None:
    outcomes: dict[bytes, None] = {}

    async def write(fs: SimFileSystem) -> None:
        fs.mkdir("/d")
        for name, data in (("/d/f", b"old"), ("/d/f.tmp", b"new")):
            file = fs.open(name, create=True)
            file.pwritev([data], 0)
            await file.fdatasync()
        await fs.fsync_dir("/")
        await fs.fsync_dir("/d")
        fs.rename("/d/f.tmp", "/d/f")

    async def story(machine: Machine) -> None:
        await machine.process(write, end="power")

        async def read(fs: SimFileSystem) -> tuple[bytes, list[str]]:
            return contents(fs, "/d/f"), fs.listdir("/d")

        found, names = await machine.process(read)
        outcomes[found] = None
        assert names == (["f"] if found == b"new" else ["f", "f.tmp"])

    for seed in range(20):
        Machine(seed).story(story)
    assert sorted(outcomes) == [b"new", b"old"]


def test_a_lock_ends_with_its_process() -> None:
    async def take(fs: SimFileSystem) -> None:
        fs.lock("/.lock")
        with pytest.raises(LockHeld):
            fs.lock("/.lock")

    async def story(machine: Machine) -> None:
        await machine.process(take, end="kill")
        await machine.process(take)

    Machine().story(story)


def test_a_process_can_die_inside_a_write() -> None:
    lengths: dict[int, None] = {}

    async def story(machine: Machine) -> None:
        done = asyncio.get_running_loop().create_future()

        async def main(runtime: SimRuntime) -> None:
            file = runtime.fs.open("/f", create=True)
            runtime.process.die_at_disk_operation = 2
            file.pwritev([b"1" * 100], 0)
            asyncio.get_running_loop().call_later(1, done.set_result, None)
            file.pwritev([b"2" * 100], 100)
            file.pwritev([b"3" * 100], 200)

        process = machine.world.start(machine.host, "dying", main)
        await asyncio.sleep(5)
        assert not process.alive
        assert not done.done()

        async def read(fs: SimFileSystem) -> bytes:
            return contents(fs, "/f")

        found = await machine.process(read)
        assert (b"1" * 100 + b"2" * 100).startswith(found)
        lengths[len(found)] = None

    for seed in range(20):
        Machine(seed).story(story)
    assert min(lengths) >= 100
    assert len(lengths) > 3


def test_reads_may_be_cold_and_short() -> None:
    async def body(fs: SimFileSystem) -> None:
        file = fs.open("/f", create=True)
        file.pwritev([bytes(1000)], 0)
        buffer = bytearray(1000)
        results: dict[object, int] = {}
        for _ in range(300):
            try:
                result: object = file.preadv(buffer, 0) == 1000
            except BlockingIOError:
                result = "cold"
                assert await file.preadv_cold(buffer, 0) == 1000
            results[result] = results.get(result, 0) + 1
        assert set(results) == {True, False, "cold"}

    async def story(machine: Machine) -> None:
        machine.disk.cold_chance = machine.disk.short_chance = 0.2
        await machine.process(body)

    Machine().story(story)


def test_faults_of_the_hardware() -> None:
    async def body(fs: SimFileSystem) -> None:
        disk = fs.disk
        file = fs.open("/f", create=True)
        disk.capacity = 150
        assert file.pwritev([bytes(200)], 0) == 150
        with pytest.raises(OSError, match="No space") as full:
            file.pwritev([bytes(200)], 150)
        assert full.value.errno == errno.ENOSPC
        assert fs.space("/") == (150, 0)
        disk.fail_sync = lambda path: errno.EIO
        with pytest.raises(OSError, match="Input/output"):
            await file.fdatasync()
        disk.fail_sync = lambda path: None
        await file.fdatasync()

    async def story(machine: Machine) -> None:
        await machine.process(body, end="power")

        async def look(fs: SimFileSystem) -> int:
            return len(contents(fs, "/f").strip(b"\0")) if fs.exists("/f") else 0

        assert await machine.process(look) == 0

    Machine().story(story)


def test_errors_are_those_of_the_operating_system() -> None:
    async def body(fs: SimFileSystem) -> None:
        with pytest.raises(FileNotFoundError):
            fs.open("/missing")
        with pytest.raises(FileNotFoundError):
            fs.open("/missing/f", create=True)
        with pytest.raises(FileNotFoundError):
            fs.listdir("/missing")
        fs.mkdir("/a/b")
        fs.open("/a/b/f", create=True)
        with pytest.raises(IsADirectoryError):
            fs.open("/a/b")
        fs.mkdir("/c")
        with pytest.raises(OSError, match="not empty"):
            fs.rename("/c", "/a/b")
        with pytest.raises(OSError, match="Bad file"):
            fs.open("/a/b/f").pwritev([b"x"], 0)
        fs.remove_tree("/a")
        assert fs.listdir("/") == ["c"]

    async def story(machine: Machine) -> None:
        await machine.process(body)

    Machine().story(story)


@pytest.mark.parametrize("is_rewritten", [False, True])
def test_who_was_told_that_a_sync_failed_must_not_believe_the_next_one(is_rewritten: bool) -> None:
    """Linux drops the pages (fsyncgate): only what is written again can become stable."""

    async def body(fs: SimFileSystem) -> None:
        file = fs.open("/f", create=True)
        file.pwritev([b"lost"], 0)
        fs.disk.fail_sync = lambda path: errno.EIO
        with pytest.raises(OSError, match="f"):
            await file.fdatasync()
        fs.disk.mend()
        if is_rewritten:
            file.pwritev([b"lost"], 0)
        await file.fdatasync()

    machine = Machine()
    told: list[tuple[str, str]] = []
    machine.disk.on_believed = lambda process, path: told.append((process, path))
    machine.story(lambda each: each.process(body))
    assert told == ([] if is_rewritten else [("p", "/f")])
