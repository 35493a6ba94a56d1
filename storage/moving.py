"""Moves a log from one data directory to another, so that a crash at any moment leaves one of them.

    source                  target                  what the next start makes of it
    t-0                     t-0.<mark>-future       the copy is removed
    t-0.<mark>-moved        t-0.<mark>-future       the copy gets the log's name, as the mark agrees
    t-0.<mark>-moved        t-0                     the old log is removed
    t-0                     t-0                     the one that reaches further is used

The last state is left by a loss of power that undoes the first of the two renames only. Nothing
written after the renames counts as stable before both names are stable, so both logs hold all that
was stable. The old log is removed only after the new name is stable. A move is never resumed after
a restart.
"""

import asyncio
import logging
from collections.abc import Iterator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import NamedTuple

from ..protocol.types import TopicPartition
from ..runtime.errors import LogDirectoryFailed
from ..runtime.runtime import Runtime
from .directory import LogDirectory
from .files import FUTURE, MOVED, STRAY, Files
from .log import Log
from .names import InMove, in_move, new_mark, partition_in, set_aside

log = logging.getLogger(__name__)


class Move:
    """The move of one log from one data directory to another."""

    def __init__(
        self,
        runtime: Runtime,
        partition: TopicPartition,
        source: LogDirectory,
        target: LogDirectory,
    ) -> None:
        """Begin the copy. Raises LogDirectoryFailed.

        The partition's log must be open in `source`, and `has_room(partition)` must be True.
        """
        self.partition = partition
        self.source = source
        self.target = target
        self._mark = new_mark(runtime.rng.randbytes)
        self.log: Log = source.logs[partition]
        """The partition's log, which stays the same object when its files are swapped."""
        self.copy = target.begin_copy(partition, self.log, self._mark)
        self._copied_to = self.copy.log.directory
        self._moved_to: str | None = None
        """The path of the old log's directory after `swap`; None before."""

    def held(self) -> AbstractAsyncContextManager[None]:
        """Let no flush of the log run within the block: its flushed offset does not grow."""
        return self.log.durability.held()

    async def make_ready(self, high_watermark: int) -> None:
        """Bring the copy and its entries in the target's checkpoints to stable storage.

        The source's checkpoints forget the log only later, at `swap`.
        """
        await self.copy.flush()
        if self.log.copy is not self.copy:
            return  # It was given up meanwhile.
        known = self.target.checkpoints.high_watermarks
        known[self.partition] = min(high_watermark, self.copy.log.log_end_offset)
        await self.target.checkpoint(known)
        compacted_to = self.source.compacted.of(self.partition)
        if compacted_to and self.log.copy is self.copy:
            await self.target.compacted.note(self.partition, compacted_to)

    def swap(self) -> None:
        """Make the copy's files those of the log, in one step; the copy must be whole and stable.

        No flush of the log may be running. If LogDirectoryFailed is raised, the log still uses its
        old files, unless its own directory has failed.
        """
        assert self.copy.is_whole, self.copy
        assert self.copy.is_stable, self.copy
        source, target = self.source, self.target
        before = source.path_of(self.partition)
        moved_to = f"{source.path}/{set_aside(self.partition, self._mark, MOVED)}"
        home = target.path_of(self.partition)
        was_there = source.files.exists(before)
        if was_there:
            source.files.rename(before, moved_to)
        try:
            target.files.rename(self._copied_to, home)
        except LogDirectoryFailed:
            if was_there:
                source.files.rename(moved_to, before)
            raise
        self._moved_to = moved_to
        source.release(self.partition)
        self.copy.log.segments.relocate(home)
        self.copy.take_place()
        self.log.durability.before_next = self._sync_source
        target.adopt(self.partition, self.log)

    async def finish(self) -> None:
        """After `swap`, make the new names stable and remove the old files, one file at a time.

        If a directory fails, the next start removes the remaining files.
        """
        await self.log.flush()
        if self._moved_to is not None:
            await _remove(self.source.files, self._moved_to)

    def give_up(self) -> None:
        """Before `swap`, end the move; the log stays as it is. Call `clear` next."""
        self.copy.give_up()
        if self.target.arriving.get(self.partition) is self.copy.log:
            del self.target.arriving[self.partition]
            if self.partition not in self.target.logs:
                self.target.checkpoints.forget(self.partition)
                self.target.compacted.forget(self.partition)

    async def clear(self) -> None:
        """Remove the copied files after `give_up`, one file at a time."""
        await _remove(self.target.files, self._copied_to)

    async def _sync_source(self) -> None:
        """Sync the source directory, so that the old log's rename is stable.

        The log's first flush after the swap awaits this. Otherwise a loss of power could bring the
        old log back beside a newer one.
        """
        with _reporting():
            await self.source.files.fsync_directory(self.source.path)


async def _remove(files: Files, path: str) -> None:
    """Remove a directory of files; other tasks run between one file and the next."""
    with _reporting():
        for name in files.names(path):
            files.remove(f"{path}/{name}")
            await asyncio.sleep(0)
        files.remove_tree(path)


# At start.


class _Left(NamedTuple):
    """A partition directory that an unfinished move has left."""

    directory: LogDirectory
    parts: InMove

    @property
    def path(self) -> str:
        return f"{self.directory.path}/{set_aside(*self.parts)}"


async def settle(directories: Sequence[LogDirectory]) -> None:
    """Finish or undo the moves that a stop has interrupted, before any log is opened.

    If a directory fails, the files that remain in it stay as they are.
    """
    left: list[_Left] = []
    homes: dict[TopicPartition, list[LogDirectory]] = {}
    for directory in directories:
        with _reporting():
            for name in directory.files.names(directory.path):
                parts, partition = in_move(name), partition_in(name)
                if parts is not None:
                    left.append(_Left(directory, parts))
                elif partition is not None:
                    homes.setdefault(partition, []).append(directory)
    if not left:
        return
    old = {(parts.partition, parts.mark): None for _, parts in left if parts.suffix == MOVED}
    for each in left:
        if each.parts.suffix == FUTURE:
            with _reporting():
                _settle_copy(each, homes, is_due=(each.parts.partition, each.parts.mark) in old)
    for directory in directories:
        with _reporting():
            await directory.files.fsync_directory(directory.path)
    for each in left:
        if each.parts.suffix == MOVED:
            with _reporting():
                _settle_old(each, homes.get(each.parts.partition, []))


def _settle_copy(
    copy: _Left, homes: dict[TopicPartition, list[LogDirectory]], *, is_due: bool
) -> None:
    partition, directory = copy.parts.partition, copy.directory
    if not is_due or partition in homes:
        directory.files.remove_tree(copy.path)
        log.info("%s: a copy that was not finished is removed", copy.path)
        return
    directory.files.rename(copy.path, directory.path_of(partition))
    homes[partition] = [directory]
    log.warning("%s: its move is finished now", directory.path_of(partition))


def _settle_old(old: _Left, homes: list[LogDirectory]) -> None:
    partition, mark, _ = old.parts
    if any(home.failure is None for home in homes):
        old.directory.files.remove_tree(old.path)
        return
    # Its copy is in a directory that is missing: this may be the only log of the partition.
    stray = f"{old.directory.path}/{set_aside(partition, mark, STRAY)}"
    old.directory.files.rename(old.path, stray)
    log.error("%s was moved to a directory that is not here: put aside as %s", old.path, stray)


@contextmanager
def _reporting() -> Iterator[None]:
    """Log a LogDirectoryFailed of the block instead of raising it."""
    try:
        yield
    except LogDirectoryFailed as error:
        log.error("%s", error)
