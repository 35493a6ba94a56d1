"""Opens the logs in the data directories, gives them to partitions, and quarantines the rest.

The store chooses the directory of a new log unless an admin has chosen one, and remembers which
directories failed. Of several logs of one partition the store uses the one that reaches furthest. A
log that no partition claims is quarantined, never deleted. A failed directory is not used until the
process restarts.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...protocol.control.image import MetadataImage
from ...protocol.types import TopicIdPartition, TopicPartition
from ...runtime.errors import LogDirectoryFailed
from ...runtime.runtime import Runtime
from ...storage.directory import LogDirectory
from ...storage.log import Log
from ...storage.moving import settle
from ...storage.topic_config import TopicConfig

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StoredLog:
    """A log and the data directory that it is in."""

    directory: LogDirectory
    log: Log

    @property
    def reach(self) -> tuple[int, int]:
        """The log's newest leader epoch, then its end: the order of logs by how far they reach.

        Of two replicas the one that reaches further holds all that is committed (KIP-101).
        """
        return self.log.latest_epoch, self.log.log_end_offset


class Choices:
    """The directories that an admin has chosen for replicas not on this broker yet (KIP-113).

    They are kept in memory only, for partitions that the metadata knows.
    """

    def __init__(self) -> None:
        self._chosen: dict[TopicIdPartition, LogDirectory] = {}

    def note(self, key: TopicIdPartition, directory: LogDirectory) -> None:
        """Keep the choice until a replica of the partition is made here."""
        self._chosen[key] = directory

    def take(self, key: TopicIdPartition) -> LogDirectory | None:
        """Remove and return the chosen directory of a new replica; None if none was chosen."""
        return self._chosen.pop(key, None)

    def keep_known(self, image: MetadataImage) -> None:
        """Forget the choices of partitions that are deleted."""
        gone = [key for key in self._chosen if image.partition(*key) is None]
        for key in gone:
            del self._chosen[key]


class LogStore:
    """The logs in all data directories of one broker."""

    def __init__(self, runtime: Runtime, directories: Sequence[LogDirectory]) -> None:
        self._runtime = runtime
        self.directories = tuple(directories)
        self._unclaimed: dict[TopicPartition, list[StoredLog]] = {}
        self._failed: dict[LogDirectory, None] = {}
        self.choices = Choices()

    def at(self, path: str) -> LogDirectory | None:
        """Return the directory with this path, spelt as in `log.dirs`; None if there is none."""
        path = path.rstrip("/") or "/"
        return next((each for each in self.directories if each.path == path), None)

    @property
    def online(self) -> list[LogDirectory]:
        """The directories that have not failed."""
        return [each for each in self.directories if each not in self._failed]

    @property
    def offline_directory_ids(self) -> tuple[bytes, ...]:
        """The ids of the directories that have failed since the process started."""
        return tuple(directory.directory_id for directory in self._failed)

    def fail(self, directory: LogDirectory) -> bool:
        """Mark a directory as failed; return False if it was marked before."""
        if directory in self._failed:
            return False
        self._failed[directory] = None
        return True

    async def load(self, config_of: Callable[[str], TopicConfig]) -> None:
        """Open every log on disk, and recover those that were not closed."""
        await settle(self.directories)
        for directory in self.directories:
            try:
                await self._load(directory, config_of)
            except LogDirectoryFailed as error:
                log.error("%s", error)

    async def _load(self, directory: LogDirectory, config_of: Callable[[str], TopicConfig]) -> None:
        started_ms, stored = self._runtime.monotonic_ms(), directory.stored()
        for found in stored:
            name = found.partition
            opened = await directory.open_log(name, found.topic_id, config_of(name.topic))
            self._unclaimed.setdefault(name, []).append(StoredLog(directory, opened))
        if stored:
            how = "closed cleanly" if directory.was_clean else "recovered"
            took_ms = self._runtime.monotonic_ms() - started_ms
            log.info("%s: %d logs, %s, in %d ms", directory.path, len(stored), how, took_ms)

    def claim(self, topic_id: bytes, name: TopicPartition, config: TopicConfig) -> StoredLog | None:
        """Return the partition's log, from disk or new; None if no directory can take it."""
        found = self._unclaimed.pop(name, [])
        ours = [each for each in found if each.log.segments.topic_id == topic_id]
        chosen = max(ours, key=lambda each: each.reach, default=None)
        for each in found:
            if each is not chosen:
                why = "of another topic of that name"
                if chosen is not None and each in ours:
                    why = f"behind {chosen.log}"
                self._put_aside(each, name, why)
        if chosen is not None:
            chosen.log.reconfigure(config)
            return chosen
        if not self.online:
            return None
        directory = self.choices.take(TopicIdPartition(topic_id, name.partition))
        if directory not in self.online:
            directory = min(self.online, key=lambda each: len(each.logs))
        return StoredLog(directory, directory.new_log(name, topic_id, config))

    def delete(self, directory: LogDirectory, name: TopicPartition) -> None:
        """Delete a partition's files, if the directory still works."""
        if directory not in self._failed:
            try:
                directory.delete(name)
            except LogDirectoryFailed as error:
                log.error("%s", error)

    def quarantine_strays(self) -> None:
        """Quarantine the logs that no partition claimed; call it when metadata has caught up."""
        strays, self._unclaimed = self._unclaimed, {}
        for name, found in strays.items():
            for stray in found:
                self._put_aside(stray, name, "not in the metadata")

    @staticmethod
    def _put_aside(stray: StoredLog, name: TopicPartition, why: str) -> None:
        try:
            where = stray.directory.quarantine(name)
        except LogDirectoryFailed as error:
            log.error("%s", error)
        else:
            log.warning("%s-%d is %s: put aside as %s", *name, why, where)
