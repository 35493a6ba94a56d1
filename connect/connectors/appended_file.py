"""A file that is appended to exactly once, by a side file with its durable length and offsets.

`FILE.offsets` is replaced by a rename after the file was flushed. What lies beyond the recorded
length was torn by a crash, and is cut off when the file is opened; the offsets beside the length
say where the records of that tail come again from. One process at a time has the file open.
After a flush that failed nothing more is written until it is opened again.
"""

import fcntl
import json
import logging
import os
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Final

from ...protocol.types import TopicPartition
from ..api import ConnectError

log = logging.getLogger(__name__)
LOCK_WAIT_S: Final = 10.0
_LOCK_STEP_S: Final = 0.1


@dataclass(slots=True)
class Recorded:
    """The content of a side file."""

    connector: str
    inode: int = 0
    length: int = 0
    """Bytes of the file that are durable and complete."""
    offsets: dict[str, int] = field(default_factory=dict)
    """By TOPIC-PARTITION the offset of the first record that is not in the file."""


class AppendedFile:
    """The file at `path`, appended to by one connector."""

    def __init__(self, path: str, connector: str, *, lock_wait_s: float = LOCK_WAIT_S) -> None:
        """Open it. Raise ConnectError if somebody else writes it, or its side file is no good."""
        self.path = path
        self._connector = connector
        self._lock_wait_s = lock_wait_s
        self._is_dirty = self._is_broken = False
        self._file = -1
        self._open()

    def offset(self, partition: TopicPartition) -> int | None:
        """Return the offset behind the last record that is in the file, or None."""
        return self._recorded.offsets.get(_name(partition))

    def append(self, data: bytes, offsets: Mapping[TopicPartition, int]) -> None:
        """Append bytes, after which the records before `offsets` are in the file."""
        self._check()
        left = memoryview(data)
        self._is_dirty = True
        while left:
            left = left[os.write(self._file, left) :]
        self._recorded.length += len(data)
        self.advance(offsets)

    def advance(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Note that all that is to be written before these offsets was appended."""
        for partition, offset in offsets.items():
            name = _name(partition)
            if self._recorded.offsets.get(name, -1) < offset:
                self._recorded.offsets[name] = offset
                self._is_dirty = True

    def flush(self) -> None:
        """Make the file durable, then its length and the offsets. Follow it if it was rotated."""
        self._check()
        self._is_broken = True
        if self._is_dirty:
            os.fsync(self._file)
            _save(self.path, self._recorded)
            self._is_dirty = False
        if not self._is_at_path():
            log.info("%s was moved away or deleted: a new one is begun", self.path)
            self.close()
            self._open()
        self._is_broken = False

    def close(self) -> None:
        """Close the file; what was not flushed is cut off when it is opened again."""
        if self._file >= 0:
            os.close(self._file)
        self._file = -1

    def _check(self) -> None:
        if self._is_broken:
            raise ConnectError(f"{self.path} could not be made durable; start the task again")

    def _open(self) -> None:
        mode = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._file = os.open(self.path, mode, 0o644)
        try:
            self._lock()
            self._recorded = self._load()
            self._cut()
            _save(self.path, self._recorded)
        except BaseException:
            self.close()
            raise

    def _lock(self) -> None:
        deadline = time.monotonic() + self._lock_wait_s
        while True:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise ConnectError(
                        f"{self.path} is open in another task or process; stop that one first"
                    ) from None
                time.sleep(_LOCK_STEP_S)
            else:
                return

    def _load(self) -> Recorded:
        recorded = _load(self.path) or Recorded(self._connector)
        if recorded.connector != self._connector:
            raise ConnectError(
                f"{self.path} belongs to connector {recorded.connector}, as {_side(self.path)} "
                "says; remove that side file if this is over, or name another file"
            )
        return recorded

    def _cut(self) -> None:
        there, recorded = os.fstat(self._file), self._recorded
        if there.st_ino == recorded.inode and there.st_size > recorded.length:
            torn = there.st_size - recorded.length
            log.warning("%s: its last %d bytes were never complete, cut off", self.path, torn)
            os.ftruncate(self._file, recorded.length)
            os.fsync(self._file)
            return
        if there.st_ino == recorded.inode and there.st_size < recorded.length:
            gone = recorded.length - there.st_size
            log.warning("%s: %d bytes that were durable are gone", self.path, gone)
        recorded.inode, recorded.length = there.st_ino, there.st_size

    def _is_at_path(self) -> bool:
        try:
            return os.stat(self.path).st_ino == self._recorded.inode
        except FileNotFoundError:
            return False


def set_offsets(path: str, offsets: Mapping[TopicPartition, int | None]) -> None:
    """Set what the side file of a file that nobody writes says; None removes a partition."""
    recorded = _load(path)
    if recorded is None:
        return
    for partition, offset in offsets.items():
        recorded.offsets.pop(_name(partition), None)
        if offset is not None:
            recorded.offsets[_name(partition)] = offset
    _save(path, recorded)


def _name(partition: TopicPartition) -> str:
    return f"{partition.topic}-{partition.partition}"


def _side(path: str) -> str:
    return f"{path}.offsets"


def _load(path: str) -> Recorded | None:
    try:
        with open(_side(path), encoding="utf-8") as file:
            recorded = Recorded(**json.load(file))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError) as error:
        raise ConnectError(
            f"{_side(path)} cannot be read ({error}); remove it to go on behind what {path} has now"
        ) from error
    return recorded


def _save(path: str, recorded: Recorded) -> None:
    """Replace the side file, so that it is the old one or the new one whatever happens."""
    temporary = f"{_side(path)}.new"
    with open(temporary, "w", encoding="utf-8") as file:
        json.dump(asdict(recorded), file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, _side(path))
    folder = os.open(os.path.dirname(path) or ".", os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
