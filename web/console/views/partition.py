"""One partition, live: a lane for each replica's log, the high watermark, shaded leader epochs.

Pure. Lanes are measured in thousandths of the picture's width. There are two pictures: the tail,
which spans all log ends, and the whole log, which shows where leader epochs began in each replica.
"""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from ....client.admin.replica_types import FollowerState, ReplicaState, UndecidedTransaction
from ....client.admin.topic_types import PartitionDescription
from ....protocol.errors import ApiError
from ....protocol.types import TopicPartition
from .topics import part_of

WIDTH: Final = 1000
LEAST_SPAN: Final = 20
"""The least number of offsets that the tail spans, so that a lag of one record looks small."""
ROOM: Final = 1.25
"""The span of the tail, in distances between the lowest and the highest log end."""

Replicas = Mapping[int, ReplicaState | ApiError]


@dataclass(frozen=True, slots=True)
class Offsets:
    """The leader's offsets of a partition, which every version of Kafka reports."""

    log_start: int
    high_watermark: int
    last_stable: int


@dataclass(frozen=True, slots=True)
class Stretch:
    """The part of a lane that was written in one leader epoch."""

    x: int
    width: int
    epoch: int | None
    start_offset: int

    @property
    def shade(self) -> str:
        """The shade of the epoch: neighbours differ, and all replicas show an epoch alike."""
        return "b" if self.epoch is not None and self.epoch % 2 else "a"


@dataclass(frozen=True, slots=True)
class Lane:
    """One replica, as it reports itself, or as its leader reports it."""

    broker_id: int
    part: str
    trouble: str
    """Why the replica reports nothing of itself; empty if it does."""
    log_start: int | None
    log_end: int | None
    high_watermark: int | None
    last_stable: int | None
    leader_epoch: int | None
    size: int | None
    segments: int | None
    behind: int | None
    """Records that the replica lacks to the end of the leader's log."""
    behind_ms: int | None
    """Milliseconds since the replica last had all of the leader's log; 0 if it has it now."""
    tail: tuple[Stretch, ...] = ()
    whole: tuple[Stretch, ...] = ()


@dataclass(frozen=True, slots=True)
class PartitionView:
    """A partition as it is shown."""

    where: TopicPartition
    leader_id: int
    leader_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    eligible: tuple[int, ...]
    log_start: int | None
    log_end: int | None
    high_watermark: int | None
    last_stable: int | None
    lanes: tuple[Lane, ...]
    tells_replicas: bool
    """False if the cluster's brokers cannot describe replicas."""
    tail_from: int
    tail_watermark_x: int | None
    whole_watermark_x: int | None
    epochs: tuple[tuple[int, int], ...]
    """Leader epochs and their start offsets in the leader's log, newest first."""
    transactions: tuple[UndecidedTransaction, ...]

    @property
    def sentence(self) -> str:
        """The partition's health in a sentence, for screen readers."""
        if self.leader_id < 0:
            return "No leader: nothing can be written or read."
        missing = [one for one in self.replicas if one not in self.isr]
        if missing:
            names = ", ".join(map(str, missing))
            return f"Broker {self.leader_id} leads. Not in sync: {names}."
        return f"Broker {self.leader_id} leads. Every replica is in sync."

    @property
    def ends(self) -> dict[int, int]:
        """The log end of each replica for which it is known."""
        return {one.broker_id: one.log_end for one in self.lanes if one.log_end is not None}

    @property
    def behind(self) -> dict[str, int | None]:
        """Records that each replica lacks, None if unknown, by broker: one point of the chart."""
        return {f"broker {lane.broker_id}": lane.behind for lane in self.lanes}

    @property
    def level(self) -> str:
        """The severity of the sentence, as a class of the stylesheet."""
        if self.leader_id < 0:
            return "bad"
        return "good" if len(self.isr) == len(self.replicas) else "warn"


