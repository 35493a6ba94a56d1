"""Directories and logs that fail while the broker runs, and the replicas that go offline with them.

All replicas in a failed directory are offline until the process restarts. If only a log fails, only
its own replica goes offline.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping

from ...protocol.types import TopicIdPartition
from ...runtime.errors import LogDirectoryFailed, StorageError
from ...storage.directory import LogDirectory
from .log_store import LogStore
from .partition import Partition

log = logging.getLogger(__name__)


class Failing:
    """Takes replicas offline when their log or their directory fails, and reports them."""

    def __init__(
        self,
        store: LogStore,
        directory_of: Mapping[Partition, LogDirectory],
        take_offline: Callable[[Partition], None],
        *,
        on_directory_failed: Callable[[LogDirectory], None],
        on_replicas_lost: Callable[[list[TopicIdPartition]], None],
    ) -> None:
        self._store = store
        self._directory_of = directory_of
        self._take_offline = take_offline
        self._on_directory_failed = on_directory_failed
        self._on_replicas_lost = on_replicas_lost
        for directory in store.directories:
            directory.files.on_failed = self._fail_soon

    def on_storage_error(self, partition: Partition, error: StorageError) -> None:
        """Take the replica offline; if its directory failed, all replicas of that directory."""
        if isinstance(error, LogDirectoryFailed):
            self._fail(self._directory_of[partition])
        elif not partition.offline_because:
            log.error("%r is offline: %s", partition, error)
            self._take_offline(partition)
            self._on_replicas_lost([partition.key])

    def _fail_soon(self, failure: LogDirectoryFailed) -> None:
        # The operation that failed is still running, and must end first.
        asyncio.get_running_loop().call_soon(self._fail_by_path, failure.path)

    def _fail_by_path(self, path: str) -> None:
        for directory in self._store.directories:
            if directory.path == path:
                self._fail(directory)

    def _fail(self, directory: LogDirectory) -> None:
        if not self._store.fail(directory):
            return
        affected = [each for each, where in self._directory_of.items() if where is directory]
        why = directory.failure
        log.error(
            "log directory %s failed, %d partitions offline: %s", directory.path, len(affected), why
        )
        for partition in affected:
            self._take_offline(partition)
        self._on_directory_failed(directory)
        self._on_replicas_lost([partition.key for partition in affected])
