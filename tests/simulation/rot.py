"""Bit rot: a byte on a replica's stable storage changes, without any error.

It happens only while all replicas of the partition are in sync, to one of them at a time, so that
another holds every batch. The replica counts as lossy until the bytes are right again
(`Invariants.distrusted`).
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from minikafka.protocol.control.image import PartitionState
from minikafka.protocol.types import TopicIdPartition

from .cluster import Daemon
from .disk import DirectoryNode, Disk, FileNode
from .faults import Fault, Faults
from .rawlog import HEADER_BYTES, placed_batches
from .truth import Place, path_of

if TYPE_CHECKING:
    from .invariants import Invariants

MENDING_SECONDS = 8.0
"""The most seconds that the damage lasts: the scrub or a reader finds it, and a peer has the batch.
"""


@dataclass(frozen=True, slots=True)
class Rot:
    """A changed byte, and the batch that it is in."""

    disk: Disk
    path: str
    node: FileNode
    position: int
    byte: int
    """The byte before the change."""
    offset: int
    """The first offset of the batch."""

    @property
    def is_over(self) -> bool:
        """True if the file is gone, shorter, or right again."""
        is_there = self.disk.find(self.path) is self.node and self.position < len(self.node.cache)
        return not is_there or self.node.cache[self.position] == self.byte

    def mend(self) -> None:
        """Restore the byte, if it is still there."""
        if not self.is_over:
            self.node.cache[self.position] = self.byte
            if self.position < len(self.node.stable):
                self.node.stable[self.position] = self.byte

    @property
    def may_come_back(self) -> bool:
        """True if a power loss may bring the wrong byte back: the repair is not stable."""
        directory, stable = self.disk.find(self.path.rpartition("/")[0]), self.node.stable
        if not isinstance(directory, DirectoryNode):
            return False
        is_named = any(each is self.node for each in directory.stable.values())
        return is_named and self.position < len(stable) and stable[self.position] != self.byte


class BitRot(Faults):
    """The fault that damages brokers' logs."""

    def table(self) -> dict[str, Fault]:
        return {"bit-rot": self.bit_rot}

    async def bit_rot(self) -> bool:
        """Flip a bit below the high watermark; the broker replaces the batch with a peer's."""
        rotten, distrusted = self._invariants.rotten, self._invariants.distrusted
        places = self._places()
        if self._is_any_left() or not places:
            return False
        place = self.rng.choice(places)
        rot = self._some_byte(*place)
        if rot is None:
            return False
        rotten[place] = rot
        distrusted[place] = None
        rot.node.is_cold = True
        rot.disk.rot(rot.path, rot.position, 1 << self.rng.randrange(8))
        self.world.trace.emit("nemesis", "rots", rot.path, rot.position, f"offset={rot.offset}")
        await self._within(MENDING_SECONDS, lambda: not self._is_any_left())
        return True

    @property
    def _invariants(self) -> "Invariants":
        return self.promises.invariants

    def _is_any_left(self) -> bool:
        rotten = self._invariants.rotten
        for place, rot in list(rotten.items()):
            if rot.is_over:
                self._invariants.distrusted.pop(place, None)
                if not rot.may_come_back:
                    del rotten[place]
        return any(not rot.is_over for rot in rotten.values())

    def _places(self) -> list[Place]:
        """Return the replicas whose peers are all in sync, alive and trusted."""
        image = self._invariants.image
        if image is None:
            return []
        return [
            (self.cluster.brokers[member].name, key)
            for key, state in image.partitions()
            if self._is_whole(key, state)
            for member in state.isr
        ]

    def _is_whole(self, key: TopicIdPartition, state: PartitionState) -> bool:
        truth = self._invariants.truths.get(key)
        if truth is None or truth.was_unclean or len(state.isr) < max(2, len(state.replicas)):
            return False
        names = {topic.name: not (topic.mortal or topic.unclean) for topic in self.shape.topics}
        members = [self.cluster.brokers[member] for member in state.isr]
        doubtful = (*self._invariants.distrusted, *self._invariants.rotten)
        return names.get(truth.topic, False) and all(
            each.alive and (each.name, key) not in doubtful for each in members
        )

    def _some_byte(self, name: str, key: TopicIdPartition) -> Rot | None:
        daemon: Daemon = self.cluster.daemons[name]
        truth, disk = self._invariants.truths[key], daemon.host.disk
        directory = path_of(daemon, key, truth.name)
        node = disk.find(directory) if directory is not None else None
        found = []
        for file, log in node.entries.items() if isinstance(node, DirectoryNode) else ():
            if not file.endswith(".log") or not isinstance(log, FileNode):
                continue
            for position, size, batch in placed_batches(log.cache):
                is_stable = (
                    log.stable[position : position + size] == log.cache[position : position + size]
                )
                if is_stable and batch.next_offset <= truth.ledger.end:
                    found.append((f"{directory}/{file}", log, position, size, batch.base_offset))
        if not found:
            return None
        path, log, start, size, offset = self.rng.choice(found)
        # In the records: what the header says of itself is looked at elsewhere.
        position = self.rng.randrange(start + HEADER_BYTES, start + size)
        return Rot(disk, path, log, position, log.cache[position], offset)
