"""Tells the tracer of groups whose committed offsets go past sampled ones.

A commit is told of once it is committed itself, and one of a transaction once its marker is. The
offsets from the one before to the new one are passed.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode
from ...protocol.trace_points import GroupPassed, shortened
from ...protocol.types import NO_OFFSET
from .group.commits import Commit
from .group.offsets import OfGroup, Place
from .shard import Done

if TYPE_CHECKING:
    from ..tracing.tracer import Tracer
    from .offset_upkeep import GroupShard

CommitDone = Callable[[ErrorCode, list[ErrorCode]], None]


def of_commit(shard: "GroupShard", request: Commit, done: CommitDone) -> CommitDone:
    """Return a callback that calls `done`, and tells of what the commit has passed.

    Call it before the commit is applied.
    """
    tracer = shard.partition.host.tracer
    if tracer is None or request.producer is not None:
        return done
    offsets = shard.state.offsets.of(request.group_id)
    passed = [
        (place, _passed(tracer, offsets, (each.topic, each.partition), each.offset))
        for place, each in enumerate(request.offsets)
    ]

    def told(error: ErrorCode, errors: list[ErrorCode]) -> None:
        done(error, errors)
        for place, before in passed:
            if error or before is None or errors[place]:
                continue
            each = request.offsets[place]
            part = GroupPassed(
                tracer.broker,
                shortened(request.group_id),
                shortened(request.who.member_id),
                shortened(request.client_id),
                before,
                each.offset,
                tracer.every,
                tracer.wall_ms(),
            )
            tracer.on_passed(each.topic, each.partition, part)

    return told


def of_marker(shard: "GroupShard", producer_id: int, done: Done) -> Done:
    """Return a callback that calls `done`, and tells of what a transaction's offsets have passed.

    Call it before the offsets take effect.
    """
    tracer = shard.partition.host.tracer
    if tracer is None:
        return done
    offsets = shard.state.offsets
    passed = [
        (group, place, before, committed.offset)
        for group, places in offsets.of_producer(producer_id).items()
        for place, committed in places.items()
        if (before := _passed(tracer, offsets.of(group), place, committed.offset)) is not None
    ]

    def told(error: ErrorCode) -> None:
        done(error)
        if error:
            return
        for group, (topic, partition), before, after in passed:
            who, wall_ms = (tracer.broker, shortened(group), "", ""), tracer.wall_ms()
            part = GroupPassed(*who, before, after, tracer.every, wall_ms, is_transactional=True)
            tracer.on_passed(topic, partition, part)

    return told


def _passed(tracer: "Tracer", offsets: OfGroup, place: Place, after: int) -> int | None:
    """Return the offset before, if a sampled one is passed; else None."""
    present = offsets.get(place)
    before = NO_OFFSET if present is None else present.offset
    return None if tracer.sampled_below(before, after) == NO_OFFSET else before
