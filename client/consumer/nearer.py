"""The replica to read one partition from: the leader, or a nearer one that it named (KIP-392).

Pure. The leader names a replica for a limited time. After that time the consumer asks the leader
again, because the replica may have left the ISR without knowing that. If the replica refuses an
offset as out of range, the leader itself must serve that offset, which it does for a fetch without
a rack.
"""

from dataclasses import dataclass

NOBODY = -1


@dataclass(slots=True)
class Nearer:
    """The replica that the leader named to read from, and the offset that a replica refused."""

    replica: int = NOBODY
    """The node id of the replica that the leader named, or NOBODY to read from the leader."""
    _until_ms: int = 0
    _refused_offset: int = -1

    def name(self, replica: int, until_ms: int) -> None:
        """Read from the replica that the leader named, until `until_ms`."""
        self.replica, self._until_ms = replica, until_ms

    def refuse(self, offset: int, until_ms: int) -> None:
        """Read from the leader until `until_ms`, because the replica does not have `offset`."""
        self.replica, self._refused_offset, self._until_ms = NOBODY, offset, until_ms

    def has_refused(self, offset: int, now_ms: int) -> bool:
        """True if a replica has refused this offset and the leader must still be asked for it."""
        return offset == self._refused_offset and now_ms < self._until_ms

    def is_over(self, now_ms: int) -> bool:
        """True if a replica was named and the time for which it was named has ended."""
        return self.replica != NOBODY and self._until_ms <= now_ms

    def lose(self) -> bool:
        """Read from the leader again; return False if no other replica was being read."""
        was_named, self.replica = self.replica != NOBODY, NOBODY
        return was_named
