"""The file `stable-end`: the end up to which the metadata log is known to be on disk.

    at 0 and at 512      sequence int64, epoch int32, end offset int64, crc32c uint32

A note is written in place after every flush of the log, before the flush is reported. The file
itself is seldom flushed, because an older note is true too: a log does not become shorter by
itself. So unreadable records below the noted end are damage; above it they may be the rest of an
unfinished write. A log becomes shorter only if it is cut on purpose, and then the new end is on
stable storage before the cut is made.

After a killed process the note is exact. A power failure may lose the newest `FLUSH_EVERY` notes.
"""

import logging
from struct import Struct
from typing import Final

from crc32c import crc32c

from ...runtime.errors import StorageError
from ...runtime.fs import File
from ...storage.files import Files
from .log_facts import LogEnd

FILE_NAME: Final = "stable-end"
FLUSH_EVERY: Final = 64
_SLOT: Final = 512
"""Distance of the two slots in bytes. They are written in turn, and each lies in a disk sector of
its own, so that one of them is always whole."""
_NOTE: Final = Struct(">qiq")
_CRC: Final = Struct(">I")

log = logging.getLogger(__name__)


class StableEnd:
    """The file `stable-end` of one log, and the end that it notes."""

    def __init__(self, files: Files, directory: str) -> None:
        """Read the file."""
        # With `Files` of its own: a note that cannot be written must not fail the log.
        self._files = Files(files.fs, files.root)
        self._path = f"{directory}/{FILE_NAME}"
        data = self._files.read_small(self._path) or b""
        newest = newest_note(data)
        self._sequence, self.end = newest or (0, LogEnd(-1, 0))
        self.is_known = newest is not None
        """False for a new log, for one of an older release, and if both slots are damaged."""
        self._is_whole = len(data) >= 2 * _SLOT
        self._unflushed = 0
        self._file: File | None = None

    def note(self, end: LogEnd) -> None:
        """Note that the log is stable up to `end`.

        If the note cannot be written, the older note stays.
        """
        if self.is_known and end == self.end:
            return
        try:
            self._write(end)
        except StorageError as error:
            self._recover("%s is not noted: %s", end, error)

    def note_at_once(self, end: LogEnd) -> None:
        """Do as `note`, but put the note on stable storage before returning.

        Raise StorageError if that fails. Both slots are written, because an older slot would name a
        later end.
        """
        try:
            self._write(end)
            self._write(end)
            assert self._file is not None
            with self._files.guard:
                self._file.fdatasync_wait()
                self._files.fs.fsync_dir_wait(self._path.rpartition("/")[0])
        except StorageError as error:
            self._recover("%s is not noted: %s", end, error)
            raise
        self._unflushed = 0

    def _recover(self, text: str, what: object, error: StorageError) -> None:
        """Log a failure, and use a new `Files`, because the old one is unusable after it."""
        log.warning(text, what, error)
        self._files = Files(self._files.fs, self._files.root)

    def _write(self, end: LogEnd) -> None:
        if self._file is None:
            with self._files.guard:
                self._file = self._files.fs.open(self._path, create=True, write=True)
        if not self._is_whole:
            self._files.write(self._file, [bytes(2 * _SLOT)], 0, 2 * _SLOT)
            self._is_whole = True
        note = _NOTE.pack(self._sequence + 1, end.epoch, end.offset)
        note += _CRC.pack(crc32c(note))
        self._files.write(self._file, [note], (self._sequence + 1) % 2 * _SLOT, len(note))
        self._sequence += 1
        self.end, self.is_known = end, True
        self._unflushed += 1

    async def settle(self, *, at_least: int = FLUSH_EVERY) -> None:
        """Flush the file if `at_least` notes or more are not on stable storage yet."""
        if self._file is None or self._unflushed < at_least:
            return
        self._unflushed = 0
        try:
            await self._files.fdatasync(self._file)
        except StorageError as error:
            self._recover("%s is not flushed: %s", self._path, error)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None


def newest_note(data: bytes) -> tuple[int, LogEnd] | None:
    """Return the newest valid note in the file's bytes, as (sequence number, end), or None."""
    found = [note for at in (0, _SLOT) if (note := _decode(data[at : at + _SLOT])) is not None]
    return max(found, default=None)


def _decode(slot: bytes) -> tuple[int, LogEnd] | None:
    """Decode a slot's sequence number and end; None if its checksum does not match."""
    if len(slot) < _NOTE.size + _CRC.size:
        return None
    sequence, epoch, offset = _NOTE.unpack_from(slot)
    if _CRC.unpack_from(slot, _NOTE.size)[0] != crc32c(slot[: _NOTE.size]):
        return None
    return sequence, LogEnd(epoch, offset)
