"""One source partition on this broker: folds its log, and if this broker leads it, plans and ends.

A source has one task, which sleeps until its partition's high watermark or role changes, a target
answers, or a record is due. Nothing is polled. `SourceState`, `Lead` and `Targets` decide; the
source reads, appends and tells the Forwarder what can be sent.

    fold       every replica: up to the high watermark
    plan       the leader: one step at a time; its plans are sent once it is committed and folded
    end        answers of targets are written with the next step, or alone after QUIET_MS
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from ...protocol.control.image import MetadataImage
from ...protocol.errors import ErrorCode
from ...protocol.records.records import Record
from ...protocol.types import TopicPartition
from ...runtime.runtime import Runtime
from ..coordinator.producer_ids import ProducerIds
from ..deadlines import Deadline, Deadlines
from ..partition.own_batches import append_own
from ..partition.partition import Partition
from .drafting import Outlook, draft, replace_in
from .due_index import Entry
from .lead import Lead, NeedsId
from .pace import Pace
from .parked import ParkedRecords, TooMuch
from .schedule import Schedule
from .steps import MOST_PLANNED, End, Kind, Plan, Step, encode
from .targets import Ended, GaveUp, Outcome, Targets

READ_BYTES: Final = 4 << 20
"""About the most bytes of the records of one step, unless one record is larger."""
MOST_PLANS: Final = 100_000
"""The most plans that have not ended, of one source partition; then nothing more is planned."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Room:
    """The parts of a broker that its sources share."""

    runtime: Runtime
    deadlines: Deadlines
    image: Callable[[], MetadataImage]
    producer_ids: ProducerIds
    write_staged: Callable[[], None]
    send: Callable[["Source"], None]
    """Called with a source that may have something to send."""


@dataclass(slots=True)
class Counts:
    """The records that one source has forwarded or dropped since it began."""

    forwarded: int = 0
    """Records that targets have taken."""
    dead_letters: int = 0
    dropped: int = 0
    """Records that nobody could take."""


