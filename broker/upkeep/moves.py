"""Carries out the moves of replicas between the directories of this broker (KIP-113).

Each target directory is written by one move at a time; other moves to it wait their turn. A task
runs only while there are moves. `replica.move` decides the next step; storage copies and swaps. A
move that fails is given up, and its replica stays unchanged. If the replica is damaged, the move
waits until the damage is repaired. Moves end with the process: a broker that restarts must be asked
again.
"""

import asyncio
import logging
from collections.abc import Iterator
from typing import assert_never

from ...protocol.types import TopicPartition
from ...runtime.errors import CorruptLog, LogDirectoryFailed
from ...runtime.runtime import Runtime
from ...runtime.waiting import end_tasks, happens_within
from ...storage.directory import LogDirectory
from ...storage.moving import Move
from ..partition.partition import Partition
from ..partitions import Partitions
from ..replica.move import Standing, Step, next_step

log = logging.getLogger(__name__)

COPY_BYTES = 1 << 20
"""Bytes of one step of a copy: about a millisecond on the event loop."""
FLUSH_BYTES = 64 << 20
"""Bytes that are copied between two flushes, so that the last flush is short."""
SWAP_BYTES = 4 << 20
"""The most bytes that are copied without a turn for other tasks, right before the swap."""
HELD_MS = 500
"""The most milliseconds for which a replica's flushes, and producers that wait for them, are held
until the copy is flushed."""
PAUSE_MIN_MS, PAUSE_MAX_MS = 10, 60_000


class Moving:
    """One replica that is to move to another directory."""

    def __init__(self, partition: Partition, target: LogDirectory) -> None:
        self.partition = partition
        self.target = target
        self.move: Move | None = None
        """The copy and its swap; None while earlier moves to the same directory run."""
        self.given_up = asyncio.Event()
        self.is_recorded = False
        self.unflushed_bytes = 0
        self.pause_ms = PAUSE_MIN_MS

    @property
    def size_bytes(self) -> int:
        """Bytes copied so far."""
        return 0 if self.move is None else self.move.copy.log.size_bytes

    @property
    def lag(self) -> int:
        """The number of offsets that are not copied yet."""
        if self.move is None:
            return self.partition.log_end_offset - self.partition.log_start_offset
        return self.move.copy.lag

    def standing(self, *, is_held: bool = False, is_flushed: bool = False) -> Standing:
        """Return the progress of the move, from which `replica.move` decides the next step."""
        assert self.move is not None
        copy = self.move.copy
        return Standing(
            is_wanted=not self.given_up.is_set(),
            is_whole=copy.is_whole,
            is_recorded=self.is_recorded,
            is_held=is_held,
            is_flushed=is_flushed,
            is_stable=copy.is_stable,
        )


