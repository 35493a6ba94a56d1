"""One data directory: its lock and identity, its logs, its checkpoints, and its failure.

    state        how it came                      what may be done
    open         lock held, identity checked      everything
    failed       any I/O error, once              nothing; every use raises LogDirectoryFailed
    closed       after `close`                    nothing

The marker of a clean shutdown is written last, and only if every log was opened; it is removed at
the next start before anything else is written. The directory of an unknown partition is renamed to
`...-stray`, never deleted. A data directory whose identity cannot be read gets a new one, and of
its contents only the logs are trusted.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ..protocol.types import TopicPartition
from ..runtime.errors import ConfigError, CorruptLog, LogDirectoryFailed
from ..runtime.fs import Lock, LockHeld
from ..runtime.runtime import Runtime
from .checkpoints import (
    MetaProperties,
    decode_clean_shutdown,
    decode_partition_metadata,
    encode_clean_shutdown,
)
from .compaction.cleaner_offsets import CleanerOffsets
from .copying import Copy
from .files import (
    CLEAN_SHUTDOWN,
    DEFAULT_MAX_OPEN,
    DELETE,
    FUTURE,
    LOCK,
    PARTITION_METADATA,
    STRAY,
    Files,
)
from .flushing import FlushesDue, FlushTimes
from .identity import belong, identify
from .log import Log
from .names import in_move, name_of, new_mark, partition_in, set_aside
from .offset_checkpoints import OffsetCheckpoints
from .topic_config import TopicConfig

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StoredLog:
    """A partition's directory as found on disk."""

    partition: TopicPartition
    topic_id: bytes | None
    """The topic's id; None if partition.metadata is missing or cannot be read."""


