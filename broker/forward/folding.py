"""Folds the log of a source partition: the records that wait, are planned, or are over.

Pure. Every replica folds its own log, batch by batch in the order of offsets, strictly below the
high watermark. The result follows from these batches alone, so that all replicas agree.

    a record      waits (an Entry for the index), of a transaction: once that has committed; with
                  replace=key an older one of its key is over then
    a marker      the records of its transaction wait, or are over if it aborts
    a step        plans begin and end, records are planned, dropped, cancelled or get other times
    anything else is over

A record is `settled` once a plan names it or it will never be planned, and every offset without a
record is.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeVar

from ...protocol.delays import DelayRule
from ...protocol.errors import RemoteProtocolError
from ...protocol.records.batch_header import CONTROL_BIT, TRANSACTIONAL_BIT, BatchHeader
from ...protocol.records.records import Record, parse_end_transaction_marker
from ...storage.leader_epochs import LeaderEpochs
from ...storage.offset_set import OffsetSet
from .due_index import Entry
from .steps import Plan, Step, decode

MOST_CANCELLED: Final = 1_000
PRUNE_FROM: Final = 10_000
"""The number of known keys from which on those are dropped whose record does not wait."""
_KEY_BYTES: Final = 16
OnUnread = Callable[[int, RemoteProtocolError], None]
"""Called with the offset of a step that cannot be read, and why; it is passed over."""


@dataclass(slots=True)
class Folded:
    """The change that one batch makes."""

    entries: list[Entry] = field(default_factory=list)
    """The records that wait from now on."""
    step: Step | None = None


class Keyed(NamedTuple):
    """One record of a key, in a topic with replace=key."""

    offset: int
    key: bytes
    cancels: bool
    """True if it has no value: it only takes the place of another one."""


E = TypeVar("E", Entry, Keyed)


def short_key(key: bytes) -> bytes:
    """Return the key, or 16 bytes that stand for a longer one."""
    return key if len(key) < _KEY_BYTES else hashlib.blake2b(key, digest_size=_KEY_BYTES).digest()


class SourceState:
    """The fold of one source partition's log, from `start` on."""

    def __init__(self, start: int = 0) -> None:
        self.folded = start
        """The offset of the next batch to fold."""
        self.epoch = -1
        """The leader epoch of the last batch that was folded."""
        self.settled = OffsetSet(start)
        self.plans: dict[int, Plan] = {}
        """The plans that have not ended, in the order in which they were written."""
        self.moved: dict[int, int] = {}
        """The times in ms of records whose times were changed, by offset."""
        self.cancelled: dict[int, None] = {}
        """The offsets that were cancelled last, so that a repeated request is answered alike."""
        self.undecided: dict[int, list[Entry]] = {}
        """The records of transactions that are open, by producer id."""
        self.undecided_keyed: dict[int, list[Keyed]] = {}
        self.newest: dict[bytes, int] = {}
        """With replace=key, the newest record of each short key that may wait."""
        self.prune_at = PRUNE_FROM

    @property
    def low(self) -> int:
        """The lowest offset that may still be needed: what is below it may be deleted."""
        planned = min((min(plan.offsets) for plan in self.plans.values()), default=self.folded)
        return min(self.settled.lowest, planned, self.folded)

    @property
    def undecided_count(self) -> int:
        """The records of open transactions."""
        return sum(map(len, self.undecided.values()))

    @property
    def waiting(self) -> int:
        """The records that are not settled, those of open transactions left out."""
        return max(self.settled.missing(self.folded) - self.undecided_count, 0)

    def finished(self, start: int, end: int) -> OffsetSet:
        """Return the offsets that nobody needs any more: they are settled, and in no open plan."""
        planned = [
            offset
            for plan in self.plans.values()
            for offset in plan.offsets
            if start <= offset < end
        ]
        return self.settled.part(start, end, planned)

    def is_over(self, entry: Entry) -> bool:
        """True if an entry of the index is planned, or never will be, or has another time now."""
        due_ms, offset = entry
        return offset in self.settled or self.moved.get(offset, due_ms) != due_ms

    def is_part_of(self, log_start: int, log_end: int, epochs: LeaderEpochs) -> bool:
        """True if the log still has what was folded, but for what is deleted from its start.

        Only an unclean election removes what was committed. The last batch then has another epoch.
        """
        if self.epoch < 0 or self.folded <= log_start:
            return True
        return self.folded <= log_end and epochs.epoch_for(self.folded - 1) == self.epoch

    def skip_to(self, offset: int) -> int:
        """Count everything below `offset` as over, because the log begins there.

        Return how many records have waited there.
        """
        first, last = self.settled.lowest, min(offset, self.folded)
        waited = max(0, last - first) - self.settled.count(first, max(first, last))
        if offset > self.settled.lowest and self.moved:
            self.moved = {each: due for each, due in self.moved.items() if each >= offset}
        self.settled.rise_to(offset)
        if offset > self.folded:
            # How these plans and transactions ended was written among what is deleted.
            gone = [key for key, plan in self.plans.items() if max(plan.offsets) < offset]
            for key in gone:
                del self.plans[key]
            self.undecided = _from(self.undecided, offset)
            self.undecided_keyed = _from(self.undecided_keyed, offset)
            # The epoch of what was deleted is forgotten.
            self.folded, self.epoch = offset, -1
        return waited

    def pass_gap(self, end: int) -> None:
        """Fold a gap up to `end`: what was there is over, and was taken out of the log."""
        self.settled.add_range(self.folded, end)
        self.folded = max(end, self.folded)

    def fold(
        self, header: BatchHeader, found: list[Record], rule: DelayRule, on_unread: OnUnread
    ) -> Folded:
        """Fold one batch with its records; the batch must not be below `folded`."""
        self.pass_gap(header.base_offset)
        changed = Folded()
        present: Iterable[int] = ()
        if header.attributes & CONTROL_BIT:
            self._fold_control(header, found, changed, on_unread)
        else:
            entries = [
                Entry(rule.due_or_at_once(record.timestamp, record.headers), record.offset)
                for record in found
                if record.offset >= self.folded
            ]
            present = [entry.offset for entry in entries]
            keyed = self._keyed(found) if rule.replaces else []
            if header.attributes & TRANSACTIONAL_BIT:
                self.undecided.setdefault(header.producer_id, []).extend(entries)
                if keyed:
                    self.undecided_keyed.setdefault(header.producer_id, []).extend(keyed)
            else:
                changed.entries = entries
                self._replace(keyed)
        self._settle_others(header, present)
        self.folded, self.epoch = header.next_offset, header.leader_epoch
        return changed

    def _settle_others(self, header: BatchHeader, present: Iterable[int]) -> None:
        """Settle the offsets up to the batch's end that hold no record of it."""
        if self.settled.lowest == self.folded and not present:
            self.settled.rise_to(header.next_offset)
            return
        others = dict.fromkeys(range(self.folded, header.next_offset))
        for offset in present:
            others.pop(offset, None)
        self.settled.add_all(others)

    def _fold_control(
        self, header: BatchHeader, found: list[Record], changed: Folded, on_unread: OnUnread
    ) -> None:
        for record in found:
            try:
                if header.producer_id >= 0:
                    marker = parse_end_transaction_marker(record.key, record.value)
                    if marker is not None:
                        changed.entries = self._decide(header.producer_id, is_commit=marker.commit)
                    continue
                step = decode(record.key, record.value)
            except RemoteProtocolError as error:
                on_unread(record.offset, error)
                continue
            if step is not None:
                self._apply(step)
                changed.step, changed.entries = step, self._committed(step.moved)

    def _decide(self, producer_id: int, *, is_commit: bool) -> list[Entry]:
        entries = self.undecided.pop(producer_id, [])
        keyed = self.undecided_keyed.pop(producer_id, [])
        if is_commit:
            self._replace(keyed)
            moved = self.moved
            return [Entry(moved.get(offset, due_ms), offset) for due_ms, offset in entries]
        self._settle([entry.offset for entry in entries])
        return []

    def _committed(self, moved: Sequence[Entry]) -> list[Entry]:
        """Return the entries that are in no open transaction."""
        if not moved or not self.undecided:
            return [*moved]
        undecided = {entry.offset for entries in self.undecided.values() for entry in entries}
        return [entry for entry in moved if entry.offset not in undecided]

    def undecided_keys(self, producer_id: int) -> Iterable[bytes]:
        """Return the short keys of records in a producer's open transaction."""
        return [each.key for each in self.undecided_keyed.get(producer_id, ())]

    def _keyed(self, found: Iterable[Record]) -> list[Keyed]:
        return [
            Keyed(record.offset, short_key(record.key), record.value is None)
            for record in found
            if record.key is not None and record.offset >= self.folded
        ]

    def _replace(self, keyed: Iterable[Keyed]) -> None:
        """Settle the records that newer ones of their keys take the place of."""
        for each in keyed:
            before = self.newest.get(each.key, -1)
            if before > each.offset:
                self._settle((each.offset,))
                continue
            if before >= 0:
                self._settle((before,))
            if each.cancels:
                self._settle((each.offset,))
            self.newest[each.key] = each.offset
        if len(self.newest) >= self.prune_at:
            self._prune()

    def _prune(self) -> None:
        """Forget the keys that no record can meet: theirs is over, and none before it is open.

        So forgetting changes nothing, and replicas that forget at other times agree.
        """
        found = self.undecided_keyed.values()
        oldest = min((each[0].offset for each in found), default=self.folded)
        kept = {
            key: offset
            for key, offset in self.newest.items()
            if offset > oldest or offset not in self.settled
        }
        self.newest, self.prune_at = kept, max(PRUNE_FROM, 2 * len(kept))

    def _apply(self, step: Step) -> None:
        for end in step.ends:
            self.plans.pop(end.plan_id, None)
        for plan in step.plans:
            self.plans[plan.plan_id] = plan
            self._settle(plan.offsets)
        self._settle(step.dropped)
        if step.cancelled:
            self._settle(step.cancelled)
            self.cancelled.update(dict.fromkeys(step.cancelled))
            for oldest in [*self.cancelled][:-MOST_CANCELLED]:
                del self.cancelled[oldest]
        for due_ms, offset in step.moved:
            # A record that is not in a rewritten log was over, perhaps without any step.
            if offset not in self.settled:
                self.moved[offset] = due_ms

    def _settle(self, offsets: Iterable[int]) -> None:
        self.settled.add_all(offsets)
        if self.moved:
            for offset in offsets:
                self.moved.pop(offset, None)


def _from(undecided: Mapping[int, list[E]], offset: int) -> dict[int, list[E]]:
    """Return the records of open transactions from an offset on."""
    kept = {
        producer_id: [each for each in entries if each.offset >= offset]
        for producer_id, entries in undecided.items()
    }
    return {producer_id: entries for producer_id, entries in kept.items() if entries}
