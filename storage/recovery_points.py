"""The checkpoint of recovery points: up to where each log of a directory need not be read again.

What it says must hold after a loss of power at any moment. It says at most what is committed,
because that alone is never cut off: no truncation makes it a lie but one after an unclean
election, and that takes the checkpoint back first, on stable storage, before anything is cut.
"""

import asyncio
from collections.abc import Callable

from ..protocol.types import TopicPartition
from .checkpoints import encode_offsets
from .files import Files

Points = dict[TopicPartition, int]


class RecoveryPoints:
    """One file, and what it vouches for."""

    def __init__(self, files: Files, path: str, on_disk: Points) -> None:
        """`on_disk` is what the file said when it was read."""
        self._files = files
        self._path = path
        self._vouched = dict(on_disk)
        """The most that the file may be found to say after a crash right now."""
        self._prepared: Points = {}
        """What is being written, to be put in its place."""
        self._lies = 0
        """How often it was taken back: what was being written then is not put in its place."""
        self._writing = asyncio.Lock()

    async def write(self, points_now: Callable[[], Points]) -> None:
        """Say what `points_now` returns: what is durable and committed."""
        async with self._writing:
            while True:
                points, lies = points_now(), self._lies
                self._prepared = points
                await self._files.prepare(self._path, encode_offsets(points))
                if lies == self._lies:
                    break
            before = self._vouched
            most = {name: max(at, points.get(name, 0)) for name, at in before.items()}
            self._vouched = {**points, **most}  # Until the old file is surely gone.
            self._prepared = {}
            await self._files.put_in_place(self._path)
            if lies == self._lies:
                self._vouched = points

    def vouches_above(self, partition: TopicPartition, offset: int) -> bool:
        """Is anything at or above `offset` said to be durable, or about to be?"""
        return max(self._vouched.get(partition, 0), self._prepared.get(partition, 0)) > offset

    def take_back(self, points: Points) -> None:
        """Say this instead, at once: it waits for the disk, on the loop."""
        self._lies += 1
        self._files.replace_now(self._path, encode_offsets(points))
        self._vouched, self._prepared = dict(points), {}
