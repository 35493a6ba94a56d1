"""Leads a source partition for one leader epoch: plans what is due, and writes it down in steps.

One step is written at a time; it counts once it is committed and folded. `Lead`, `Targets`,
`drafting` and `changing` decide. Whatever was decided and not written is forgotten at the end of
the epoch: the next leader decides anew.
"""

import logging
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ...protocol.control.image import MetadataImage
from ...protocol.errors import ErrorCode
from ...protocol.records.batch_header import BatchHeader
from ...protocol.records.records import Record
from ...protocol.trace_points import Forwarded
from ...protocol.types import NO_OFFSET, TopicPartition
from ...runtime.runtime import Runtime
from ..coordinator.producer_ids import ProducerIds
from ..partition.own_batches import refuse_own, stage_own
from ..partition.partition import Partition
from ..tracing.tracer import Tracer
from .changing import Change, Changes, Done, Limits
from .drafting import Outlook, draft, replace_in
from .due_index import Entry
from .folding import short_key
from .lateness import Lateness
from .lead import Lead, NeedsId
from .looking_back import find_plans, wanted_again
from .pace import Pace
from .parked import ParkedRecords
from .refiring import Refired, Refires
from .replacing import keys_behind
from .schedule import Schedule
from .steps import MOST_PLANNED, End, Plan, Step, encode
from .taking import Taking
from .targets import Ended, GaveUp, Outcome, Targets

MOST_PLANS: Final = 100_000
MOST_ON_THEIR_WAY: Final = 1_000_000
"""The most plans that have not ended, of one source partition, and about the most of their records;
then nothing more is planned."""

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Counts:
    """The records that one source has finished since it began."""

    forwarded: int = 0
    """Records that targets have taken."""
    dead_letters: int = 0
    dropped: int = 0
    """Records that nobody could take."""
    cancelled: int = 0
    """Records that somebody cancelled, or that expired before they were forwarded."""


@dataclass(frozen=True, slots=True)
class Ground:
    """The parts of one source that its leading uses."""

    runtime: Runtime
    image: Callable[[], MetadataImage]
    producer_ids: ProducerIds
    write_staged: Callable[[], None]
    is_clock_ahead_by: Callable[[int], bool]
    may_write_as: Callable[[str], Callable[[str], bool]]
    wake: Callable[[], None]
    """Has the source's task look again."""

    partition: Partition
    name: TopicPartition
    schedule: Schedule
    parked: ParkedRecords
    pace: Pace
    counts: Counts
    lateness: Lateness


