"""Files of checked frames: what was written is read, and any damage is found."""

import asyncio
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from minikafka.storage.files import TEMPORARY, Files
from minikafka.storage.framed_file import TURN_BYTES, DamagedFrames, read_frames, write_frames

from .support import TestRuntime

FRAMES = [b"a", bytes(300), b"last"]


@pytest.fixture
def files(tmp_path: Path) -> Iterator[Files]:
    runtime = TestRuntime()
    yield Files(runtime.fs, str(tmp_path))
    runtime.close()


async def read(files: Files, path: str) -> list[bytes]:
    return [bytes(frame) async for frame in read_frames(files, path)]


async def test_frames_are_read_as_they_were_written(files: Files) -> None:
    path = f"{files.root}/frames"
    assert await read(files, path) == []
    assert await write_frames(files, path, FRAMES)
    assert await read(files, path) == FRAMES
    assert await write_frames(files, path, [])
    assert await read(files, path) == []


async def test_any_damage_is_found(files: Files) -> None:
    path = Path(files.root) / "frames"
    await write_frames(files, str(path), FRAMES)
    data = path.read_bytes()
    for at in range(len(data)):
        path.write_bytes(data[:at])
        with pytest.raises(DamagedFrames):
            await read(files, str(path))
        for bit in (1, 0x80):
            path.write_bytes(data[:at] + bytes([data[at] ^ bit]) + data[at + 1 :])
            with pytest.raises(DamagedFrames):
                await read(files, str(path))
    path.write_bytes(bytes(len(data)))
    with pytest.raises(DamagedFrames):
        await read(files, str(path))


async def test_others_have_turns_and_a_directory_may_go_meanwhile(files: Files) -> None:
    there = Path(files.root) / "t-0"
    turns: list[int] = []

    def frames() -> Iterable[bytes]:
        for number in range(4):
            turns.append(number)
            yield bytes(TURN_BYTES)

    async def rename() -> None:
        assert len(turns) < 4
        there.rename(there.with_name("t-0-delete"))

    assert not await write_frames(files, f"{there}/frames", FRAMES)
    there.mkdir()
    renaming = asyncio.create_task(rename())
    assert not await write_frames(files, f"{there}/frames", frames())
    await renaming
    assert not there.exists()
    assert [each.name for each in there.with_name("t-0-delete").iterdir()] == [f"frames{TEMPORARY}"]
    assert files.failure is None
