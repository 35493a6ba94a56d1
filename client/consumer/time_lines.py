"""Puts the parts of trace points together: the time line of a batch, from what brokers told of it.

Pure. Nothing is corrected: each time is by the clock of the broker that tells it, so that a
difference may be negative.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from ...protocol.trace_points import Fetched, Forwarded, GroupPassed, Part, PointKey, Written

Told = tuple[PointKey, Part]


class What(StrEnum):
    """The kinds of moments, in the order in which a time line has them."""

    APPENDED = "appended"
    REPLICATED = "replicated"
    COMMITTED = "committed"
    FETCHED = "fetched"
    PASSED = "passed"
    PLANNED = "planned"
    FORWARDED = "forwarded"


@dataclass(frozen=True, slots=True)
class Moment:
    """One thing that happened to a batch."""

    what: What
    ms: int
    """Since the epoch, by the clock of `broker`."""
    broker: int | None
    """None for the leader that planned a record, which may have been any."""
    who: str = ""
    """The producer, the follower, the consumer's client or the group."""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class TimeLine:
    """The moments of one batch that was traced."""

    offset: int
    """The offset for which it was traced."""
    base_offset: int
    last_offset: int
    moments: tuple[Moment, ...]
    missing: tuple[str, ...] = ()
    """The times that no broker has told, each with the reason as far as it is known."""
    trace_id: str = ""


@dataclass(slots=True)
class _Spot:
    """Everything that was told of one batch."""

    offset: int
    base_offset: int
    last_offset: int
    written: Written | None = None
    fetched: dict[tuple[str, str], Fetched] = field(default_factory=dict)
    forwarded: dict[int, Forwarded] = field(default_factory=dict)


def time_lines(told: Iterable[Told], offset: int) -> list[TimeLine]:
    """Return the time lines nearest to an offset: before it, with it, behind it, if there are.

    `told` are the parts of one partition, in the order in which they were written down.
    """
    parts = list(told)
    passed = [part for _, part in parts if isinstance(part, GroupPassed)]
    spots = _spots(parts)
    for at in {each: None for one in passed for each in _sampled_near(one, offset)}:
        if not any(each.base_offset <= at <= each.last_offset for each in spots):
            spots.append(_Spot(at, at, at))
    spots.sort(key=lambda each: each.base_offset)
    before = [each for each in spots if each.last_offset < offset]
    with_it = [each for each in spots if each.base_offset <= offset <= each.last_offset]
    behind = [each for each in spots if each.base_offset > offset]
    return [_line(each, passed, offset) for each in (*before[-1:], *with_it[:1], *behind[:1])]


def _spots(parts: Sequence[Told]) -> list[_Spot]:
    spots: dict[int, _Spot] = {}
    for key, part in parts:
        if not isinstance(part, Written | Fetched):
            continue
        base, last = part.base_offset, part.last_offset
        spot = spots.setdefault(base, _Spot(key.offset, base, last))
        if isinstance(part, Written):
            # Written once more after an unclean election: the last one counts.
            spot.offset, spot.last_offset, spot.written = key.offset, last, part
        else:
            spot.fetched.setdefault((part.client_id, part.host), part)
    ranges = sorted((each.base_offset, each.last_offset) for each in spots.values())
    for key, part in parts:
        if isinstance(part, Forwarded):
            at = bisect_right(ranges, (key.offset, 1 << 63)) - 1
            base = ranges[at][0] if at >= 0 and ranges[at][1] >= key.offset else key.offset
            spot = spots.setdefault(base, _Spot(key.offset, key.offset, key.offset))
            spot.forwarded.setdefault(key.offset, part)
    return list(spots.values())


def _sampled_near(passed: GroupPassed, offset: int) -> Iterator[int]:
    """Yield the sampled offsets that a group has passed next to an offset, on both sides."""
    every, last = max(1, passed.every), passed.after - 1
    least = -(-max(0, passed.before) // every) * every
    first = max(least, -(-offset // every) * every)
    near = (min(offset - 1, last) // every * every, first, first + every)
    yield from (each for each in near if least <= each <= last)


def _line(spot: _Spot, passed: Sequence[GroupPassed], offset: int) -> TimeLine:
    moments: list[Moment] = []
    missing: list[str] = []
    written = spot.written
    if written is None:
        missing.append("appended and committed: nothing was told; did its leader stop before?")
    else:
        _tell_written(written, moments, missing)
    for each in spot.fetched.values():
        moments.append(Moment(What.FETCHED, each.ms, each.broker, each.client_id, each.host))
    groups: dict[str, GroupPassed] = {}
    for one in passed:
        if one.before <= spot.offset < one.after:
            groups.setdefault(one.group, one)
    for one in groups.values():
        member = "in a transaction" if one.is_transactional else one.member or one.client_id
        detail = f"{one.after}, {member}" if member else str(one.after)
        moments.append(Moment(What.PASSED, one.ms, one.broker, one.group, detail))
    if not groups:
        missing.append("no group has been told of that committed past it")
    for at, to in spot.forwarded.items():
        if at == offset or (offset not in spot.forwarded and at == min(spot.forwarded)):
            where = f"partition {to.partition}" + (
                f", offset {to.offset}" if to.offset >= 0 else ""
            )
            kind = "dead letter, " if to.is_dead_letter else ""
            moments.append(Moment(What.PLANNED, to.planned_ms, None, "", f"record {at}"))
            detail = f"record {at}: {kind}{where}"
            moments.append(Moment(What.FORWARDED, to.answered_ms, to.broker, "", detail))
    trace_id = "" if written is None else written.trace_id
    ends = (spot.offset, spot.base_offset, spot.last_offset)
    return TimeLine(*ends, tuple(moments), tuple(missing), trace_id)


def _tell_written(written: Written, moments: list[Moment], missing: list[str]) -> None:
    broker = written.broker
    who = f"{written.client_id or 'no client id'} at {written.host}"
    detail = f"{written.size:,} bytes, leader epoch {written.leader_epoch}, {written.principal}"
    moments.append(Moment(What.APPENDED, written.appended_ms, broker, who, detail))
    for follower, ms in zip(written.followers, written.followers_ms, strict=False):
        moments.append(Moment(What.REPLICATED, ms, broker, f"broker {follower}"))
    if written.committed_ms >= 0:
        moments.append(Moment(What.COMMITTED, written.committed_ms, broker))
    else:
        missing.append(f"committed: {written.why}")
    have = (broker, *written.followers)
    missing.extend(
        f"broker {each}: had not fetched it then" for each in written.in_sync if each not in have
    )
