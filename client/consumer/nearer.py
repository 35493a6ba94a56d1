"""The replica to read one partition from: the leader, or a nearer one that it named (KIP-392).

Pure. A replica is named for a time; then the leader is asked again, for the replica may have left
the ISR and not know it. Nor need the leader know what a replica has retired: after a refusal it has
to give that offset itself, which it does for a reader without a rack.
"""

from dataclasses import dataclass

NOBODY = -1


@dataclass(slots=True)
class Nearer:
    """The replica that the leader named to read from, and the offset it was found to lack."""

    replica: int = NOBODY
    """The one that was named."""
    _until_ms: int = 0
    _refused_offset: int = -1

    def name(self, replica: int, until_ms: int) -> None:
        """The leader names a replica; it holds until that time."""
        self.replica, self._until_ms = replica, until_ms

    def refuse(self, offset: int, until_ms: int) -> None:
        """The replica does not have the offset: until then the leader has to give it."""
        self.replica, self._refused_offset, self._until_ms = NOBODY, offset, until_ms

    def has_refused(self, offset: int, now_ms: int) -> bool:
        """True if the named replica lacks this offset, so that the leader itself must give it."""
        return offset == self._refused_offset and now_ms < self._until_ms

    def is_over(self, now_ms: int) -> bool:
        """True if the leader named a replica too long ago."""
        return self.replica != NOBODY and self._until_ms <= now_ms

    def lose(self) -> bool:
        """Return to the leader; False if no other replica was named."""
        was_named, self.replica = self.replica != NOBODY, NOBODY
        return was_named
