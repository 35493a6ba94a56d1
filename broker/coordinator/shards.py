"""Loads, finds and unloads the partitions of one internal topic that this broker coordinates.

Shards follow this broker's leadership of partitions. A shard belongs to one leader epoch. It is
unloaded when this broker ceases to lead, when the replica or the topic is deleted, and when the
leader epoch grows. The meaning of the records is left to the shard's state.

    led here, new epoch   ->  LOADING (COORDINATOR_LOAD_IN_PROGRESS)  ->  loaded
    anything else         ->  unloaded (NOT_COORDINATOR)
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar, cast

from ...protocol.errors import ErrorCode
from ...runtime.runtime import Runtime
from ...runtime.waiting import end_tasks
from ..partition.partition import Partition
from ..partitions import Partitions
from .keys import is_key, partition_of
from .loading import load
from .shard import Shard, ShardSettings, State

S = TypeVar("S", bound=State)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ShardCare(Generic[S]):
    """A coordinator's callbacks: for a new state, a loaded or unloaded shard."""

    make_state: Callable[[], S]
    """Returns a new empty state for a partition."""
    on_loaded: Callable[[Shard[S]], None]
    """Called with a shard that has been loaded; it begins the shard's background work."""
    on_unloaded: Callable[[Shard[S]], None]
    """Called with a loaded shard after its waiting requests were answered with an error; it ends
    the shard's background work."""


class Shards(Generic[S]):
    """The shards of one internal topic on this broker."""

    def __init__(
        self,
        runtime: Runtime,
        partitions: Partitions,
        settings: ShardSettings,
        care: ShardCare[S],
    ) -> None:
        self._runtime = runtime
        self._partitions = partitions
        self._settings = settings
        self.care = care
        self._shards: dict[int, Shard[S]] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._is_closed = False
        partitions.on_role_changed.append(self._on_role_changed)

    def __iter__(self) -> Iterator[Shard[S]]:
        """Iterate over the loaded shards, in the order of their partitions."""
        return (self._shards[at] for at in sorted(self._shards) if self._shards[at].is_loaded)

    @property
    def is_loading(self) -> bool:
        """True if any shard is still being read."""
        return any(not shard.is_loaded for shard in self._shards.values())

    def index_of(self, key: str) -> int | None:
        """Return the partition of this key; None if the topic is unknown or the key too long."""
        topic = self._partitions.image.topic(self._settings.topic)
        if topic is None or not is_key(key):
            return None
        return partition_of(self._settings.home_of(key), len(topic.partitions))

    def of(self, key: str) -> Shard[S] | ErrorCode:
        """Return the loaded shard that keeps a key, or the error to answer with."""
        if not is_key(key):
            return self._settings.invalid_key
        index = self.index_of(key)
        return ErrorCode.NOT_COORDINATOR if index is None else self.at(index)

    def at(self, index: int) -> Shard[S] | ErrorCode:
        """Return the loaded shard of this partition, or the error to answer with."""
        if self._is_closed:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        shard = self._shards.get(index)
        if shard is None:
            return ErrorCode.NOT_COORDINATOR
        return shard if shard.is_loaded else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    async def close(self) -> None:
        """Unload all shards, because the broker stops."""
        self._is_closed = True
        for index in list(self._shards):
            self._unload(index)
        tasks, self._tasks = self._tasks, {}
        await end_tasks(tasks.values())

    def _on_role_changed(self, partition: Partition) -> None:
        if partition.topic != self._settings.topic or self._is_closed:
            return
        present = self._shards.get(partition.index)
        leads = partition.leader is not None and not partition.offline_because
        if (
            leads
            and present is not None
            and present.partition is partition
            and present.epoch == partition.leader_epoch
        ):
            return
        if present is not None and not leads and present.partition is not partition:
            return  # A retired replica of an older topic of this name.
        self._unload(partition.index)
        if leads:
            self._load(partition)

    def _load(self, partition: Partition) -> None:
        shard = Shard(
            self._runtime,
            partition,
            self.care.make_state(),
            self._settings,
            self._partitions.write_staged,
        )
        self._shards[partition.index] = shard
        name = f"load {self._settings.topic}-{partition.index}"
        self._tasks[partition.index] = self._runtime.spawn(self._run(shard), name)

    async def _run(self, shard: Shard[S]) -> None:
        if await load(cast("Shard[State]", shard)):
            shard.is_loaded = True
            self.care.on_loaded(shard)

    def _unload(self, index: int) -> None:
        shard = self._shards.pop(index, None)
        task = self._tasks.pop(index, None)
        if task is not None:
            task.cancel()
        if shard is None:
            return
        was_loaded = shard.is_loaded
        shard.close()
        if was_loaded:
            log.info("%r: unloaded", shard)
            self.care.on_unloaded(shard)