class Leading:
    """One leader epoch of a source partition on this broker."""

    def __init__(self, ground: Ground) -> None:
        partition = ground.partition
        self.targets = Targets()
        self.ends: list[End] = []
        """The answers of targets that are not written yet."""
        self.taking = Taking(ground, self.targets, lambda: self.may_take)
        self.is_sending = False
        """True once the plans of earlier leaders are queued."""
        self.lacks_id = False
        """True while a producer id is asked for; nothing is planned then."""
        self._ground = ground
        self._lead = Lead(partition.leader_epoch, partition.log_end_offset)
        self._gave_up: list[GaveUp] = []
        self._changes = Changes()
        self.refires = Refires()
        """Requests to forward records again."""
        self._is_turn_of_changes = True
        self._step_end = 0
        """The offset behind the step that is not folded yet."""

    @property
    def is_over(self) -> bool:
        """True if this broker leads no more, or in another epoch."""
        partition = self._ground.partition
        return partition.leader is None or partition.leader_epoch != self._lead.epoch

    @property
    def is_step_folded(self) -> bool:
        """True if no step waits to be committed."""
        return self._ground.schedule.state.folded >= self._step_end

    @property
    def may_take(self) -> bool:
        """True if records that are due may be planned, as soon as no step waits."""
        ground = self._ground
        if self.lacks_id or ground.partition.log.config.delay.paused or self.is_clock_held:
            return False
        plans = ground.schedule.state.plans
        if len(plans) < MOST_ON_THEIR_WAY // MOST_PLANNED:
            return True
        on_their_way = sum(len(plan.offsets) for plan in plans.values())
        return len(plans) < MOST_PLANS and on_their_way < MOST_ON_THEIR_WAY

    @property
    def is_clock_held(self) -> bool:
        """True if nothing is planned because this broker's clock is ahead of the others'."""
        config = self._ground.partition.log.config.delay
        return config.is_on and self._ground.is_clock_ahead_by(config.clock_ahead_max_ms)

    def close(self) -> None:
        """End the epoch. The last step may be lost, or be folded later."""
        self._ground.parked.forget()
        self._ground.lateness.forget()
        self.taking.close()
        self._changes.fail()
        self.refires.fail()

    def change(self, changes: Sequence[Change], done: Done) -> None:
        """Decide changes with one of the next steps; `done` gets a code for each."""
        self._changes.ask(changes, done)

    def on_step(self, step: Step) -> None:
        """Queue the plans of a step that is folded now."""
        if self.is_sending:
            self._queue(step.plans)

    def on_outcome(self, outcome: Outcome) -> None:
        """Note what has become of a plan."""
        ground = self._ground
        if isinstance(outcome, Ended):
            self.ends.append(End(outcome.plan.plan_id, outcome.base_offset))
            if ground.partition.host.tracer is not None:
                _tell(ground.partition.host.tracer, ground.partition, outcome)
            if outcome.plan.kind.is_dead:
                ground.counts.dead_letters += len(outcome.plan.offsets)
            else:
                ground.counts.forwarded += len(outcome.plan.offsets)
            ground.lateness.on_taken(outcome.plan.plan_id, ground.runtime.wall_ms())
            if len(self.ends) == 1:
                ground.pace.on_first_end(ground.runtime.monotonic_ms())
        else:
            ground.parked.forget()
        if isinstance(outcome, GaveUp):
            plan = outcome.plans[0]
            log.warning("%s: offset %d: %s", self, plan.offsets[0], outcome.code.name)
            self._gave_up.append(outcome)
            ground.lateness.on_given_up(outcome.plans)
            self.taking.on_gave_up(outcome)

    def __str__(self) -> str:
        name = self._ground.name
        return f"{name.topic}-{name.partition}: forward"

    def knows_all(self) -> bool:
        """Return True once all is folded that the log and clients of this leader have said."""
        ground, leader = self._ground, self._ground.partition.leader
        known_up_to = max(self._lead.start, ground.partition.high_watermark, self._step_end)
        folded = ground.schedule.state.folded
        if leader is None or folded < known_up_to or not leader.is_high_watermark_settled:
            return False
        self.taking.taken = []
        self._changes.on_committed()
        self.refires.on_committed()
        if not self.is_sending:
            self.is_sending = True
            self._queue(ground.schedule.state.plans.values())
        return True

    async def write_next(self) -> None:
        """Write one step, if there is anything to write: changes and due records take turns.

        Call it only after `knows_all`.
        """
        if self._is_turn_of_changes and (
            (self._changes and self._change()) or (self.refires and await self._refire())
        ):
            self._is_turn_of_changes = False
            return
        self._is_turn_of_changes = True
        if await self._plan() or self.is_over:
            return
        if not (self._changes and self._change()) and self.refires:
            await self._refire()

    # Changes.

    def _change(self) -> bool:
        """Decide what was asked; return True if that is a step, which must commit now."""
        ground, state = self._ground, self._ground.schedule.state
        latest_ms = ground.runtime.wall_ms() + ground.partition.log.config.delay.max_ms
        limits = Limits(ground.partition.log_start_offset, state.folded, latest_ms)
        decided = self._changes.decide(state, limits)
        moved = tuple(Entry(due_ms, offset) for offset, due_ms in decided.moved.items())
        step = Step(cancelled=tuple(decided.cancelled), moved=moved)
        if step and not self._write(step):
            self._rest()
            return False
        self._changes.on_written(decided)
        ground.counts.cancelled += len(decided.cancelled)
        if step:
            ground.write_staged()
        else:
            self._changes.on_committed()
        return bool(step)

    async def _refire(self) -> bool:
        """Carry out a request to forward again; return True if that is a step."""
        ground, lead, asked = self._ground, self._lead, self.refires.next
        if self.lacks_id:
            return False
        found = await find_plans(ground.partition, asked, ground.schedule.state.plans.values())
        wanted = found and await wanted_again(
            found[0], ground.parked, self._outlook, ground.image()
        )
        if found is None or wanted is None or self.is_over:
            self._rest()
            return False
        if not self.refires or self.refires.next is not asked:
            return False  # Its client waits no more.
        outcome = found[1]
        if ground.partition.log.config.delay.paused:
            wanted, outcome = [], Refired(ErrorCode.POLICY_VIOLATION)
        elif wanted and not self.may_take:
            wanted, outcome = [], Refired(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        before = lead.mark()
        try:
            made = lead.plan(wanted, ground.runtime.wall_ms())
        except NeedsId:
            self._ask_for_id()
            return False
        if made and not self._write(Step(tuple(made))):
            lead.restore(before)
            self._rest()
            return False
        self.refires.on_written(outcome._replace(records=sum(len(it.offsets) for it in made)))
        if made:
            ground.write_staged()
        else:
            self.refires.on_committed()
            if self.refires:
                ground.wake()
        return bool(made)

    # Plans.

    async def _plan(self) -> bool:
        """Write a step about what is due and what targets have answered; return True if written."""
        ground, lead = self._ground, self._lead
        if self.lacks_id:
            return False
        found = await self.taking.read()
        if self.is_over or found is None:
            self.taking.give_back()
            self._rest()
            return False
        self._defer_replaced(found)
        outlook = self._outlook
        made = draft(self.taking.taken, found, outlook, ground.runtime.wall_ms())
        self.taking.shelve(made.waiting)
        ends = replace_in(made, self._gave_up, outlook, lead)
        is_quiet = not (made.wanted or made.dropped or made.expired or made.passed or ends)
        now_ms = ground.runtime.monotonic_ms()
        if is_quiet and not (self.ends and ground.pace.are_ends_due(now_ms)):
            return False
        before = lead.mark()
        try:
            planned_ms = self.taking.taken_ms if self.taking.taken else ground.runtime.wall_ms()
            plans = lead.plan(made.wanted, planned_ms)
        except NeedsId:
            self.taking.give_back()
            self._ask_for_id()
            return False
        over = (tuple(made.dropped), (*made.expired, *made.passed))
        if not self._write(Step(tuple(plans), (*self.ends, *ends), *over)):
            lead.restore(before)
            self.taking.give_back()
            self._rest()
            return False
        self.ends, self._gave_up = [], []
        ground.parked.deleted.clear()
        ground.lateness.on_planned(plans, self.taking.taken)
        planned = dict.fromkeys(offset for plan in plans for offset in plan.offsets)
        ground.parked.keep(record for offset, record in found.items() if offset in planned)
        ground.counts.cancelled += len(made.expired)
        if made.dropped:
            ground.counts.dropped += len(made.dropped)
            log.error("%s: %d records dropped: no target takes them", self, len(made.dropped))
        ground.write_staged()
        return True

    def _defer_replaced(self, found: Mapping[int, Record]) -> None:
        """Let records wait again that newer ones, not committed yet, may take the place of."""
        ground = self._ground
        rule = ground.partition.log.config.delay.rule
        if rule is None or not rule.replaces or not self.taking.taken:
            return
        ground.write_staged()
        behind = keys_behind(ground.partition, ground.schedule.state)
        deferred = [
            each for each in self.taking.taken if _may_be_replaced(found.get(each.offset), behind)
        ]
        self.taking.defer(deferred)

    @property
    def _outlook(self) -> Outlook:
        ground = self._ground
        config, start = ground.partition.log.config, ground.partition.log_start_offset
        moved = ground.schedule.state.moved
        deleted = ground.parked.deleted
        may_write = ground.may_write_as(config.delay.authorize)
        topic = ground.image().topic
        gates = self.taking.is_held, self.taking.most_bytes
        return Outlook(ground.name, config, topic, start, moved, may_write, deleted, *gates)

    def _queue(self, plans: Iterable[Plan]) -> None:
        for plan in plans:
            self.targets.add(plan)

    def _write(self, step: Step) -> bool:
        """Append a step, however large; return False if it cannot be appended now."""
        partition, wall_ms = self._ground.partition, self._ground.runtime.wall_ms()
        if refuse_own(partition):
            return False
        batch = memoryview(encode(step, wall_ms))
        appended = stage_own(partition, batch, BatchHeader(batch), wall_ms)
        self._step_end = appended.last_offset + 1
        return True

    def _rest(self) -> None:
        self._ground.pace.rest(self._ground.runtime.monotonic_ms())

    def _ask_for_id(self) -> None:
        """Get one more producer id; then the same step is tried again."""

        def taken(error: ErrorCode, producer_id: int) -> None:
            self.lacks_id = False
            if error:
                self._rest()
            else:
                self._lead.ids.append(producer_id)
            self._ground.wake()

        self.lacks_id = True
        self._ground.producer_ids.wait(taken)


def _tell(tracer: Tracer, source: Partition, ended: Ended) -> None:
    """Tell the tracer of the records that a target has got."""
    plan = ended.plan
    part = Forwarded(
        tracer.broker,
        plan.planned_ms,
        tracer.wall_ms(),
        plan.target.topic_id,
        plan.target.partition,
        NO_OFFSET,
        plan.kind.is_dead,
    )
    tracer.on_forwarded(source.key, plan.offsets, ended.base_offset, part)


def _may_be_replaced(record: Record | None, behind: Container[bytes] | None) -> bool:
    """True if a record's key is among those behind it, or if those are not known."""
    if record is None or record.key is None:
        return False
    return behind is None or short_key(record.key) in behind
