"""Makes the plans of each step, for the leader of a source partition in one leader epoch.

Pure. A new leader epoch begins with a producer id of its own. Plans that an unclean election has
lost are made again under another id, and are never mistaken for duplicates of what the old leader
sent. The leader plans only when it has folded everything that was in its log when it was elected,
so that no step of an earlier leader can follow.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from ...protocol.errors import ErrorCode
from ...protocol.types import TopicIdPartition
from .due_index import Entry
from .steps import GONE, REPLACED, End, Kind, Plan
from .targets import REFUSED, GaveUp

LAST_SEQUENCE: Final = 1 << 30
"""The sequence number after which a target partition gets another producer id."""


PLANS_BITS: Final = 20
"""There are fewer plans in a step than 2 to this power."""


class Wanted(NamedTuple):
    """A batch that is to be planned."""

    target: TopicIdPartition
    kind: Kind
    offsets: tuple[int, ...]
    code: ErrorCode = ErrorCode.NONE
    moved: tuple[Entry, ...] = ()
    """The records whose times were changed, with these times; others may be among them."""
    since_ms: int = 0
    """The time of the plan that it takes the place of: by this leader's clock it may be to come."""


class Replacement(NamedTuple):
    """The ends of plans that were given up, and the batches that take their place."""

    ends: tuple[End, ...]
    wanted: tuple[Wanted, ...]
    dead: tuple[int, ...] = ()
    """Offsets of dead letters, for which the caller finds the target partitions."""


class Mark(NamedTuple):
    """A copy of what a leader has decided so far."""

    plans: int
    next: dict[TopicIdPartition, tuple[int, int]]
    common: int
    ids: list[int]


class NeedsId(Exception):
    """Raised if there is no producer id left; nothing has changed then."""


class Lead:
    """One leader epoch of a source partition."""

    def __init__(self, epoch: int, start: int) -> None:
        """`start` is the end of the log when the epoch began."""
        self.epoch = epoch
        self.start = start
        self.ids: list[int] = []
        """Producer ids that nobody has used."""
        # Each step takes an offset, so that no leader uses the number of another one's plan.
        self._plans = start << PLANS_BITS
        self._next: dict[TopicIdPartition, tuple[int, int]] = {}
        """The producer id of each target partition, and its next sequence number."""
        self._common = -1
        """The producer id of target partitions that have needed no other."""

    def mark(self) -> Mark:
        """Return what `restore` needs to take back the plans made from now on."""
        return Mark(self._plans, dict(self._next), self._common, list(self.ids))

    def restore(self, mark: Mark) -> None:
        """Take back the plans made since `mark`, because their step was not written."""
        self._plans, self._next, self._common, self.ids = mark

    def plan(self, wanted: Iterable[Wanted], planned_ms: int) -> list[Plan]:
        """Make the plans of a step; raise NeedsId if a producer id is missing."""
        before = self.mark()
        try:
            return [self._plan(each, planned_ms) for each in wanted]
        except NeedsId:
            self.restore(before)
            raise

    def give_up(self, target: TopicIdPartition, producer_id: int) -> None:
        """Use another id for a target partition from now on, if this is its present one."""
        if self._next.get(target, (self._common, 0))[0] == producer_id:
            self._next[target] = (-1, 0)

    def _plan(self, wanted: Wanted, planned_ms: int) -> Plan:
        count = len(wanted.offsets)
        if wanted.kind.is_alone:
            producer_id, sequence = self._fresh(), 0
        else:
            producer_id, sequence = self._next.get(wanted.target, (self._common, 0))
            if producer_id < 0 or sequence + count > LAST_SEQUENCE:
                is_first = wanted.target not in self._next
                producer_id, sequence = self._fresh(), 0
                if is_first:
                    self._common = producer_id
            self._next[wanted.target] = (producer_id, sequence + count)
        self._plans += 1
        return Plan(
            self._plans,
            wanted.target,
            producer_id,
            sequence,
            wanted.kind,
            int(wanted.code),
            max(planned_ms, wanted.since_ms),
            wanted.offsets,
            _of(wanted.offsets, wanted.moved),
        )

    def _fresh(self) -> int:
        if not self.ids:
            raise NeedsId
        return self.ids.pop(0)


