"""The checkpoint of recovery points: up to where each log of a directory need not be read again.

Each entry must hold after a loss of power at any moment. An entry covers at most what is committed,
because only that is never cut off. A truncation makes it untrue only after an unclean election;
then the checkpoint is lowered first, on stable storage, before anything is cut.
"""

import asyncio
import logging
from collections.abc import Callable

from ..protocol.types import TopicPartition
from .checkpoints import decode_offsets, encode_offsets
from .files import Files

log = logging.getLogger(__name__)

Points = dict[TopicPartition, int]


class RecoveryPoints:
    """One checkpoint file, and the offsets that it vouches for."""

    def __init__(self, files: Files, name: str) -> None:
        self._files = files
        self._path = f"{files.root}/{name}"
        self._vouched: Points = {}
        """The most that the file may be found to say after a crash right now."""
        self._prepared: Points = {}
        """The offsets that are being written and will take the file's place."""
        self._lies = 0
        """The number of times that the file was lowered: a write that was under way then is
        dropped."""
        self._writing = asyncio.Lock()

    def read(self) -> Points:
        """Read the file before the first write. An unreadable one counts as empty."""
        data = self._files.read_small(self._path)
        known = decode_offsets(data)
        if data is not None and known is None:
            log.warning("%s cannot be read: taken as empty", self._path)
        self._vouched = known or {}
        return dict(self._vouched)

    async def write(self, points_now: Callable[[], Points]) -> None:
        """Write the offsets that `points_now` returns: they are durable and committed."""
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
        """True if the file vouches, or is about to, for anything at or above `offset`."""
        return max(self._vouched.get(partition, 0), self._prepared.get(partition, 0)) > offset

    def take_back(self, points: Points) -> None:
        """Write `points` at once, on the loop, which waits for the disk."""
        self._lies += 1
        self._files.replace_now(self._path, encode_offsets(points))
        self._vouched, self._prepared = dict(points), {}