class LogDirectory:
    """An open data directory."""

    def __init__(self, runtime: Runtime, path: str, files: Files, lock: Lock) -> None:
        self._runtime = runtime
        self.path = path
        self.files = files
        self._lock = lock
        self.meta = MetaProperties(bytes(16), -1, None)
        self.clean_broker_epoch: int | None = None
        """Broker epoch of the last run; None if that run did not stop cleanly."""
        self.logs: dict[TopicPartition, Log] = {}
        self.arriving: dict[TopicPartition, Log] = {}
        """Copies of logs of other directories, made here to replace those logs."""
        self.checkpoints = OffsetCheckpoints(files, self.logs, self.arriving)
        # Bound once for all logs, because a bound method for each of a thousand idle logs costs
        # memory.
        self._on_flush_due = FlushesDue(runtime, path).add
        files.flush_times = self.flush_times = FlushTimes(runtime.monotonic_us)
        self._on_truncating = self._take_back
        self.compacted = CleanerOffsets(files)
        self._unopened: dict[TopicPartition, None] = {}
        """The partitions found at start that have not been opened, deleted or moved aside since."""
        self._on_damaged = self._tell_damage
        self.on_damaged: Callable[[TopicPartition, CorruptLog], None] | None = None
        """Called with the partition and the error at each read that meets damaged batches."""
        self._is_checkpointing = False

    @classmethod
    async def open(
        cls,
        runtime: Runtime,
        path: str,
        *,
        node_id: int,
        cluster_id: str | None = None,
        key: str = "log.dirs",
        max_open_files: int = DEFAULT_MAX_OPEN,
    ) -> "LogDirectory":
        """Lock the directory, which is made if absent, and check its identity.

        If `cluster_id` is None, the one in the directory is used. Raises ConfigError, which names
        `key`, if the directory is locked, not writable, or belongs to another node or cluster.
        """
        path = path.rstrip("/") or "/"
        try:
            runtime.fs.mkdir(path)
            lock = runtime.fs.lock(f"{path}/{LOCK}")
        except LockHeld:
            raise ConfigError(key, path, "locked by another process") from None
        except OSError as error:
            raise ConfigError(key, path, f"cannot be used: {error.strerror}") from None
        directory = cls(runtime, path, Files(runtime.fs, path, max_open_files), lock)
        try:
            await directory._identify(node_id, cluster_id, key)
            await directory._read_checkpoints()
        except LogDirectoryFailed as error:
            lock.release()
            raise ConfigError(key, path, f"cannot be used: {error.why}") from None
        except BaseException:
            lock.release()
            raise
        return directory

    @property
    def directory_id(self) -> bytes:
        """16 random bytes, made with the directory; a directory that was emptied gets new ones."""
        return self.meta.directory_id

    @property
    def cluster_id(self) -> str | None:
        """The cluster's id; None until `join` has set it."""
        return self.meta.cluster_id

    @property
    def was_clean(self) -> bool:
        """True if the last run stopped cleanly."""
        return self.clean_broker_epoch is not None

    @property
    def failure(self) -> LogDirectoryFailed | None:
        """The error that took the directory offline, or None."""
        return self.files.failure

    async def _identify(self, node_id: int, cluster_id: str | None, key: str) -> None:
        self.meta = meta = await identify(self._runtime, self.files, self.path, node_id)
        if meta.node_id != node_id:
            raise ConfigError(key, self.path, f"belongs to node.id={meta.node_id}")
        if cluster_id is not None:
            await self.join(cluster_id, key)

    async def join(self, cluster_id: str, key: str = "log.dirs") -> None:
        """Record on disk the cluster of this directory.

        Raise ConfigError if it belongs to another.
        """
        self.meta = await belong(self.files, self.path, self.meta, cluster_id, key)

    async def _read_checkpoints(self) -> None:
        self.checkpoints.read()
        self.compacted.read()
        mark = f"{self.path}/{CLEAN_SHUTDOWN}"
        data = self.files.read_small(mark)
        if data is not None:
            self.clean_broker_epoch = decode_clean_shutdown(data)
            self.files.remove(mark)
            await self.files.fsync_directory(self.path)
        for name in self.files.names(self.path):
            if name.endswith(DELETE):
                self.files.remove_tree(f"{self.path}/{name}")
        self._unopened = dict.fromkeys(found.partition for found in self.stored())

    # Logs.

    def stored(self) -> list[StoredLog]:
        """List the partitions that have files here."""
        found: list[StoredLog] = []
        for name in self.files.names(self.path):
            partition = partition_in(name)
            if partition is not None:
                data = self.files.read_small(f"{self.path}/{name}/{PARTITION_METADATA}")
                found.append(StoredLog(partition, decode_partition_metadata(data)))
        return found

    async def open_log(
        self, partition: TopicPartition, topic_id: bytes | None, config: TopicConfig
    ) -> Log:
        """Open a partition's log from its files; recover it unless the last run stopped cleanly."""
        opened = await Log.open(
            self._runtime,
            self.path_of(partition),
            config,
            files=self.files,
            topic_id=topic_id,
            clean=self.was_clean,
            recovery_point=self.checkpoints.recovery_points.get(partition, 0),
            log_start_offset=self.checkpoints.log_starts.get(partition, 0),
        )
        return self._add(partition, opened)

    def new_log(self, partition: TopicPartition, topic_id: bytes, config: TopicConfig) -> Log:
        """Make the log of a partition that has no files here; the first append makes them."""
        self.checkpoints.begin(partition)
        new = Log(self._runtime, self.files, self.path_of(partition), config, topic_id)
        return self._add(partition, new)

    def _add(self, partition: TopicPartition, added: Log) -> Log:
        self.logs[partition] = added
        self._unopened.pop(partition, None)
        added.on_flush_due, added.on_truncating = self._on_flush_due, self._on_truncating
        added.reader.on_damaged = self._on_damaged
        if added.durability.may_be_uncut:
            self._on_flush_due(added)
        self.compacted.cut(partition, added.log_end_offset)
        return added

    def begin_copy(self, partition: TopicPartition, source: Log, mark: str) -> Copy:
        """Prepare a copy, in this directory, of a partition's log that is in another directory.

        `mark` becomes part of the name of the copy's directory. If this directory holds files under
        the partition's own name, they are quarantined.
        """
        if self.files.exists(self.path_of(partition)):
            self.quarantine(partition)
        self.checkpoints.begin(partition)
        self.compacted.cut(partition, 0)
        path = f"{self.path}/{set_aside(partition, mark, FUTURE)}"
        new = Log(self._runtime, self.files, path, source.config, source.segments.topic_id)
        new.on_truncating = self._on_truncating
        new.segments.make_directory()
        self.arriving[partition] = new
        return Copy(self._runtime, source, new)

    def adopt(self, partition: TopicPartition, arrived: Log) -> None:
        """Register a log whose files were just renamed to their final name in this directory."""
        self.arriving.pop(partition, None)
        self._add(partition, arrived)

    def release(self, partition: TopicPartition) -> Log | None:
        """Unregister a partition's log, and return the log if it is open; it is not closed."""
        self._unopened.pop(partition, None)
        self.checkpoints.forget(partition)
        self.compacted.forget(partition)
        # The checkpoint on disk must not vouch for the next log of this name.
        self._checkpoint_soon()
        return self.logs.pop(partition, None)

    def path_of(self, partition: TopicPartition) -> str:
        """Return the directory that holds or will hold the partition's files."""
        return f"{self.path}/{name_of(partition)}"

    def delete(self, partition: TopicPartition) -> None:
        """Delete a partition's files; a rename comes first, so that a crash leaves no half log."""
        path = self._move_away(partition, DELETE)
        if path is not None:
            self.files.remove_tree(path)

    def quarantine(self, partition: TopicPartition) -> str | None:
        """Rename the partition's directory to `...-stray`, and return the new path.

        Return None if the partition has no files. Its log is closed if it was open.
        """
        return self._move_away(partition, STRAY)

    def _tell_damage(self, log_directory: str, error: CorruptLog) -> None:
        if self.on_damaged is not None:
            self.on_damaged(_partition_at(log_directory), error)

    def _move_away(self, partition: TopicPartition, suffix: str) -> str | None:
        open_log = self.release(partition)
        if open_log is not None:
            open_log.abandon()
        path = self.path_of(partition)
        if not self.files.exists(path):
            return None
        mark = new_mark(self._runtime.rng.randbytes)
        moved = f"{self.path}/{set_aside(partition, mark, suffix)}"
        self.files.rename(path, moved)
        return moved

    # Checkpoints and flushing in the background.

    async def checkpoint(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """Checkpoint high watermarks, log start offsets and recovery points."""
        await self.checkpoints.write(high_watermarks)

    def _take_back(self, owner: Log, offset: int) -> None:
        """Lower the log's checkpoints to `offset`, before the log is truncated to it."""
        partition = _partition_at(owner.directory)
        self.compacted.cut(partition, offset)
        self.checkpoints.cut(partition, offset)

    def _checkpoint_soon(self) -> None:
        if not self._is_checkpointing:
            self._is_checkpointing = True
            self._runtime.spawn(self._checkpoint_now(), f"checkpoint of {self.path}")

    async def _checkpoint_now(self) -> None:
        # From here on a new request starts another checkpoint, because this one may miss it.
        self._is_checkpointing = False
        try:
            await self.checkpoints.write_recovery_points()
        except LogDirectoryFailed as error:
            log.error("%s", error)

    async def close(
        self,
        high_watermarks: Mapping[TopicPartition, int] | None = None,
        *,
        broker_epoch: int = -1,
    ) -> None:
        """Flush and close all logs, write checkpoints, and mark the shutdown as clean.

        The mark is left out if not all logs were opened. If the directory has failed, only release
        it. `high_watermarks` is None to keep those of the last checkpoint. Raises
        LogDirectoryFailed.
        """
        try:
            if self.failure is None:
                for one in list(self.logs.values()):
                    await one.close()
                known = self.checkpoints.high_watermarks
                await self.checkpoint(known if high_watermarks is None else high_watermarks)
                if self._unopened:
                    log.warning("%s: not all logs were opened: the stop is unclean", self.path)
                    return
                mark = f"{self.path}/{CLEAN_SHUTDOWN}"
                await self.files.replace_durably(mark, encode_clean_shutdown(broker_epoch))
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Close all files and release the lock without saving; the next start recovers the logs."""
        for one in (*self.logs.values(), *self.arriving.values()):
            one.abandon()
        self._lock.release()


def _partition_at(path: str) -> TopicPartition:
    """Return the partition whose log, or whose log's copy, is in the directory at `path`."""
    name = path.rpartition("/")[2]
    copied = in_move(name)
    found = partition_in(name) if copied is None else copied.partition
    assert found is not None, path
    return found