def replace(gave_up: GaveUp, *, has_dead_letters: bool) -> Replacement:
    """Decide what becomes of the plans of a closed queue.

    Of a batch that a target refuses both halves are tried. A record that is refused by itself is a
    dead letter, or goes on trying under its own producer id. All other plans are made again.
    """
    failed, code = gave_up.plans[0], gave_up.code
    if code == ErrorCode.UNKNOWN_TOPIC_ID:
        offsets = [offset for plan in gave_up.plans for offset in plan.offsets]
        ends = tuple(End(plan.plan_id, GONE) for plan in gave_up.plans)
        may_be_dead = has_dead_letters and not failed.kind.is_dead
        return Replacement(ends, (), tuple(offsets) if may_be_dead else ())
    ends = tuple(End(plan.plan_id, REPLACED) for plan in gave_up.plans)
    wanted: list[Wanted] = []
    dead: tuple[int, ...] = ()
    if code not in REFUSED:
        wanted.append(again(failed))
    elif len(failed.offsets) > 1:
        half = len(failed.offsets) // 2
        wanted.append(again(failed, *failed.offsets[:half]))
        wanted.append(again(failed, *failed.offsets[half:]))
    elif has_dead_letters and not failed.kind.is_dead:
        dead = failed.offsets
    else:
        if failed.kind.is_dead:
            wanted.append(again(failed)._replace(kind=Kind.DEAD_ALONE))
        else:
            wanted.append(again(failed)._replace(kind=Kind.ALONE, code=code))
    wanted.extend(map(again, gave_up.plans[1:]))
    return Replacement(ends, tuple(wanted), dead)


def without_deleted(
    wanted: Iterable[Wanted], is_deleted: Callable[[int], bool]
) -> tuple[list[Wanted], list[int]]:
    """Return what is wanted without the records that are deleted, and those records' offsets."""
    kept: list[Wanted] = []
    deleted: list[int] = []
    for each in wanted:
        offsets = tuple(offset for offset in each.offsets if not is_deleted(offset))
        deleted.extend(offset for offset in each.offsets if is_deleted(offset))
        if offsets:
            kept.append(each._replace(offsets=offsets))
    return kept, deleted


def _of(offsets: Sequence[int], moved: Sequence[Entry]) -> tuple[Entry, ...]:
    """Return the entries of these offsets."""
    if not moved:
        return ()
    mine = dict.fromkeys(offsets)
    return tuple(each for each in moved if each.offset in mine)


def again(plan: Plan, *offsets: int) -> Wanted:
    """Return what plans a plan's records again, or only those at `offsets`."""
    code, taken = ErrorCode(plan.code), offsets or plan.offsets
    return Wanted(plan.target, plan.kind, taken, code, plan.moved, plan.planned_ms)


def grouped(
    placed: Sequence[tuple[TopicIdPartition, int]],
    most: int,
    sizes: Sequence[int],
    most_bytes: Callable[[TopicIdPartition], int],
) -> list[Wanted]:
    """Return a batch for each target partition, or several, of records in their order.

    `placed` has the target partition and the offset of each record, `sizes` its bytes.
    """
    batches: dict[TopicIdPartition, list[list[int]]] = {}
    held: dict[TopicIdPartition, int] = {}
    for (target, offset), size in zip(placed, sizes, strict=True):
        open_ones = batches.setdefault(target, [])
        if not open_ones or len(open_ones[-1]) == most or held[target] + size > most_bytes(target):
            open_ones.append([])
            held[target] = 0
        open_ones[-1].append(offset)
        held[target] += size
    return [
        Wanted(target, Kind.DUE, tuple(offsets))
        for target, found in batches.items()
        for offsets in found
    ]