def partition_of(
    where: TopicPartition,
    one: PartitionDescription,
    replicas: Replicas | None,
    offsets: Offsets | None,
    seen: Mapping[int, int] | None = None,
) -> PartitionView:
    """Return the view of a partition, made of its replicas' reports or its leader's offsets.

    `seen` has log ends that were seen before: a replica that is silent now is drawn there.
    """
    told = {k: state for k, state in (replicas or {}).items() if isinstance(state, ReplicaState)}
    leader = told.get(one.leader_id)
    followers = {each.broker_id: each for each in (leader.followers if leader else ())}
    silent = {broker: end for broker, end in (seen or {}).items() if broker in one.replicas}
    ends = {**silent, **_ends(told, followers)}
    if offsets is not None:
        ends = dict.fromkeys((one.leader_id,), offsets.high_watermark)
    watermark = leader.high_watermark if leader else _most(told, "high_watermark")
    last_stable = leader.last_stable_offset if leader else _most(told, "last_stable_offset")
    start = leader.log_start_offset if leader else _most(told, "log_start_offset")
    if offsets is not None:
        start, watermark, last_stable = (
            offsets.log_start,
            offsets.high_watermark,
            offsets.last_stable,
        )
    end = max(ends.values(), default=None)
    low = _tail_from(list(ends.values()), start, watermark)
    tail, whole = _Scale(low, max(end or 0, low + LEAST_SPAN)), _Scale(start or 0, end or 0)
    lanes = [
        _lane(
            (broker, part_of(broker, one)),
            (replicas or {}).get(broker),
            ends.get(broker),
            leader,
            (tail, whole),
        )
        for broker in one.replicas
    ]
    newest = leader or max(told.values(), key=lambda each: each.leader_epoch, default=None)
    return PartitionView(
        where=where,
        leader_id=one.leader_id,
        leader_epoch=one.leader_epoch,
        # The leader knows of its ISR before the metadata that any broker has.
        isr=leader.isr if leader and leader.isr else one.isr,
        replicas=one.replicas,
        eligible=one.eligible_leader_replicas or (),
        log_start=start,
        log_end=end,
        high_watermark=watermark,
        last_stable=last_stable,
        lanes=tuple(lanes),
        tells_replicas=replicas is not None,
        tail_from=low,
        tail_watermark_x=None if watermark is None else tail.x(watermark),
        whole_watermark_x=None if watermark is None else whole.x(watermark),
        epochs=tuple((each[0], each[1]) for each in reversed(newest.epochs)) if newest else (),
        transactions=leader.open_transactions if leader else (),
    )


def _lane(
    who: tuple[int, str],
    answer: ReplicaState | ApiError | None,
    end: int | None,
    leader: ReplicaState | None,
    scales: "tuple[_Scale, _Scale]",
) -> Lane:
    broker, part = who
    state = answer if isinstance(answer, ReplicaState) else None
    following = [each for each in (leader.followers if leader else ()) if each.broker_id == broker]
    behind_ms = following[0].behind_ms if following else 0 if state and state is leader else None
    known = state or leader
    epochs = tuple((each[0], each[1]) for each in known.epochs) if known else ()
    tail, whole = (tuple(_stretches(scale, state, end, epochs)) for scale in scales)
    return Lane(
        broker_id=broker,
        part=part,
        trouble=str(answer) if isinstance(answer, ApiError) else "",
        log_start=state.log_start_offset if state else None,
        log_end=end,
        high_watermark=state.high_watermark if state else None,
        last_stable=state.last_stable_offset if state else None,
        leader_epoch=state.leader_epoch if state else None,
        size=state.size_bytes if state else None,
        segments=state.segment_count if state else None,
        behind=None if leader is None or end is None else leader.log_end_offset - end,
        behind_ms=behind_ms,
        tail=tail,
        whole=whole,
    )


@dataclass(frozen=True, slots=True)
class _Scale:
    """The scale of a picture: it maps offsets to positions from left to right."""

    low: int
    high: int

    def x(self, offset: int) -> int:
        span = max(self.high - self.low, 1)
        return min(max(round((offset - self.low) * WIDTH / span), 0), WIDTH)


def _ends(
    told: Mapping[int, ReplicaState], followers: Mapping[int, FollowerState]
) -> dict[int, int]:
    """Return each replica's log end; for a silent one, the end that its leader knows."""
    ends = {broker: state.log_end_offset for broker, state in told.items()}
    for broker, follower in followers.items():
        if broker not in ends and follower.log_end_offset is not None:
            ends[broker] = follower.log_end_offset
    return ends


def _most(told: Mapping[int, ReplicaState], name: str) -> int | None:
    return max((getattr(state, name) for state in told.values()), default=None)


def _tail_from(ends: list[int], start: int | None, watermark: int | None) -> int:
    marks = [*ends, *([] if watermark is None else [watermark])]
    if not marks:
        return 0
    span = max(round((max(marks) - min(marks)) * ROOM), LEAST_SPAN)
    return max(max(marks) - span, start or 0, 0)


def _stretches(
    scale: _Scale,
    state: ReplicaState | None,
    end: int | None,
    epochs: tuple[tuple[int, int], ...],
) -> Iterator[Stretch]:
    """Cut a lane where leader epochs begin; the part before the first known one has no epoch."""
    if end is None:
        return
    begin = max(scale.low, state.log_start_offset if state else scale.low)
    inside = [each for each in epochs if begin < each[1] < end]
    before = [each[0] for each in epochs if each[1] <= begin]
    marks = [(before[-1] if before else None, begin), *inside, (None, end)]
    for (epoch, start), (_, stop) in itertools.pairwise(marks):
        x, until = scale.x(start), scale.x(stop)
        if until > x:
            yield Stretch(x, until - x, epoch, start)