class Source:
    """One source partition."""

    is_follower = False  # As a waiter of the partition: it is told of commits, not of appends.

    def __init__(self, room: Room, partition: Partition) -> None:
        self.partition = partition
        self.name = TopicPartition(partition.topic, partition.index)
        self.parked = ParkedRecords(partition, self.name)
        self.schedule = Schedule(partition, self._on_step, self._on_rewritten)
        self.lead: Lead | None = None
        """The decisions of this leader epoch; None if this broker does not lead."""
        self.targets = Targets()
        self.counts = Counts()
        self._room = room
        self._is_sending = False
        """True once the plans of earlier leaders are queued."""
        self._step_end = 0
        """The offset behind the step that is not folded yet."""
        self._taken: list[Entry] = []
        """The records of that step, or of the one that is being made."""
        self._most = MOST_PLANNED
        """The most records of a step, fewer while records are large."""
        self._ends: list[End] = []
        self._gave_up: list[GaveUp] = []
        self._pace = Pace()
        self._woken = asyncio.Event()
        self._alarm: Deadline | None = None
        partition.log.segments.keep_from = lambda: self.schedule.state.low
        partition.data_waiters.add(self)
        self._task = room.runtime.spawn(self._run(), f"forward {partition!r}")

    @property
    def pending(self) -> int:
        """The records that are not planned, or not yet by a step that is committed."""
        return len(self.schedule.index) + len(self._taken)

    # What wakes it.

    def on_data(self, partition: Partition | None = None) -> None:
        """Wake up, because the high watermark moved, or something else has changed."""
        self._woken.set()

    def note(self, partition: Partition) -> None:
        """Ignore the call, which matters only to fetches."""

    async def close(self) -> None:
        """End the task; what was sent and not answered is sent again by the next leader."""
        self.partition.data_waiters.remove(self)
        self.partition.log.segments.keep_from = None
        self.partition.staging.is_full = False
        self.lead = None
        if self._alarm is not None:
            self._alarm.cancel()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    def on_outcome(self, outcome: Outcome) -> None:
        """Note what has become of a plan."""
        if isinstance(outcome, Ended):
            self._ends.append(End(outcome.plan.plan_id, outcome.base_offset))
            if outcome.plan.kind is Kind.DEAD_LETTER:
                self.counts.dead_letters += len(outcome.plan.offsets)
            else:
                self.counts.forwarded += len(outcome.plan.offsets)
            if len(self._ends) == 1:
                self._pace.on_first_end(self._room.runtime.monotonic_ms())
        else:
            self.parked.forget()
        if isinstance(outcome, GaveUp):
            plan = outcome.plans[0]
            log.warning("%s: offset %d: %s", self, plan.offsets[0], outcome.code.name)
            self._gave_up.append(outcome)
        self._woken.set()

    def __str__(self) -> str:
        return f"{self.name.topic}-{self.name.partition}: forward"

    # The task.

    async def _run(self) -> None:
        while True:
            self._woken.clear()
            if not await self.schedule.fold():
                self._rest()
            partition = self.partition
            partition.staging.is_full = self.pending >= partition.log.config.delay.pending_max
            may_plan = self._may_plan()
            now_ms = self._room.runtime.monotonic_ms()
            if may_plan and not self._pace.is_resting(now_ms):
                await self._plan()
            if self._is_sending:
                self._room.send(self)
            self._set_alarm(may_plan=may_plan)
            await self._woken.wait()

    def _on_step(self, step: Step) -> None:
        if self._is_sending:
            self._queue(step.plans)

    def _on_rewritten(self) -> None:
        self._taken = []
        self._stop_leading()

    # Leading.

    def _may_plan(self) -> bool:
        """True if this broker leads, and knows all that its log and its clients have said."""
        partition, lead = self.partition, self.lead
        leader = partition.leader
        if leader is None or partition.offline_because:
            self._stop_leading()
            return False
        if lead is None or lead.epoch != partition.leader_epoch:
            self._stop_leading()
            lead = self.lead = Lead(partition.leader_epoch, partition.log_end_offset)
        known_up_to = max(lead.start, partition.high_watermark, self._step_end)
        if self.schedule.state.folded < known_up_to or not leader.is_high_watermark_settled:
            return False
        self._taken = []
        if not self._is_sending:
            self._is_sending = True
            self._queue(self.schedule.state.plans.values())
        return True

    def _stop_leading(self) -> None:
        """Forget what this leader has decided and not written; the next one decides anew."""
        if self.lead is None:
            return
        self.lead, self._is_sending, self.targets = None, False, Targets()
        self.parked.forget()
        # The step of these records may be lost, or be folded later, which settles them.
        self._give_back()
        self._step_end = 0
        self._ends, self._gave_up = [], []

    def _queue(self, plans: Iterable[Plan]) -> None:
        for plan in plans:
            self.targets.add(plan)

    async def _plan(self) -> None:
        """Write the next step, if there is anything to write."""
        lead, runtime = self.lead, self._room.runtime
        assert lead is not None
        found = await self._read_due()
        if lead.epoch != self.partition.leader_epoch or found is None:
            self._give_back()
            self._rest()
            return
        outlook = self._outlook
        made = draft(self._taken, found, outlook, runtime.wall_ms())
        self._await_target(made.waiting)
        ends = replace_in(made, self._gave_up, outlook, lead)
        is_quiet = not (made.wanted or made.dropped or ends)
        are_ends_due = self._ends and self._pace.are_ends_due(runtime.monotonic_ms())
        if is_quiet and not are_ends_due:
            return
        before = lead.mark()
        try:
            plans = lead.plan(made.wanted, runtime.wall_ms())
        except NeedsId:
            self._give_back()
            self._ask_for_id(lead)
            return
        step = Step(tuple(plans), (*self._ends, *ends), tuple(made.dropped))
        if not self._write(step):
            lead.restore(before)
            self._give_back()
            self._rest()
            return
        self._ends, self._gave_up = [], []
        self.parked.keep(found.values())
        if made.dropped:
            self.counts.dropped += len(made.dropped)
            log.error("%s: %d records dropped: no target takes them", self, len(made.dropped))
        self._room.write_staged()

    async def _read_due(self) -> dict[int, Record] | None:
        """Take the records to plan now from the index, and read them; None if reading fails."""
        if not self._pace.may_take(self._room.runtime.monotonic_ms()):
            return {}
        while True:
            self._take_due()
            count = len(self._taken)
            try:
                found = await self.parked.read((each.offset for each in self._taken), READ_BYTES)
            except TooMuch:
                self._most = max(1, count // 2)
                self._give_back()
                continue
            self._pace.on_taken(count, self._most, self._room.runtime.monotonic_ms())
            if count == self._most:
                self._most = min(2 * count, MOST_PLANNED)
            return found

    def _take_due(self) -> None:
        settled = self.schedule.state.settled
        while self._takes_due and not self._taken:
            taken = self.schedule.index.take(self._room.runtime.wall_ms(), self._most)
            self._taken = [entry for entry in taken if entry.offset not in settled]
            if not taken:
                break

    def _give_back(self) -> None:
        """Let the records wait again that were taken from the index."""
        self.schedule.index.add(self._taken)
        self._taken = []

    @property
    def _takes_due(self) -> bool:
        is_paused = self.partition.log.config.delay.paused
        return not is_paused and len(self.schedule.state.plans) < MOST_PLANS

    @property
    def _outlook(self) -> Outlook:
        config, start = self.partition.log.config.delay, self.partition.log_start_offset
        return Outlook(self.name, config, self._room.image().topic, start)

    def _write(self, step: Step) -> bool:
        """Append a step; return False if it cannot be appended now."""
        wall_ms = self._room.runtime.wall_ms()
        appended = append_own(self.partition, encode(step, wall_ms), wall_ms)
        if appended.error:
            return False
        self._step_end = appended.last_offset + 1
        return True

    def _await_target(self, waiting: list[Entry]) -> None:
        """Let records wait again whose target is not there."""
        if waiting:
            self.schedule.index.add(waiting)
            kept = dict.fromkeys(waiting)
            self._taken = [each for each in self._taken if each not in kept]
            self._rest()

    def _ask_for_id(self, lead: Lead) -> None:
        """Get one more producer id; then the same step is tried again."""

        def taken(error: ErrorCode, producer_id: int) -> None:
            if error:
                self._rest()
            else:
                lead.ids.append(producer_id)
            self._woken.set()

        self._room.producer_ids.wait(taken)

    # Time.

    def _rest(self) -> None:
        self._pace.rest(self._room.runtime.monotonic_ms())

    def _set_alarm(self, *, may_plan: bool) -> None:
        """Wake up when the next thing is to be done by the clock."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        ready_ms = self.targets.next_ready_ms()
        times = [] if ready_ms is None else [ready_ms]
        runtime, due_in_ms, has_ends = self._room.runtime, None, False
        if may_plan and self.schedule.state.folded >= self._step_end:
            due_ms, has_ends = self.schedule.index.next_due_ms, bool(self._ends)
            if due_ms is not None and self._takes_due:
                due_in_ms = due_ms - runtime.wall_ms()
        next_ms = self._pace.next_ms(runtime.monotonic_ms(), due_in_ms, has_ends=has_ends)
        times.extend([] if next_ms is None else [next_ms])
        if times:
            self._alarm = self._room.deadlines.at(min(times), self.on_data)
