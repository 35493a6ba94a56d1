"""One source partition on this broker: a schedule on every replica, and planning if it leads.

A source has one task, which sleeps until its partition's high watermark or role changes, a target
answers, or a record is due. Nothing is polled.

    fold       every replica: up to the high watermark (`Schedule`)
    plan       the leader: one step at a time; its plans are sent once it is committed and folded
    end        answers of targets are written with the next step, or alone after a while
"""

import asyncio
import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ...protocol.control.image import MetadataImage
from ...protocol.errors import ErrorCode
from ...protocol.types import TopicPartition
from ...runtime.runtime import Runtime
from ..coordinator.producer_ids import ProducerIds
from ..deadlines import Deadline, Deadlines
from ..partition.partition import Partition
from .changing import Change, Done
from .due_index import DueIndex, Entry
from .lateness import Lateness
from .leading import Counts, Ground, Leading
from .pace import Pace, throttle_ms
from .parked import ParkedRecords
from .refiring import Refire, Refired
from .schedule import Schedule
from .steps import Step
from .targets import Outcome

MOST_UNDECIDED: Final = 1_000_000
"""The most records of open transactions in one source partition, of about 100 bytes each."""


@dataclass(frozen=True, slots=True)
class Room:
    """The parts of a broker that its sources share."""

    runtime: Runtime
    deadlines: Deadlines
    image: Callable[[], MetadataImage]
    producer_ids: ProducerIds
    write_staged: Callable[[], None]
    is_clock_ahead_by: Callable[[int], bool]
    """Returns True if this broker's wall clock is more than so many ms ahead; the Forwarder is told
    when to ask again."""
    may_write_as: Callable[[str], Callable[[str], bool]]
    """Returns a function that says to which topics a principal may write now; all may for ""."""
    send: Callable[["Source"], None]
    """Called with a source that may have something to send."""


