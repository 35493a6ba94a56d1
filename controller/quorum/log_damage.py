"""Finds damage in the stable part of a metadata log, and how far the log had reached.

This module only reads. lost_log.py decides what becomes of a damaged log.
"""

from typing import Final

from ...protocol.records.record_batch import HEADER_SIZE, MAGIC, BatchHeader, crc_is_valid
from ...runtime.errors import CorruptLog
from ...storage.files import LOG, Files, offset_in
from ...storage.recovery import CutRefused
from .log_facts import LogEnd

_MAGIC_AT: Final = 16


class DamagedLog(CorruptLog):
    """The log cannot be read up to its stable end; nothing on disk has been changed."""

    def __init__(self, found: CutRefused, end: LogEnd) -> None:
        super().__init__(found.path, found.position, found.why)
        self.offset = found.offset
        """Every record below this offset is undamaged."""
        self.end = end
        """The end that the log had reached; other voters may have counted on it."""


def end_behind(files: Files, directory: str, found: CutRefused) -> LogEnd | None:
    """Return the end of the last good batch behind the damage; None if there is none.

    Lengths behind the damage cannot be trusted. So a batch is looked for at every byte, and its
    checksum decides.
    """
    end: LogEnd | None = None
    for name in files.names(directory):
        path = f"{directory}/{name}"
        if offset_in(name, LOG) is None or path < found.path:
            continue
        data = files.read_small(path) or b""
        at = found.position + 1 if path == found.path else 0
        while (at := data.find(MAGIC, at + _MAGIC_AT) - _MAGIC_AT) >= 0:
            header = _good_batch(data, at, found.offset)
            if header is not None:
                end = LogEnd(header.leader_epoch, header.next_offset)
            at += header.size if header is not None else 1
    return end


def _good_batch(data: bytes, at: int, due: int) -> BatchHeader | None:
    """Return the header of the batch that begins at byte `at`; None if there is no good batch.

    A good batch is whole, has a valid checksum, and holds no offset below `due`.
    """
    if at + HEADER_SIZE > len(data):
        return None
    header = BatchHeader(data, at)
    is_whole = HEADER_SIZE <= header.size <= len(data) - at
    is_later = header.base_offset >= due and header.last_offset_delta >= 0
    return header if is_whole and is_later and crc_is_valid(data, at, header) else None
