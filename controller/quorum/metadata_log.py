"""The metadata log on disk: a storage log in `__cluster_metadata-0`, with the quorum's files.

Nothing ages out of it: what a snapshot holds is forgotten by whole segments, everything else
stays. The data directory's lock and identity are its opener's.
"""

from collections.abc import Sequence

from ...protocol.control.records import METADATA_TOPIC
from ...protocol.record_batch import BatchHeader
from ...protocol.types import Buffer
from ...runtime.config import MiB, from_mapping
from ...runtime.runtime import Runtime
from ...storage.files import Files
from ...storage.log import Cold, Log
from ...storage.topic_config import TopicConfig

CONFIG = from_mapping(
    TopicConfig,
    {"segment.bytes": str(8 * MiB), "retention.ms": "-1", "retention.bytes": "-1"},
)


class MetadataLog:
    """The log and what belongs beside it in its directory."""

    def __init__(self, runtime: Runtime, files: Files) -> None:
        """Use `open`."""
        self._runtime = runtime
        self.directory = f"{files.root}/{METADATA_TOPIC}-0"
        self.files = files
        self._log: Log

    @classmethod
    async def open(cls, runtime: Runtime, files: Files) -> "MetadataLog":
        """Open and recover what is in the data directory of `files`, which is locked."""
        opened = cls(runtime, files)
        opened.files.make_directory(opened.directory)
        opened._log = await opened._open_log()
        return opened

    async def _open_log(self) -> Log:
        # Read from the first byte: what an unclean stop tore off was never acknowledged.
        return await Log.open(self._runtime, self.directory, CONFIG, files=self.files)

    @property
    def start_offset(self) -> int:
        """The first offset that can be read."""
        return self._log.log_start_offset

    @property
    def end_offset(self) -> int:
        """Offset that the next record gets."""
        return self._log.log_end_offset

    @property
    def latest_epoch(self) -> int:
        """Epoch of the newest record, -1 for none."""
        return self._log.leader_epochs.latest_epoch

    def epoch_before(self, offset: int) -> int | None:
        """Epoch of the record before `offset`, None when the log does not reach back so far."""
        epoch = self._log.leader_epochs.epoch_for(offset - 1)
        return epoch if epoch >= 0 and offset > self._log.log_start_offset else None

    def append(self, batches: Sequence[tuple[BatchHeader, Buffer]]) -> None:
        """Write the batches; stable after `flush`."""
        self._log.append(batches)

    async def flush(self) -> None:
        """All that was appended is on stable storage on return."""
        await self._log.flush()

    async def read(self, offset: int, max_bytes: int, up_to: int) -> bytes:
        """Whole batches from the one that holds `offset`, below `up_to`."""
        try:
            found = self._log.read(offset, max_bytes=max_bytes, up_to=up_to)
        except Cold:
            found = await self._log.read_cold(offset, max_bytes=max_bytes, up_to=up_to)
        return bytes(found.data)

    async def reopen_at(self, end_offset: int) -> None:
        """After a failed write: start over with what is on disk, cut at `end_offset`."""
        self._log.abandon()
        self.files = Files(self._runtime.fs, self.files.root)
        self._log = await self._open_log()
        self._log.truncate_to(end_offset)

    def start_at(self, offset: int) -> None:
        """Everything before `offset` is in a snapshot, and nothing is after it."""
        self._log.truncate_fully_and_start_at(offset)

    def forget_before(self, offset: int) -> None:
        """A snapshot holds everything before `offset`."""
        self._log.advance_log_start(offset)
        self._log.delete_old_segments(self._runtime.wall_ms(), offset)

    async def close(self) -> None:
        """Flush and close the files."""
        await self._log.close()
