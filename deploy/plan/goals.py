"""The goals of a plan: each changes a draft until the goal is met, moving as little as it can.

Pure. No goal puts a partition's replicas on fewer racks than they are on.
"""

from collections.abc import Iterable
from typing import Final

from ...client.partitions import name_of
from ...protocol.types import TopicPartition
from .cluster import EMPTY_REPLICA_BYTES, Draft, PlanRefused

TOLERATED: Final = 0.1
"""The share of the mean load by which two brokers may differ in a balanced cluster."""


def balance(draft: Draft, movable: Iterable[TopicPartition]) -> None:
    """Even out the bytes on brokers, then the partitions of which each is preferred leader."""
    may_move = dict.fromkeys(movable)
    while _move_one(draft, may_move):
        pass
    balance_leaders(draft, may_move)


def balance_leaders(draft: Draft, movable: Iterable[TopicPartition]) -> None:
    """Change the order of replicas, which copies nothing, so that preferred leaders are spread."""
    led: dict[int, dict[TopicPartition, None]] = {each: {} for each in draft.loads}
    for where in movable:
        led.setdefault(draft.placed[where][0], {})[where] = None
    while True:
        by_count = sorted(draft.loads, key=lambda one: (len(led[one]), one))
        found = next(
            (
                (where, high, low)
                for high in reversed(by_count)
                for low in by_count
                if len(led[high]) - len(led[low]) > 1
                for where in led[high]
                if low in draft.placed[where]
            ),
            None,
        )
        if found is None:
            return
        where, high, low = found
        replicas = draft.placed[where]
        at = replicas.index(low)
        replicas[0], replicas[at] = low, high
        del led[high][where]
        led[low][where] = None


def drain(draft: Draft, leaving: Iterable[int]) -> None:
    """Take every replica off the brokers that leave.

    Raise PlanRefused if a partition would be on fewer racks, or if no broker is left for a replica.
    """
    gone = dict.fromkeys(leaving)
    concerned = [
        where for where, replicas in draft.placed.items() if any(one in gone for one in replicas)
    ]
    for where in sorted(concerned, key=lambda one: (-draft.weight(one), one)):
        racks = draft.racks(draft.placed[where])
        for old in [one for one in draft.placed[where] if one in gone]:
            others = [one for one in draft.placed[where] if one != old]
            draft.replace(where, old, draft.best(where, others))
        if draft.racks(draft.placed[where]) < racks:
            why = f"{name_of(where)}: its replicas would be on fewer racks than now"
            raise PlanRefused(f"{why}: {racks} (--ignore-racks allows that)")


def rack_spread(draft: Draft, movable: Iterable[TopicPartition]) -> None:
    """Put each partition's replicas on as many racks as there are."""
    for where in movable:
        replicas = draft.placed[where]
        most = min(len(replicas), draft.rack_count())
        while draft.racks(replicas) < most:
            # The last replica that shares its rack moves: the preferred leader stays if it can.
            old = next(
                one
                for one in reversed(replicas)
                if draft.racks([each for each in replicas if each != one]) == draft.racks(replicas)
            )
            draft.replace(where, old, draft.best(where, [one for one in replicas if one != old]))


def replication_factor(draft: Draft, movable: Iterable[TopicPartition], factor: int) -> None:
    """Give each partition this many replicas."""
    for where in movable:
        replicas = draft.placed[where]
        while len(replicas) < factor:
            draft.add(where, draft.best(where, replicas))
        while len(replicas) > factor:
            draft.remove(where, _least_needed(draft, where))


def _least_needed(draft: Draft, where: TopicPartition) -> int:
    """Choose the replica to remove: one out of sync, else one that shares its rack, else by load.

    The leader and the preferred leader stay as long as there are other replicas.
    """
    now, replicas = draft.cluster.partitions[where], draft.placed[where]
    return max(
        replicas,
        key=lambda one: (
            one not in (now.leader, replicas[0]),
            one != now.leader,
            one not in now.isr,
            draft.racks([each for each in replicas if each != one]),
            draft.loads.get(one, 0),
            one,
        ),
    )


def _move_one(draft: Draft, movable: dict[TopicPartition, None]) -> bool:
    """Move one replica to a less loaded broker; return False if no move evens out the load."""
    loads = draft.loads
    by_load = sorted(loads, key=lambda one: (loads[one], one))
    tolerated = max(EMPTY_REPLICA_BYTES, int(sum(loads.values()) / len(loads) * TOLERATED))
    for high in reversed(by_load):
        for low in by_load:
            gap = loads[high] - loads[low]
            if gap <= tolerated:
                break
            fitting = [
                where
                for where in draft.held[high]
                if where in movable
                and where not in draft.held[low]
                and draft.weight(where) < gap
                and _keeps_racks(draft, where, high, low)
            ]
            if fitting:
                half = gap // 2
                chosen = min(fitting, key=lambda one: (abs(draft.weight(one) - half), one))
                draft.replace(chosen, high, low)
                return True
    return False


def _keeps_racks(draft: Draft, where: TopicPartition, old: int, new: int) -> bool:
    replicas = draft.placed[where]
    after = [new if one == old else one for one in replicas]
    return draft.racks(after) >= draft.racks(replicas)
