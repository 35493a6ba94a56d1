import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from minikafka.runtime.fs import LockHeld, OsFileSystem


@pytest.fixture
def fs() -> Iterator[OsFileSystem]:
    made = OsFileSystem()
    yield made
    made.close()


async def test_files_are_written_and_read_at_positions(fs: OsFileSystem, tmp_path: Path) -> None:
    file = fs.open(str(tmp_path / "f"), create=True)
    assert file.pwritev([b"abc", bytearray(b"de"), memoryview(b"f")], 2) == 6
    assert file.size() == 8
    buffer = bytearray(4)
    assert file.preadv_wait(buffer, 1) == 4
    assert buffer == b"\0abc"
    assert file.preadv(buffer, 4) == 4  # just written: warm
    assert buffer == b"cdef"
    assert await file.preadv_cold(buffer, 6) == 2
    assert buffer == b"efef"
    assert file.preadv_wait(buffer, 8) == 0
    file.truncate(3)
    await file.fdatasync()
    assert (tmp_path / "f").read_bytes() == b"\0\0a"
    file.close()
    file.close()


async def test_a_file_closed_during_a_sync_is_still_synced(
    fs: OsFileSystem, tmp_path: Path
) -> None:
    file = fs.open(str(tmp_path / "f"), create=True)
    file.pwritev([b"abc"], 0)
    syncing = asyncio.ensure_future(file.fdatasync())
    await asyncio.sleep(0)
    file.close()
    others = [fs.open(str(tmp_path / str(n)), create=True) for n in range(5)]
    await syncing
    for other in others:
        other.close()


async def test_names(fs: OsFileSystem, tmp_path: Path) -> None:
    base = str(tmp_path / "a" / "b")
    fs.mkdir(base)
    fs.mkdir(base)
    for name in ("2", "10", "1"):
        fs.open(f"{base}/{name}", create=True).close()
    assert fs.listdir(base) == ["1", "10", "2"]
    fs.rename(f"{base}/2", f"{base}/1")
    fs.remove(f"{base}/10")
    await fs.fsync_dir(base)
    assert fs.listdir(base) == ["1"]
    assert fs.exists(f"{base}/1")
    assert not fs.exists(f"{base}/2")
    with pytest.raises(FileNotFoundError):
        fs.open(f"{base}/2")
    with pytest.raises(FileNotFoundError):
        fs.remove(f"{base}/2")
    with pytest.raises(FileNotFoundError):
        await fs.fsync_dir(f"{base}/no")
    fs.remove_tree(str(tmp_path / "a"))
    assert not fs.exists(base)
    total, free = fs.space(str(tmp_path))
    assert 0 < free <= total


def test_a_lock_excludes_until_released(fs: OsFileSystem, tmp_path: Path) -> None:
    path = str(tmp_path / ".lock")
    lock = fs.lock(path)
    with pytest.raises(LockHeld):
        fs.lock(path)
    lock.release()
    lock.release()
    fs.lock(path).release()


def test_a_lock_is_never_taken_through_a_link(fs: OsFileSystem, tmp_path: Path) -> None:
    (tmp_path / ".lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic"):
        fs.lock(str(tmp_path / ".lock"))
    assert not (tmp_path / "elsewhere").exists()


def test_only_owner_and_group_read_what_is_written(fs: OsFileSystem, tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        fs.mkdir(str(tmp_path / "a" / "b"))
        fs.open(str(tmp_path / "a" / "b" / "f"), create=True).close()
        fs.lock(str(tmp_path / "a" / "lock")).release()
    finally:
        os.umask(before)
    assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o750
    for name in ("a/b/f", "a/lock"):
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o640
