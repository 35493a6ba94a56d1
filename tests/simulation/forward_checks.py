"""Checks what Forwarders plan, send and write down (invariants 35 to 39), after each step.

The steps are taken as the replicas fold them. What is committed, and which records a replica holds,
is judged by high watermarks and disks. After an unclean election of the source some steps are
gone, so that only what holds for each producer id is checked then.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from minikafka.broker.forward.steps import DELIVERED_EARLIER, Plan, Step
from minikafka.broker.partition.partition import Partition
from minikafka.protocol.records.batch_header import CONTROL_BIT, headers
from minikafka.protocol.records.records import records
from minikafka.protocol.types import TopicIdPartition

from .cluster import Daemon
from .coverage import Coverage
from .inside import Batch, Outcome, Sent, folded_batches, partitions_of, rewritten_logs, sent_plans
from .loop import Process
from .truth import Truth, segments_of

if TYPE_CHECKING:
    from .invariants import Invariants


@dataclass(slots=True)
class Planned:
    """The plans of one source partition, as its log tells them, and the records that wait."""

    folded: int = 0
    """The end of the newest batch that any replica has folded."""
    committed: int = 0
    """The greatest high watermark of any replica."""
    steps: dict[int, Step] = field(default_factory=dict)
    """The steps by offset."""
    sent_from: dict[int, int] = field(default_factory=dict)
    """The offset behind the step of each plan, by its number."""
    open: dict[int, Plan] = field(default_factory=dict)
    """The plans that have not ended."""
    next: dict[tuple[int, TopicIdPartition], int] = field(default_factory=dict)
    """The sequence number after the last one, of each producer id and target partition."""
    named: dict[tuple[int, TopicIdPartition, int], None] = field(default_factory=dict)
    """The records that are planned under a producer id, for a target partition."""
    forwarded: dict[tuple[int, bytes], None] = field(default_factory=dict)
    """The records that a target topic has taken."""
    waiting: dict[int, None] = field(default_factory=dict)
    """The records that nothing has been decided about."""
    newest: dict[bytes, int] = field(default_factory=dict)
    """The newest record of each key, where it takes the place of older ones."""
    replaced: dict[int, None] = field(default_factory=dict)
    """Records that are over unless the transaction of a newer one aborts."""
    outcomes: dict[int, tuple[Outcome, int]] = field(default_factory=dict)
    """The state of the first replica that folded a step, and its log start, by the step's end."""


