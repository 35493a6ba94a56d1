import asyncio
import os
from pathlib import Path

import pytest

from minikafka.client.cli.lines import read_lines


async def collect(fd: int) -> list[bytes]:
    return [line async for lines in read_lines(fd) for line in lines]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (b"", []),
        (b"a\nb\n", [b"a", b"b"]),
        (b"a\r\n\nb", [b"a", b"", b"b"]),
        (b"\n", [b""]),
        (b"x" * 200_000 + b"\ny\n", [b"x" * 200_000, b"y"]),
    ],
)
async def test_a_file(tmp_path: Path, text: bytes, lines: list[bytes]) -> None:
    path = tmp_path / "lines"
    path.write_bytes(text)
    with path.open("rb") as file:
        assert await collect(file.fileno()) == lines


async def test_a_pipe_is_read_as_it_fills() -> None:
    read_end, write_end = os.pipe()
    got: list[bytes] = []
    arrived = asyncio.Event()

    async def follow() -> None:
        async for lines in read_lines(read_end):
            got.extend(lines)
            arrived.set()

    task = asyncio.create_task(follow())
    os.write(write_end, b"one\ntw")
    await asyncio.wait_for(arrived.wait(), 10)
    assert got == [b"one"]
    os.write(write_end, b"o\nthree")
    os.close(write_end)
    await asyncio.wait_for(task, 10)
    assert got == [b"one", b"two", b"three"]
    os.close(read_end)