class Source:
    """One source partition."""

    is_follower = False  # As a waiter of the partition: it is told of commits, not of appends.

    def __init__(self, room: Room, partition: Partition) -> None:
        self.partition = partition
        self.name = TopicPartition(partition.topic, partition.index)
        offload = room.runtime.offload
        self.parked = ParkedRecords(partition, self.name, offload)
        self.schedule = Schedule(partition, self._on_step, self._on_rewritten, offload)
        self.counts = Counts()
        self.lateness = Lateness()
        self.leading: Leading | None = None
        """The planning of this leader epoch; None if this broker does not lead."""
        self._room = room
        self._pace = Pace()
        self._woken = asyncio.Event()
        self._alarm: Deadline | None = None
        self._is_loaded = False
        segments = partition.log.segments
        segments.keep_from = lambda: self.schedule.state.low
        segments.finished = self.schedule
        partition.data_waiters.add(self)
        self._task = room.runtime.spawn(self._run(), f"forward {partition!r}")

    @property
    def pending(self) -> int:
        """The records that are not planned, or not yet by a step that is committed."""
        return self.schedule.state.waiting

    @property
    def next_due_ms(self) -> int | None:
        """When the first record is or was due that waits; None if none does."""
        times = [each.next_due_ms for each in self._indexes]
        return min((each for each in times if each is not None), default=None)

    def behind(self, entry: Entry) -> Iterator[Entry]:
        """Return the entries that wait and follow this one, in order; some may be over."""
        return heapq.merge(*(index.behind(entry) for index in self._indexes))

    @property
    def _indexes(self) -> list[DueIndex]:
        shelves = () if self.leading is None else self.leading.taking.shelves
        return [self.schedule.index, *shelves]

    # What wakes it.

    def on_data(self, partition: Partition | None = None) -> None:
        """Wake up, because the high watermark moved, or something else has changed."""
        self._woken.set()

    def note(self, partition: Partition) -> None:
        """Ignore the call, which matters only to fetches."""

    async def close(self, *, saves: bool = False) -> None:
        """End the task; what was sent and not answered is sent again by the next leader.

        If `saves`, the broker need not read everything again when it is started.
        """
        self.partition.data_waiters.remove(self)
        segments = self.partition.log.segments
        segments.keep_from = segments.finished = None
        self.partition.staging.is_full, self.partition.staging.throttle_ms = False, 0
        self._stop_leading()
        if self._alarm is not None:
            self._alarm.cancel()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        if saves and self._is_loaded:
            await self.schedule.save()

    def change(self, changes: Sequence[Change], done: Done) -> None:
        """Cancel records that wait, or change their times.

        `done` gets a code for each change, once the step is committed: OFFSET_OUT_OF_RANGE,
        INVALID_RECORD_STATE if the record is planned or over, INVALID_TIMESTAMP if the time is
        after `minikafka.delay.max.ms`, POLICY_VIOLATION if too many have other times.
        """
        if self.leading is None:
            done([ErrorCode.NOT_LEADER_OR_FOLLOWER] * len(changes))
        else:
            self.leading.change(changes, done)
            self._woken.set()

    def refire(self, request: Refire) -> None:
        """Forward records again that are forwarded already; the request is told of the outcome."""
        if self.leading is None:
            request.done(Refired(ErrorCode.NOT_LEADER_OR_FOLLOWER))
        else:
            self.leading.refires.ask(request)
            self._woken.set()

    def withdraw(self, request: Refire) -> None:
        """Do not carry out a request whose client waits no more."""
        if self.leading is not None:
            self.leading.refires.withdraw(request)

    def on_outcome(self, outcome: Outcome) -> None:
        """Note what has become of a plan."""
        if self.leading is not None:
            self.leading.on_outcome(outcome)
            self._woken.set()

    # The task.

    async def _run(self) -> None:
        await self.schedule.load()
        self._is_loaded = True
        while True:
            self._woken.clear()
            if not await self.schedule.fold():
                self._pace.rest(self._room.runtime.monotonic_ms())
            if self.schedule.is_save_due:
                await self._save()
            partition = self.partition
            undecided = self.schedule.state.undecided_count
            pending = self.pending + undecided
            most = partition.log.config.delay.pending_max
            partition.staging.is_full = pending >= most or undecided >= MOST_UNDECIDED
            partition.staging.throttle_ms = throttle_ms(pending, most)
            self._follow_role()
            self._count_deleted()
            leading, may_plan = self.leading, False
            if leading is not None and leading.knows_all():
                may_plan = True
                if not self._pace.is_resting(self._room.runtime.monotonic_ms()):
                    await leading.write_next()
            if leading is not None and leading.is_sending:
                self._room.send(self)
            self._set_alarm(may_plan=may_plan)
            await self._woken.wait()

    async def _save(self) -> None:
        if self.leading is None:
            await self.schedule.save()
        else:
            taking = self.leading.taking
            await self.schedule.save(taking.taken, taking.shelves)

    def _count_deleted(self) -> None:
        """Count as cancelled what was deleted while it waited; only the leader does."""
        deleted, self.schedule.deleted = self.schedule.deleted, 0
        if self.leading is not None:
            self.counts.cancelled += deleted

    def _follow_role(self) -> None:
        """Begin or end to lead, as the partition does."""
        partition = self.partition
        if self.leading is not None and (self.leading.is_over or partition.offline_because):
            self._stop_leading()
        if self.leading is None and partition.leader is not None and not partition.offline_because:
            room = self._room
            ground = Ground(
                runtime=room.runtime,
                image=room.image,
                producer_ids=room.producer_ids,
                write_staged=room.write_staged,
                is_clock_ahead_by=room.is_clock_ahead_by,
                may_write_as=room.may_write_as,
                wake=self._woken.set,
                partition=partition,
                name=self.name,
                schedule=self.schedule,
                parked=self.parked,
                pace=self._pace,
                counts=self.counts,
                lateness=self.lateness,
            )
            self.leading = Leading(ground)

    def _on_step(self, step: Step) -> None:
        if self.leading is not None:
            self.leading.on_step(step)

    def _on_rewritten(self) -> None:
        if self.leading is not None:
            self.leading.taking.forget()
        self._stop_leading()

    def _stop_leading(self) -> None:
        leading, self.leading = self.leading, None
        if leading is not None:
            leading.close()

    def _set_alarm(self, *, may_plan: bool) -> None:
        """Wake up when the next thing is to be done by the clock."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        leading, runtime = self.leading, self._room.runtime
        ready_ms = None if leading is None else leading.targets.next_ready_ms()
        times = [] if ready_ms is None else [ready_ms]
        due_in_ms, has_ends = None, False
        if leading is not None and may_plan and leading.is_step_folded and not leading.lacks_id:
            has_ends = bool(leading.ends)
            due_in_ms = leading.taking.next_in_ms() if leading.may_take else None
        next_ms = self._pace.next_ms(runtime.monotonic_ms(), due_in_ms, has_ends=has_ends)
        times.extend([] if next_ms is None else [next_ms])
        if times:
            self._alarm = self._room.deadlines.at(min(times), self.on_data)
