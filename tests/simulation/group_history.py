"""Records what members of a consumer group were assigned, read and committed, and checks it.

Pure. It is notified of every event in the order of time. Contradictions are kept until the end,
when it is known which partitions had no guarantees.

    a partition is   held by a member from `on_assigned` to `on_revoked` or `on_lost`
    a generation     numbers the group's rebalances; who is lost was not told of a newer one
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from .history import Partition, name


@dataclass(slots=True)
class Holding:
    """One partition while it is assigned to one member."""

    generation: int
    floor: int
    """The group's committed offset when the partition was assigned."""
    next_offset: int | None = None
    """The offset after the last record that the member read."""
    taken_by: tuple[str, int] | None = None
    """Another member to which the partition was assigned meanwhile, and the generation of that."""


@dataclass(slots=True)
class GroupHistory:
    """The history of one consumer group."""

    committed: dict[Partition, int] = field(default_factory=dict)
    """The highest offset whose commit was acknowledged."""
    read_to: dict[Partition, int] = field(default_factory=dict)
    """The offset below which some member has read every record."""
    final: dict[Partition, int] = field(default_factory=dict)
    """The group's committed offsets in the end."""
    found: list[tuple[Partition, str]] = field(default_factory=list)
    may_be_gone_below: Callable[[Partition], int] = lambda partition: 0
    """Returns the offset below which a partition's records need not exist any more at present."""
    assigned_count: int = 0
    committed_count: int = 0
    _held: dict[tuple[str, Partition], Holding] = field(default_factory=dict)

    def on_assigned(self, member: str, partition: Partition, generation: int) -> None:
        """Note that a member begins to read at the group's committed offset."""
        self.assigned_count += 1
        for (other, held), holding in self._held.items():
            if held == partition and other != member and holding.taken_by is None:
                holding.taken_by = (member, generation)
        floor = self.committed.get(partition, 0)
        self._held[member, partition] = Holding(generation, floor)

    def on_revoked(self, member: str, partition: Partition, generation: int) -> None:
        """Note that a member of `generation` gives the partition up; no other may have it yet."""
        holding = self._held.pop((member, partition), None)
        if holding is None or holding.taken_by is None:
            return
        other, taken_in = holding.taken_by
        if generation >= taken_in:
            self._find(
                partition,
                f"owned twice: {other} was given it in generation {taken_in}, and"
                f" {member} of generation {generation} gave it up only then",
            )

    def on_lost(self, member: str, partition: Partition) -> None:
        """Note that a member lost the partition because it was out of the group without knowing."""
        self._held.pop((member, partition), None)

    def on_died(self, member: str) -> None:
        """Note that a member died, and so owns nothing any more."""
        for key in [key for key in self._held if key[0] == member]:
            del self._held[key]

    def on_polled(self, member: str, partition: Partition, offset: int) -> None:
        """Note that a member got one record."""
        holding = self._held.get((member, partition))
        if holding is None:
            self._find(partition, f"{member} was given offset {offset} of what it does not hold")
            return
        is_beyond_gone = offset <= self.may_be_gone_below(partition)
        if holding.next_offset is None:
            if offset < holding.floor:
                self._find(
                    partition,
                    f"went back: {holding.floor} was committed before {member} was assigned,"
                    f" and it begins at {offset}",
                )
        elif offset != holding.next_offset and not (
            is_beyond_gone and offset > holding.next_offset
        ):
            self._find(partition, f"{member} got {offset} where {holding.next_offset} was due")
        read_to = self.read_to.get(partition, 0)
        if offset > read_to and not is_beyond_gone:
            self._find(partition, f"skipped: {member} begins at {offset}, read up to {read_to}")
        self.read_to[partition] = max(read_to, offset + 1)
        holding.next_offset = offset + 1

    def on_committed(self, partition: Partition, offset: int) -> None:
        """Note that a commit was acknowledged."""
        self.committed_count += 1
        self.committed[partition] = max(self.committed.get(partition, 0), offset)

    def check(self, lossy: dict[Partition, None]) -> list[str]:
        """Return every contradiction as a sentence."""
        findings = [
            f"group: {name(partition)}: {what}"
            for partition, what in self.found
            if partition not in lossy
        ]
        for partition, offset in self.committed.items():
            last = self.final.get(partition, 0)
            if last < offset and partition not in lossy:
                findings.append(
                    f"group: {name(partition)}: {offset} was committed, and in the end {last} is"
                )
        return findings

    def _find(self, partition: Partition, what: str) -> None:
        self.found.append((partition, what))
