"""A checkpoint of offsets that must stay true over a loss of power, such as recovery points.

Each entry must be true after a loss of power at any moment. It covers committed records only,
because no others are safe from truncation. An unclean election can cut committed records too; then
the checkpoint is lowered first, on stable storage, before anything is cut.
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
    """One checkpoint file, and the offsets that it may hold after a crash."""

    def __init__(self, files: Files, name: str) -> None:
        self._files = files
        self._path = f"{files.root}/{name}"
        self._vouched: Points = {}
        """The greatest offset of each partition that the file could hold after a crash now."""
        self._prepared: Points = {}
        """The offsets that are being written to a new file, which will replace the old one."""
        self._lowered = 0
        """The number of times that `take_back` has lowered the file. If it does so while a write
        prepares its new file, the write begins again.
        """
        self._writing = asyncio.Lock()

    def read(self) -> Points:
        """Read the file, before the first write. An unreadable file counts as empty."""
        data = self._files.read_small(self._path)
        known = decode_offsets(data)
        if data is not None and known is None:
            log.warning("%s cannot be read: taken as empty", self._path)
        self._vouched = known or {}
        return dict(self._vouched)

    async def write(self, points_now: Callable[[], Points]) -> None:
        """Replace the file with the offsets that `points_now` returns, on stable storage on return.

        Everything below these offsets must be durable and committed. If `take_back` lowers the file
        during the write, `points_now` is called again.
        """
        async with self._writing:
            while True:
                points, lowered = points_now(), self._lowered
                self._prepared = points
                await self._files.prepare(self._path, encode_offsets(points))
                if lowered == self._lowered:
                    break
            before = self._vouched
            most = {name: max(at, points.get(name, 0)) for name, at in before.items()}
            self._vouched = {**points, **most}  # A crash may bring the old file back.
            self._prepared = {}
            await self._files.put_in_place(self._path)
            if lowered == self._lowered:
                self._vouched = points

    def vouches_above(self, partition: TopicPartition, offset: int) -> bool:
        """True if the file holds, or is about to hold, an offset greater than `offset`."""
        return max(self._vouched.get(partition, 0), self._prepared.get(partition, 0)) > offset

    def take_back(self, points: Points) -> None:
        """Lower the file to `points`, synchronously: the event loop waits for the disk."""
        self._lowered += 1
        self._files.replace_now(self._path, encode_offsets(points))
        self._vouched, self._prepared = dict(points), {}