class Moves:
    """The moves of one broker, under way and waiting."""

    def __init__(self, runtime: Runtime, partitions: Partitions) -> None:
        self._runtime = runtime
        self._partitions = partitions
        self._moving: dict[Partition, Moving] = {}
        self._waiting: dict[LogDirectory, dict[Moving, None]] = {}
        self._lanes: dict[LogDirectory, asyncio.Task[None]] = {}
        partitions.on_role_changed.append(self._on_role_changed)

    def __iter__(self) -> Iterator[Moving]:
        return iter(self._moving.values())

    def ask(self, partition: Partition, target: LogDirectory) -> None:
        """Move a replica to `target`; its move to any other directory is given up.

        If the replica is in `target` already, nothing more happens.
        """
        known = self._moving.get(partition)
        if known is not None:
            if known.target is target:
                return
            self._give_up(known)
        if self._partitions.directory_of(partition) is target:
            return
        moving = self._moving[partition] = Moving(partition, target)
        self._waiting.setdefault(target, {})[moving] = None
        if target not in self._lanes:
            name = f"moves to {target.path}"
            self._lanes[target] = self._runtime.spawn(self._work(target), name)
        log.info("%r: to be moved to %s", partition, target.path)

    async def close(self) -> None:
        """End all moves; the next start removes what they have copied."""
        for moving in list(self._moving.values()):
            self._give_up(moving)
        lanes, self._lanes = self._lanes, {}
        await end_tasks(list(lanes.values()))

    def _on_role_changed(self, partition: Partition) -> None:
        if self._moving and partition.offline_because:
            moving = self._moving.get(partition)
            if moving is not None:
                self._give_up(moving)

    def _give_up(self, moving: Moving) -> None:
        """Leave the replica where it is; the task of the target directory removes the copy."""
        moving.given_up.set()
        self._forget(moving)
        if moving.move is not None and moving.move.log.copy is moving.move.copy:
            moving.move.give_up()
            log.info("%r: not moved to %s", moving.partition, moving.target.path)

    def _forget(self, moving: Moving) -> None:
        if self._moving.get(moving.partition) is moving:
            del self._moving[moving.partition]
        self._waiting.get(moving.target, {}).pop(moving, None)

    # One directory's moves, one after the other.

    async def _work(self, target: LogDirectory) -> None:
        waiting = self._waiting[target]
        while waiting:
            moving = next(iter(waiting))
            del waiting[moving]
            await self._carry_out(moving)
        del self._waiting[target], self._lanes[target]

    async def _carry_out(self, moving: Moving) -> None:
        partition, source = moving.partition, self._partitions.directory_of(moving.partition)
        name = TopicPartition(partition.topic, partition.index)
        has_swapped = False
        try:
            if not _has_room(moving):
                self._give_up(moving)
                return
            move = moving.move = Move(self._runtime, name, source, moving.target)
            has_swapped = await self._run(moving, move)
        except LogDirectoryFailed as error:
            log.error("%r: not moved to %s: %s", partition, moving.target.path, error)
        self._give_up(moving)
        try:
            if has_swapped:
                await move.finish()
            elif moving.move is not None:
                await moving.move.clear()
        except LogDirectoryFailed as error:
            log.error("%s", error)

    async def _run(self, moving: Moving, move: Move) -> bool:
        """Carry out one move up to its swap; return False if it was given up before."""
        partition = moving.partition
        while True:
            step = next_step(moving.standing())
            match step:
                case Step.COPY:
                    await self._copy(moving, move)
                case Step.RECORD:
                    await move.make_ready(partition.high_watermark)
                    moving.is_recorded = True
                case Step.HOLD:
                    async with move.held():
                        if await self._swap(moving, move):
                            return True
                    await asyncio.sleep(0)
                case Step.GIVE_UP:
                    return False
                case Step.FLUSH | Step.SWAP | Step.RELEASE:
                    raise AssertionError(step)  # only while flushes are held
                case _:
                    assert_never(step)

    async def _copy(self, moving: Moving, move: Move) -> None:
        """Copy some batches, when the throttle permits."""
        host, now_ms = moving.partition.host, self._runtime.monotonic_ms()
        throttle = host.throttles.moves
        if throttle.is_on and throttle.is_exceeded(now_ms):
            await asyncio.sleep((throttle.free_at_ms(now_ms) - now_ms) / 1000)
            return
        try:
            count = await move.copy.step(COPY_BYTES, moving.partition.high_watermark)
        except CorruptLog as error:
            log.warning("%r: its move waits for a repair: %s", moving.partition, error)
            await self._pause(moving)
            return
        if not count and not move.copy.is_whole and move.copy.has_begun:
            await self._pause(moving)
            return
        moving.pause_ms = PAUSE_MIN_MS
        throttle.spend(count, now_ms)
        moving.unflushed_bytes += count
        if moving.unflushed_bytes >= FLUSH_BYTES:
            moving.unflushed_bytes = 0
            await move.copy.flush()
            if not _has_room(moving):
                self._give_up(moving)
        await asyncio.sleep(0)

    @staticmethod
    async def _pause(moving: Moving) -> None:
        pause_ms = moving.pause_ms
        moving.pause_ms = min(2 * pause_ms, PAUSE_MAX_MS)
        await happens_within(moving.given_up, pause_ms)

    async def _swap(self, moving: Moving, move: Move) -> bool:
        """Flush the copy and swap; return True if the swap is done.

        The caller holds the replica's flushes. Return False if the copy is not whole and stable in
        time.
        """
        partition = moving.partition
        if next_step(moving.standing(is_held=True)) is Step.FLUSH:
            try:
                async with asyncio.timeout(HELD_MS / 1000):
                    await move.copy.flush()
            except TimeoutError:
                moving.is_recorded = False  # The next flush is awaited without holding up others.
                return False
        # From here on nothing else runs until the swap is done.
        partition.write_staged()
        try:
            if not moving.given_up.is_set():
                move.copy.catch_up(SWAP_BYTES, partition.high_watermark)
        except CorruptLog as error:
            log.warning("%r: its move waits for a repair: %s", partition, error)
        if next_step(moving.standing(is_held=True, is_flushed=True)) is not Step.SWAP:
            return False
        move.swap()
        self._partitions.note_moved(partition, moving.target)
        log.info("%r: moved to %s", partition, moving.target.path)
        return True


def _has_room(moving: Moving) -> bool:
    """True if the rest of the copy fits; a full disk would fail all replicas in the target."""
    partition, free_bytes = moving.partition, moving.target.files.space()[1]
    rest_bytes = partition.log.size_bytes - moving.size_bytes
    if free_bytes > rest_bytes:
        return True
    where = moving.target.path
    log.error(
        "%r: not moved to %s: %d bytes more, %d are free", partition, where, rest_bytes, free_bytes
    )
    return False
