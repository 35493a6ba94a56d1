"""Assigns connectors and tasks to workers: incremental, cooperative (KIP-415).

Pure. The leader calls `assign` once per generation, with what every worker says that it holds, and
gets what each must start and must stop. What stays is not touched.

Rules, in this order
    1. What is no longer configured is revoked.
    2. What two workers hold is revoked from both, and given to one in the next round.
    3. What a vanished worker held waits for its return, `max_delay_ms` at most. A worker is known
       by its url: one that returns with empty hands gets its own back at once. What was given to a
       worker that is here and does not hold it, or to one that leaves in order, waits for nothing.
    4. What nobody holds and what does not wait goes to the workers with the least.
    5. While nothing waits, workers above their share give up the surplus, which rule 4 gives away
       in the next round: connectors and tasks are each balanced up to 1.

Invariants
    An item is given only if no worker of the round holds it, so nothing runs twice.
    A worker that leaves is given nothing.
    The state is that of one leader's consecutive generations; a gap means that somebody else has
    assigned meanwhile, and then nothing waits.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from .group_protocol import CONNECTOR
from .states import TaskId


@dataclass(frozen=True, slots=True)
class Worker:
    """A member of the group, as it describes itself when it joins."""

    url: str
    held: tuple[TaskId, ...] = ()
    is_leaving: bool = False


@dataclass(slots=True)
class Share:
    """The work of one worker that changes, in the order in which it was decided."""

    assigned: list[TaskId] = field(default_factory=list)
    revoked: list[TaskId] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Plan:
    """The result of a round."""

    shares: dict[str, Share]
    """By member id."""
    delay_ms: int
    """Milliseconds until the group must rebalance again for what waits; 0 if nothing waits."""
    waiting: tuple[TaskId, ...] = ()
    """Items that a vanished worker held, and nobody runs until it returns or the delay ends."""


@dataclass(slots=True)
class _Lost:
    url: str
    until_ms: int


class Assignor:
    """The assignments of one leader, round after round; see the module."""

    def __init__(self, max_delay_ms: int) -> None:
        """`max_delay_ms` is scheduled.rebalance.max.delay.ms; 0 lets nothing wait."""
        self._max_delay_ms = max_delay_ms
        self._generation = -1
        self._owners: dict[TaskId, str] = {}
        """The url of the worker that each item was last given to, or left with."""
        self._lost: dict[TaskId, _Lost] = {}

    def skip(self, generation: int) -> None:
        """Note a generation in which nothing was assigned, so that it leaves no gap."""
        if generation == self._generation + 1:
            self._generation = generation

    def assign(
        self,
        generation: int,
        workers: Mapping[str, Worker],
        configured: Sequence[TaskId],
        now_ms: int,
    ) -> Plan:
        """Decide a round; `workers` by member id, `now_ms` monotonic."""
        if generation != self._generation + 1:
            self._owners, self._lost = {}, {}
        self._generation = generation
        members = {member: workers[member] for member in sorted(workers)}
        shares = {member: Share() for member in members}
        kept = _revoke_what_must_go(members, shares, configured)
        free = self._free(members, configured, now_ms)
        staying = {member: kept[member] for member in members if not members[member].is_leaving}
        for item, member in self._returned(members, free).items():
            staying[member].append(item)
            shares[member].assigned.append(item)
            del free[item]
        if staying:
            _give(free, staying, shares)
            if not self._lost:
                _balance(staying, shares)
        self._remember(members, staying)
        return Plan(shares, self._delay_ms(now_ms), tuple(self._lost))

    def _free(
        self, members: Mapping[str, Worker], configured: Sequence[TaskId], now_ms: int
    ) -> dict[TaskId, None]:
        """Return what nobody holds and may be given; note in `_lost` what waits instead."""
        held = {item: None for worker in members.values() for item in worker.held}
        here = {worker.url: None for worker in members.values()}
        unheld = [item for item in configured if item not in held]
        lost: dict[TaskId, _Lost] = {}
        free: dict[TaskId, None] = {}
        for item in unheld:
            url = self._owners.get(item)
            if url is None or url in here or not self._max_delay_ms:
                free[item] = None
                continue
            entry = self._lost.get(item) or _Lost(url, now_ms + self._max_delay_ms)
            if now_ms >= entry.until_ms:
                free[item] = None
            else:
                lost[item] = entry
        self._lost = lost
        return free

    def _returned(
        self, members: Mapping[str, Worker], free: Mapping[TaskId, None]
    ) -> dict[TaskId, str]:
        """Return what goes back to a worker that is here again with empty hands."""
        empty = {
            worker.url: member
            for member, worker in members.items()
            if not worker.held and not worker.is_leaving
        }
        owners = {item: self._owners.get(item) for item in free}
        return {
            item: empty[url] for item, url in owners.items() if url is not None and url in empty
        }

    def _remember(self, members: Mapping[str, Worker], staying: Mapping[str, list[TaskId]]) -> None:
        waiting = {item: entry.url for item, entry in self._lost.items()}
        owners = {item: members[member].url for member in staying for item in staying[member]}
        self._owners = waiting | owners

    def _delay_ms(self, now_ms: int) -> int:
        return min((each.until_ms - now_ms for each in self._lost.values()), default=0)


def _revoke_what_must_go(
    members: Mapping[str, Worker], shares: Mapping[str, Share], configured: Sequence[TaskId]
) -> dict[str, list[TaskId]]:
    """Revoke what is not configured, held twice, or held by who leaves; return what is kept."""
    known = dict.fromkeys(configured)
    holders = Counter(item for worker in members.values() for item in dict.fromkeys(worker.held))
    kept: dict[str, list[TaskId]] = {}
    for member, worker in members.items():
        kept[member] = []
        for item in dict.fromkeys(worker.held):
            stays = item in known and holders[item] == 1 and not worker.is_leaving
            (kept[member] if stays else shares[member].revoked).append(item)
    return kept


def _give(
    free: Iterable[TaskId], staying: Mapping[str, list[TaskId]], shares: Mapping[str, Share]
) -> None:
    """Give each item to the worker with the least of its kind; among these, the least of all."""
    counts = {
        is_connector: {member: _count(items, is_connector) for member, items in staying.items()}
        for is_connector in (True, False)
    }
    for item in free:
        loads = counts[item.task == CONNECTOR]
        member = min(loads, key=lambda each: (loads[each], len(staying[each])))
        loads[member] += 1
        staying[member].append(item)
        shares[member].assigned.append(item)


def _balance(staying: Mapping[str, list[TaskId]], shares: Mapping[str, Share]) -> None:
    """Revoke from each worker what is above its share, of connectors and of tasks.

    The workers with the most have the greater shares, so that the fewest items move.
    """
    for is_connector in (True, False):
        loads = {member: _count(items, is_connector) for member, items in staying.items()}
        least, rest = divmod(sum(loads.values()), len(loads))
        for place, member in enumerate(sorted(loads, key=lambda each: -loads[each])):
            surplus = loads[member] - least - (place < rest)
            for item in reversed(tuple(staying[member])):
                if surplus > 0 and (item.task == CONNECTOR) is is_connector:
                    surplus -= 1
                    staying[member].remove(item)
                    _revoke(shares[member], item)


def _revoke(share: Share, item: TaskId) -> None:
    """Take an item from a worker; one that it was only about to get is not given to it."""
    if item in share.assigned:
        share.assigned.remove(item)
    else:
        share.revoked.append(item)


def _count(items: Iterable[TaskId], is_connector: bool) -> int:
    return sum((item.task == CONNECTOR) is is_connector for item in items)
