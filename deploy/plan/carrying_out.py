"""Reads the cluster for a plan, and carries the plan out: begins, waits, reports progress.

A plan may be interrupted at any time. Moves that have begun continue in the cluster, and a second
`apply` finds those that are done, waits for those under way, and begins the rest.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from ...client.admin.admin import Admin
from ...client.cli.reassign_partitions import clear_throttles, set_throttles
from ...client.cli.reassignment import moves_of
from ...client.partitions import name_of
from ...protocol.types import TopicPartition
from .cluster import Broker, Cluster, Partition, Placement, PlanRefused
from .plan_file import Plan

LOOK_SECONDS: Final = 1.0
"""Seconds between two requests for the state of moves under way."""

Tell = Callable[[int], None]
"""Called with the number of partitions that are done."""


@dataclass(frozen=True, slots=True)
class Progress:
    """The partitions of a plan by their state; each is in one of these fields."""

    done: tuple[TopicPartition, ...]
    moving: tuple[TopicPartition, ...]
    waiting: tuple[TopicPartition, ...]
    """The partitions whose replicas are as before the plan."""
    gone: tuple[TopicPartition, ...]
    """The partitions whose topics were deleted."""
    others: Mapping[TopicPartition, tuple[int, ...]]
    """The partitions whose replicas are neither as before nor as planned, with these replicas."""


async def read_cluster(admin: Admin) -> tuple[str, Cluster]:
    """Return the cluster's id, its brokers and all its partitions with their sizes."""
    described = await admin.describe_cluster(include_fenced=True)
    topics = await admin.describe_topics()
    living = [one.node_id for one in described.brokers if not one.is_fenced]
    directories = await admin.describe_log_dirs(living)
    sizes: dict[TopicPartition, int] = {}
    brokers: dict[int, Broker] = {}
    for one in described.brokers:
        found = directories.get(one.node_id, {}).values()
        # Directories on one volume have the same numbers, which count once.
        volumes = {(d.total_bytes, d.usable_bytes): None for d in found if d.error is None}
        free = [usable for _, usable in volumes if usable is not None]
        fenced, is_told = one.is_fenced, bool(free)
        brokers[one.node_id] = Broker(one.node_id, one.rack, fenced, sum(free) if is_told else None)
        for directory in found:
            for where, replica in directory.replicas.items():
                sizes[where] = max(sizes.get(where, 0), replica.size)
    partitions = {
        where: Partition(one.replicas, one.isr, one.leader_id, sizes.get(where, 0))
        for topic in topics.values()
        for one in topic.partitions
        for where in [TopicPartition(topic.name, one.partition)]
    }
    return described.cluster_id, Cluster(brokers, partitions)


async def look(admin: Admin, plan: Plan) -> Progress:
    """Find out how far a plan is; raise PlanRefused if it was made for another cluster."""
    described = await admin.describe_cluster()
    if described.cluster_id != plan.cluster_id:
        raise PlanRefused(
            f"the plan was made for cluster {plan.cluster_id}, this one is {described.cluster_id}"
        )
    now = await _placement(admin, plan.after)
    moving = await admin.list_partition_reassignments()
    done, under_way, waiting, gone = [], [], [], []
    others: dict[TopicPartition, tuple[int, ...]] = {}
    for where, replicas in plan.after.items():
        if where not in now:
            gone.append(where)
        elif where in moving:
            target = moving[where].target
            under_way.append(where)
            if {*target} != {*replicas}:
                others[where] = target
                under_way.pop()
        elif now[where] == replicas:
            done.append(where)
        elif now[where] == plan.before[where]:
            waiting.append(where)
        else:
            others[where] = now[where]
    return Progress(tuple(done), tuple(under_way), tuple(waiting), tuple(gone), others)


async def begin(admin: Admin, plan: Plan, throttle: int | None) -> Progress:
    """Begin the moves that have not begun.

    They are throttled to `throttle` bytes per second on each broker; None sets no throttle. Raise
    PlanRefused if somebody else has changed one of the partitions.
    """
    found = await look(admin, plan)
    if found.others:
        where, replicas = next(iter(sorted(found.others.items())))
        raise PlanRefused(
            f"{name_of(where)} is on {','.join(map(str, replicas))}, and was on "
            f"{','.join(map(str, plan.before[where]))} when the plan was made: make a new one"
        )
    if throttle is not None and (found.waiting or found.moving):
        moving = await admin.list_partition_reassignments()
        target = {where: plan.after[where] for where in found.waiting}
        await set_throttles(admin, moves_of(moving, plan.before, target), throttle)
    if found.waiting:
        await admin.alter_partition_reassignments(
            {where: plan.after[where] for where in found.waiting}
        )
    return found


async def go_back(admin: Admin, plan: Plan, throttle: int | None) -> Plan:
    """Move the partitions that are moving or done back to their former replicas.

    Return the plan of the way back.

    A move under way gets its former replicas as the target. To cancel it would bring them back too,
    but in another order, so with other preferred leaders.
    """
    found = await look(admin, plan)
    concerned = sorted((*found.done, *found.moving))
    before = {where: plan.after[where] for where in concerned}
    back = Plan(
        plan.cluster_id,
        f"undo {plan.goal}",
        before,
        {where: plan.before[where] for where in concerned},
    )
    if throttle is not None and found.done:
        moving = await admin.list_partition_reassignments()
        target = {where: plan.before[where] for where in found.done}
        await set_throttles(admin, moves_of(moving, before, target), throttle)
    if concerned:
        await admin.alter_partition_reassignments(back.after)
    return back


async def wait(admin: Admin, plan: Plan, tell: Tell) -> None:
    """Wait until nothing of the plan moves, then take its throttle away if nothing else moves."""
    while True:
        moving = await admin.list_partition_reassignments()
        left = [where for where in plan.after if where in moving]
        tell(len(plan.after) - len(left))
        if not left:
            break
        await asyncio.sleep(LOOK_SECONDS)
    if not moving:
        await clear_throttles(admin, await _placement(admin, plan.after))


async def _placement(admin: Admin, partitions: Iterable[TopicPartition]) -> Placement:
    """Return the replicas of all partitions of these topics; topics that are gone are left out."""
    wanted = dict.fromkeys(where.topic for where in partitions)
    existing = {one.name for one in await admin.list_topics(include_internal=True)}
    described = await admin.describe_topics([name for name in wanted if name in existing])
    return {
        TopicPartition(name, one.partition): one.replicas
        for name, topic in described.items()
        for one in topic.partitions
    }