class ForwardChecks:
    """Follows the source partitions of a cluster."""

    def __init__(self, invariants: "Invariants", coverage: Coverage) -> None:
        self.senders: dict[int, list[str]] = {}
        """The brokers that have sent a plan, or a fence for it, each as often as it did."""
        self.may_repeat = False
        """True once somebody asks to forward records again."""
        self._invariants = invariants
        self._coverage = coverage
        self._planned: dict[TopicIdPartition, Planned] = {}

    def on_high_watermark(self, key: TopicIdPartition, offset: int) -> None:
        """Note what a replica knows to be committed."""
        known = self._planned.get(key)
        if known is not None and offset > known.committed:
            known.committed = offset

    def check(self, daemon: Daemon, process: Process) -> Iterator[str]:
        """Check what a broker has folded, sent and rewritten in its last step."""
        for batch in folded_batches(process):
            truth = self._invariants.truths.get(batch.partition.key)
            if truth is None or truth.is_deleted:
                continue
            known = self._planned.setdefault(batch.partition.key, Planned())
            self.on_high_watermark(batch.partition.key, batch.partition.high_watermark)
            where = f"{daemon.name} {truth.name}"
            yield from self._check_folded(where, truth, known, batch)
        for sent in sent_plans(process):
            yield from self._check_sent(daemon, sent)
        for key in rewritten_logs(process):
            truth, found = self._invariants.truths.get(key), self._planned.get(key)
            if truth is not None and found is not None:
                yield from self._check_kept(daemon, key, truth, found)

    def on_log_start(self, where: str, truth: Truth, replica: Partition) -> Iterator[str]:
        """Check, when a log start has moved, that nothing below it is needed (F5)."""
        known, start = self._planned.get(replica.key), replica.log_start_offset
        if known is None or truth.was_unclean or start <= truth.asked_start:
            return
        if not replica.log.config.is_source:
            return
        lowest = min(_needed(known), default=known.folded)
        if start > lowest:
            yield (
                f"invariant 36: {where}: the log begins at {start}, and offset {lowest} is not"
                " forwarded yet"
            )

    def _check_folded(
        self, where: str, truth: Truth, known: Planned, batch: Batch
    ) -> Iterator[str]:
        is_new = batch.base_offset >= known.folded
        known.folded = max(known.folded, batch.next_offset)
        if is_new:
            _note_records(known, batch)
        step = batch.step
        if step is None:
            return
        first = known.steps.setdefault(batch.base_offset, step)
        if first != step and not truth.was_unclean:
            yield f"invariant 39: {where}: the step at {batch.base_offset} is {step}, not {first}"
        elif first is step or first != step:
            known.steps[batch.base_offset] = step
            yield from self._check_step(where, truth, known, batch)
        if truth.was_unclean or truth.asked_start or batch.outcome is None:
            return
        here = (batch.outcome, batch.partition.log_start_offset)
        there = known.outcomes.setdefault(batch.next_offset, here)
        # A log that begins later, or was rewritten, lacks records that are over by now.
        start, needed = max(here[1], there[1]), dict.fromkeys(_waiting(known))
        told, other = (each[0].of(start, needed) for each in (here, there))
        if told != other:
            yield (
                f"invariant 39: {where}: folds up to {batch.next_offset} to {told}, another"
                f" replica to {other}"
            )

    def _check_step(self, where: str, truth: Truth, known: Planned, batch: Batch) -> Iterator[str]:
        """Check a step that no replica has folded before."""
        step = batch.step
        assert step is not None
        for end in step.ends:
            plan = known.open.pop(end.plan_id, None)
            if plan is None:
                if not truth.was_unclean:
                    yield f"invariant 35: {where}: {end} is of no open plan"
                continue
            if end.base_offset < DELIVERED_EARLIER:
                self._coverage.note("transition", "plan-given-up")
                continue
            for offset in plan.offsets:
                place = (offset, plan.target.topic_id)
                if place in known.forwarded and not truth.was_unclean and not self.may_repeat:
                    yield f"invariant 35: {where}: offset {offset} has ended twice: {_name(plan)}"
                known.forwarded[place] = None
        for plan in step.plans:
            yield from self._check_plan(where, truth, known, plan)
            known.open[plan.plan_id] = plan
            known.sent_from[plan.plan_id] = batch.next_offset
        for offset in (*step.dropped, *step.cancelled):
            known.waiting.pop(offset, None)

    def _check_plan(self, where: str, truth: Truth, known: Planned, plan: Plan) -> Iterator[str]:
        if plan.plan_id in known.sent_from and not truth.was_unclean:
            yield f"invariant 35: {where}: there are two plans {plan.plan_id}"
        queue = (plan.producer_id, plan.target)
        expected = known.next.get(queue, 0)
        if plan.base_sequence != expected:
            yield f"invariant 38: {where}: {_name(plan)} has not the sequence number {expected}"
        known.next[queue] = plan.last_sequence + 1
        topic_id, named = plan.target.topic_id, _name(plan)
        busy = {
            offset: _name(each)
            for each in known.open.values()
            if each.target.topic_id == topic_id
            for offset in each.offsets
        }
        for offset in plan.offsets:
            name = (plan.producer_id, plan.target, offset)
            if name in known.named and not self.may_repeat:
                yield f"invariant 35: {where}: {named} names offset {offset} under its id again"
            known.named[name] = None
            known.waiting.pop(offset, None)
            if truth.was_unclean:
                continue
            if offset in busy:
                other = busy[offset]
                yield f"invariant 35: {where}: {named} names offset {offset}, as {other} does"
            if (offset, topic_id) in known.forwarded and not self.may_repeat:
                yield f"invariant 35: {where}: {named} names offset {offset}, which is forwarded"

    def _check_sent(self, daemon: Daemon, sent: Sent) -> Iterator[str]:
        self.senders.setdefault(sent.plan.plan_id, []).append(daemon.name)
        known = self._planned.get(sent.partition.key)
        truth = self._invariants.truths.get(sent.partition.key)
        if truth is None or truth.is_deleted:
            return
        behind = None if known is None else known.sent_from.get(sent.plan.plan_id)
        if known is None or behind is None or behind > known.committed:
            where = f"{daemon.name} {truth.name}"
            yield f"invariant 37: {where}: {_name(sent.plan)} is sent, and not committed"

    def _check_kept(
        self, daemon: Daemon, key: TopicIdPartition, truth: Truth, known: Planned
    ) -> Iterator[str]:
        """Check a log that was rewritten: what waits or is planned is on the disk (F5)."""
        held = dict.fromkeys(_held(daemon, key, truth.name))
        assert daemon.process is not None
        replica = partitions_of(daemon.process).get(key)
        if replica is None or truth.was_unclean:
            return
        start, end = replica.log_start_offset, replica.high_watermark
        for offset in _needed(known):
            if start <= offset < end and offset not in held:
                yield (
                    f"invariant 36: {daemon.name} {truth.name}: offset {offset}, which is not"
                    " forwarded yet, was taken out of the log"
                )


def _name(plan: Plan) -> str:
    place = f"{plan.producer_id} from {plan.base_sequence} on, for {plan.target}"
    return f"plan {plan.plan_id} (producer {place})"


def _note_records(known: Planned, batch: Batch) -> None:
    for record in batch.keyed:
        assert record.key is not None
        before = known.newest.get(record.key, -1)
        known.newest[record.key] = record.offset
        known.replaced[before] = None
        if record.value is None:
            known.replaced[record.offset] = None
    known.waiting.update(dict.fromkeys(batch.waiting))


def _waiting(known: Planned) -> Iterator[int]:
    return (offset for offset in known.waiting if offset not in known.replaced)


def _needed(known: Planned) -> Iterator[int]:
    """Yield the offsets of the records that wait, or are in a plan that has not ended."""
    yield from _waiting(known)
    for plan in known.open.values():
        yield from plan.offsets


def _held(daemon: Daemon, key: TopicIdPartition, name: str) -> Iterable[int]:
    """Yield the offsets of all records in a replica's log on disk."""
    for data in segments_of(daemon, key, name):
        for position, header in headers(data):
            if not header.attributes & CONTROL_BIT:
                for record in records(data, position):
                    yield record.offset
