"""The position of this broker in the metadata log, kept on its disks to detect lost metadata.

metadata-position {"version":0,"epoch":E,"offset":O,"crc":"..."} in every data directory

Metadata that a broker receives is committed, and is never taken back. So controllers whose log
lacks the last record that this broker acted upon have lost metadata. Such controllers may have lost
topics, so no log is put aside or deleted because its topic is unknown to them. There are no false
alarms. Topics deleted while the broker was away are deleted by later records, another cluster has
another id, and a controller that does not know yet that it was deposed is of an older epoch. A file
that is out of date only detects less.
"""

import json
import logging
from collections.abc import Callable
from typing import Final
from zlib import crc32

from ...protocol.types import OffsetAndEpoch
from ...runtime.config import config_table, setting
from ...runtime.errors import LogDirectoryFailed, MinikafkaError
from ...storage.directory import LogDirectory

FILE_NAME: Final = "metadata-position"
GIVEN_UP: Final = "minikafka.metadata.given.up.at"
_CRC: Final = b',"crc":"'

log = logging.getLogger(__name__)


@config_table
class MetadataConfig:
    """The setting by which an operator accepts that metadata is lost."""

    given_up_at: int = setting(
        GIVEN_UP,
        -1,
        at_least=-1,
        doc="The offset that this broker names when it refuses controllers that have lost metadata;"
        " with it the broker follows them. Logs of forgotten topics are then put aside.",
    )


class MetadataLost(MinikafkaError):
    """The controllers have lost metadata that this broker has acted upon."""

    def __init__(self, seen: OffsetAndEpoch) -> None:
        super().__init__(seen)
        self.seen = seen

    def __str__(self) -> str:
        return (
            f"the controllers' metadata does not hold the record at offset {self.seen.offset} of"
            f" epoch {self.seen.epoch}, which this broker has acted upon: they have lost some, and"
            " nothing is put aside for it; restore the controllers' directories, or follow what is"
            f" left with {GIVEN_UP}={self.seen.offset}"
        )


class MetadataPosition:
    """The newest metadata record that this broker has acted upon, which outlives restarts."""

    def __init__(
        self, directories: Callable[[], list[LogDirectory]], *, given_up_at: int = -1
    ) -> None:
        """`directories` returns those that work. A stored position at `given_up_at` is ignored."""
        self._directories = directories
        found = [seen for each in directories() if (seen := _read(each)) is not None]
        self.seen = max(found, key=lambda seen: (seen.epoch, seen.offset), default=None)
        if self.seen is not None and self.seen.offset == given_up_at:
            log.warning("metadata up to offset %d is given up by the configuration", given_up_at)
            self.seen = None
        self._saved = self.seen

    async def save(self) -> None:
        """Save the position durably in every directory that works, if it has changed."""
        seen = self.seen
        if seen is None or seen == self._saved:
            return
        self._saved = seen
        for directory in self._directories():
            try:
                await directory.files.replace_durably(_path(directory), encode_position(seen))
            except LogDirectoryFailed as error:
                log.error("%s", error)


def _path(directory: LogDirectory) -> str:
    return f"{directory.path}/{FILE_NAME}"


def _read(directory: LogDirectory) -> OffsetAndEpoch | None:
    try:
        data = directory.files.read_small(_path(directory))
    except LogDirectoryFailed as error:
        log.error("%s", error)
        return None
    if data is None:
        return None
    seen = decode_position(data)
    if seen is None:
        log.error("%s cannot be read: the metadata is followed unseen", _path(directory))
    return seen


def encode_position(seen: OffsetAndEpoch) -> bytes:
    """Return the content of the file for a position."""
    plain = {"version": 0, "epoch": seen.epoch, "offset": seen.offset}
    text = json.dumps(plain, separators=(",", ":")).encode()[:-1]
    return b'%s%s%08x"}' % (text, _CRC, crc32(text))


def decode_position(data: bytes) -> OffsetAndEpoch | None:
    """Read the file's content; return None if it is damaged, so that damage raises no alarm."""
    text, _, crc = data.rpartition(_CRC)
    if crc != b'%08x"}' % crc32(text):
        return None
    plain = json.loads(text + b"}")
    return OffsetAndEpoch(plain["offset"], plain["epoch"]) if plain["version"] == 0 else None
