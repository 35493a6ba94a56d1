"""Takes the records of the next step: what is due, and what waits for its target, in turns."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from ...protocol.records.records import Record
from ...protocol.types import TopicIdPartition
from .drafting import MOST_BYTES
from .due_index import Entry
from .parked import TooMuch
from .shelves import Reason, Shelves
from .steps import MOST_PLANNED
from .targets import TOO_LARGE, GaveUp, Targets

if TYPE_CHECKING:
    from .leading import Ground

READ_BYTES: Final = 4 << 20
"""About the most bytes of the records of one step, unless one record is larger."""
LEAST_BYTES: Final = 16 << 10
"""To a target that refuses batches as too large, smaller ones are sent, down to this size."""
ROUNDS: Final = 20
"""The most times that records are taken in one turn because all before were over."""
RETRY_MS: Final = 1_000
"""The time after which records are looked at again whose target is not there."""


class Taking:
    """The records that the step is about which is made now, or is not folded yet."""

    most_open = 50
    most_open_shared = 500
    """The most plans on their way to one target partition. Records with several targets wait only
    beyond the second number, because they would hold up the others."""

    def __init__(self, ground: "Ground", targets: Targets, may_take: Callable[[], bool]) -> None:
        self.taken: list[Entry] = []
        self.taken_ms = 0
        """The wall time by which `taken` was due, even if the clock was set back since."""
        self.shelves = Shelves()
        self._ground = ground
        self._targets = targets
        self._may_take = may_take
        self._is_turn_of_shelves = False
        self._shelf_of: dict[Entry, Reason] = {}
        """The shelves from which the entries were taken; empty if they were in the index."""
        self._shared: dict[Reason, None] = {}
        """The target partitions for which records with several targets wait, too."""
        self._open: dict[TopicIdPartition, int] = {}
        """The plans on their way to each target partition, as far as this step has asked."""
        self._retry_ms: dict[Reason, int] = {}
        """Monotonic times of the next look for the topics that are missing."""
        self._most = MOST_PLANNED
        """The most records of a step, fewer while records are large."""
        self._most_bytes: dict[TopicIdPartition, int] = {}

    async def read(self) -> dict[int, Record] | None:
        """Take the records to plan now, and read them; return None if reading fails."""
        ground = self._ground
        if not ground.pace.may_take(ground.runtime.monotonic_ms()):
            return {}
        self._is_turn_of_shelves = not self._is_turn_of_shelves
        self._open.clear()
        self._shared = {each: None for each in self._shared if each in self.shelves}
        while True:
            self._take()
            count = len(self.taken)
            try:
                found = await ground.parked.read((each.offset for each in self.taken), READ_BYTES)
            except TooMuch:
                self._most = max(1, count // 2)
                self.give_back()
                continue
            ground.pace.on_taken(count, self._most, ground.runtime.monotonic_ms())
            if count == self._most:
                self._most = min(2 * count, MOST_PLANNED)
            return found

    def give_back(self) -> None:
        """Let the records wait again that were taken, each where it was."""
        rest: list[Entry] = []
        for entry in self.taken:
            reason = self._shelf_of.get(entry)
            if reason is None:
                rest.append(entry)
            else:
                self.shelves.add(reason, (entry,))
        self._ground.schedule.index.add(rest)
        self.taken, self._shelf_of = [], {}

    def forget(self) -> None:
        """Drop everything, because the index begins anew."""
        self.taken, self.shelves, self._shelf_of = [], Shelves(), {}

    def close(self) -> None:
        """Give everything back to the index, for the next leader epoch."""
        self.give_back()
        self.shelves.give_back(self._ground.schedule.index)

    def defer(self, waiting: Sequence[Entry]) -> None:
        """Let records wait again that cannot be planned now."""
        if waiting:
            self._ground.schedule.index.add(waiting)
            self._leave(waiting)
            self._ground.pace.rest(self._ground.runtime.monotonic_ms())

    def shelve(self, waiting: Mapping[Reason, Sequence[Entry]]) -> None:
        """Let records wait for their targets."""
        retry_ms = self._ground.runtime.monotonic_ms() + RETRY_MS
        for reason, entries in waiting.items():
            self.shelves.add(reason, entries)
            if self._shelf_of:
                self._retry_ms[reason] = retry_ms
            else:
                self._retry_ms.setdefault(reason, retry_ms)
            self._leave(entries)
        known = self._retry_ms
        self._retry_ms = {each: known[each] for each in self.shelves.reasons if each in known}

    def is_held(self, reason: Reason, several: bool) -> bool:
        """True if a record has to wait for a target: its only one, or one of several.

        What waits for the target already goes first.
        """
        is_behind = not self._shelf_of and reason in self.shelves
        if not isinstance(reason, TopicIdPartition):
            return is_behind
        if not several:
            return is_behind or self._open_plans(reason) >= self.most_open
        if self._open_plans(reason) >= self.most_open_shared:
            self._shared[reason] = None
            return True
        return is_behind and reason in self._shared

    def _open_plans(self, target: TopicIdPartition) -> int:
        known = self._open.get(target)
        if known is None:
            known = self._open[target] = self._targets.open_plans(target)
        return known

    def most_bytes(self, target: TopicIdPartition) -> int:
        """Return the most bytes of a batch for a target partition."""
        return self._most_bytes.get(target, MOST_BYTES)

    def on_gave_up(self, gave_up: GaveUp) -> None:
        """Send smaller batches to a target that has refused one as too large."""
        failed = gave_up.plans[0]
        if gave_up.code in TOO_LARGE and len(failed.offsets) > 1:
            smaller = max(self.most_bytes(failed.target) // 2, LEAST_BYTES)
            self._most_bytes[failed.target] = smaller

    def next_in_ms(self) -> int | None:
        """Return in how many ms there is something to take; None if that is not known.

        A target partition that takes nothing now says itself when it does.
        """
        now_ms = self._ground.runtime.monotonic_ms()
        wall_ms = self._ground.runtime.wall_ms()
        times: list[int] = []
        self._open.clear()
        for reason in self.shelves.reasons:
            ready_ms = self._ready_ms(reason, now_ms)
            if ready_ms is not None:
                times.append(max(ready_ms - now_ms, self.shelves.next_due_ms(reason) - wall_ms))
        due_ms = self._ground.schedule.index.next_due_ms
        if due_ms is not None:
            times.append(due_ms - wall_ms)
        return min(times, default=None)

    def _take(self) -> None:
        ground = self._ground
        is_over = ground.schedule.state.is_over
        # What was deleted is passed over, with turns for others when it is much.
        for _ in range(ROUNDS):
            if self.taken or not self._may_take():
                break
            self._shelf_of = {}
            self.taken_ms = ground.runtime.wall_ms()
            taken = self._take_shelved() if self._is_turn_of_shelves else []
            if not taken:
                taken = ground.schedule.index.take(self.taken_ms, self._most)
            if not taken:
                taken = self._take_shelved()
            # A record whose time was changed to and fro has two entries.
            self.taken = [each for each in dict.fromkeys(taken) if not is_over(each)]
            if not taken:
                break

    def _take_shelved(self) -> list[Entry]:
        taken: list[Entry] = []
        now_ms = self._ground.runtime.monotonic_ms()
        for reason in self.shelves.reasons:
            ready_ms = self._ready_ms(reason, now_ms)
            if ready_ms is not None and ready_ms <= now_ms and len(taken) < self._most:
                some = self.shelves.take(reason, self.taken_ms, self._most - len(taken))
                self._shelf_of.update(dict.fromkeys(some, reason))
                taken += some
        return taken

    def _ready_ms(self, reason: Reason, now_ms: int) -> int | None:
        if isinstance(reason, TopicIdPartition):
            return now_ms if self._open_plans(reason) < self.most_open else None
        ground = self._ground
        is_there = ground.image().topic(reason) is not None
        authorize = ground.partition.log.config.delay.authorize
        if is_there and ground.may_write_as(authorize)(reason):
            return now_ms
        return self._retry_ms.get(reason, now_ms)

    def _leave(self, waiting: Sequence[Entry]) -> None:
        left = dict.fromkeys(waiting)
        self.taken = [each for each in self.taken if each not in left]
