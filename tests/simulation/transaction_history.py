"""The transactions of a run: their records, their outcomes, and what readers may see of them.

Pure. With read_committed, a transaction is visible as a whole or not at all. It must be visible if
its producer knows that it was committed, and must not be if the producer knows that it was aborted.
If the producer never learnt the outcome, either is right.
"""

import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum

from minikafka.protocol.errors import ErrorCode

from .history import Partition, name

NEVER_TOLD = (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.INVALID_TXN_STATE)
LEDGER = "ledger"
PIPED = "piped"


class Outcome(Enum):
    """The outcome as the producer knows it."""

    UNKNOWN = "unknown"
    COMMITTED = "committed"
    ABORTED = "aborted"


@dataclass(slots=True)
class Transaction:
    """One transaction of one producer."""

    name: str
    records: list[tuple[Partition, bytes]] = field(default_factory=list)
    outcome: Outcome = Outcome.UNKNOWN


@dataclass(slots=True)
class TransactionHistory:
    """All transactions in the order in which they began, and the records read in the end."""

    begun: list[Transaction] = field(default_factory=list)
    polled: dict[str, list[tuple[Partition, int, bytes]]] = field(default_factory=dict)
    """The committed records that each reader read while faults happened."""
    final: dict[Partition, list[tuple[int, bytes]]] = field(default_factory=dict)
    piped_to: dict[Partition, int] = field(default_factory=dict)
    """The offsets of the ledger that the pipes have committed."""
    refused: list[tuple[Partition, str, ErrorCode]] = field(default_factory=list)
    """The batches that leaders refused for good: the partition, the transaction and the error."""
    batches: dict[int, list[Transaction]] = field(default_factory=dict)
    """Every attempt at each batch of the commit group."""
    recorded: int = -1
    """The newest batch that a client knows to be recorded."""

    def begin(self, name: str) -> Transaction:
        """Begin a transaction."""
        transaction = Transaction(name)
        self.begun.append(transaction)
        return transaction

    def begin_batch(self, batch: int, name: str) -> Transaction:
        """Begin a new attempt at a batch of the commit group."""
        transaction = self.begin(name)
        self.batches.setdefault(batch, []).append(transaction)
        return transaction

    def note_recorded(self, batch: int) -> None:
        """Note that a client was told that this batch is recorded."""
        self.recorded = max(self.recorded, batch)

    def count(self, outcome: Outcome) -> int:
        return sum(each.outcome is outcome for each in self.begun)

    def check(self, lossy: dict[Partition, None]) -> list[str]:
        """Return every contradiction as a sentence."""
        return [
            *self._check_refused(lossy),
            *self._check_visible(lossy),
            *self._check_order(lossy),
            *self._check_polled(lossy),
            *self._check_piped(lossy),
            *self._check_batches(lossy),
        ]

    def _check_refused(self, lossy: dict[Partition, None]) -> Iterator[str]:
        """Check that no batch was refused with an error that a correct producer never gets.

        A producer sends in order. If OUT_OF_ORDER_SEQUENCE_NUMBER comes although all earlier
        batches are acknowledged, a leader has accepted a batch too early, or has lost earlier ones.
        """
        for place, transaction, error in self.refused:
            if error in NEVER_TOLD and place not in lossy:
                where = f"transaction {transaction} in {name(place)}"
                yield f"refused: a batch of {where}: {error.name}"

    def _check_batches(self, lossy: dict[Partition, None]) -> Iterator[str]:
        """Check that one attempt at each batch is visible, and that no batch is missing."""
        if any(topic == LEDGER for topic, _ in lossy):
            return
        seen = {(place, value): None for place, found in self.final.items() for _, value in found}
        for batch, attempts in self.batches.items():
            visible = [
                each.name for each in attempts if any(record in seen for record in each.records)
            ]
            # An attempt without records may have counted, and cannot be seen.
            may_be_empty = any(not each.records for each in attempts)
            if len(visible) > 1:
                yield f"duplicate: batch {batch} is visible as {' and '.join(visible)}"
            if not visible and not may_be_empty and batch <= self.recorded:
                yield f"lost: batch {batch} is recorded, and no attempt at it is visible"
        for batch in range(self.recorded + 1):
            if batch not in self.batches:
                yield f"invented: batch {batch} is recorded, and nobody has tried it"

    def _check_piped(self, lossy: dict[Partition, None]) -> Iterator[str]:
        """Check that each ledger record below the committed offsets was copied exactly once."""
        for (topic, index), records in self.final.items():
            if topic != PIPED or (LEDGER, index) in lossy or (PIPED, index) in lossy:
                continue
            end = self.piped_to.get((LEDGER, index), 0)
            due = Counter(v for offset, v in self.final[LEDGER, index] if offset < end)
            got = Counter(value for _, value in records)
            for value in due - got:
                yield f"lost: {value.decode()} was not piped, and {end} is committed"
            for value in got - due:
                yield f"duplicate: {value.decode()} was piped {got[value]} times"

    def _check_visible(self, lossy: dict[Partition, None]) -> Iterator[str]:
        seen = Counter(
            (partition, value)
            for partition, found in self.final.items()
            if partition[0] == LEDGER
            for _, value in found
        )
        known = {(place, value): None for each in self.begun for place, value in each.records}
        for place, value in seen:
            if (place, value) not in known:
                yield f"invented: {value!r} is visible in {name(place)}"
        for each in self.begun:
            records = [(place, value) for place, value in each.records if place not in lossy]
            visible = sum(bool(seen[record]) for record in records)
            for place, value in records:
                if seen[place, value] > 1:
                    yield f"duplicate: {value.decode()} is visible twice in {name(place)}"
            what = f"transaction {each.name}, {each.outcome.value}: {visible} of {len(records)}"
            if each.outcome is Outcome.COMMITTED and visible < len(records):
                yield f"lost: {what} visible"
            elif each.outcome is Outcome.ABORTED and visible:
                yield f"aborted read: {what} visible"
            elif 0 < visible < len(records):
                yield f"torn: {what} visible"

    def _check_order(self, lossy: dict[Partition, None]) -> Iterator[str]:
        order = {
            (place, value): at
            for at, (place, value) in enumerate(
                record for each in self.begun for record in each.records
            )
        }
        for place, found in self.final.items():
            if place[0] != LEDGER:
                continue
            mine: dict[bytes, int] = {}
            for offset, value in found:
                producer = value.split(b":")[0]
                at = order.get((place, value), -1)
                if at < mine.get(producer, -1) and place not in lossy:
                    yield f"reordered: {value.decode()} at {name(place)} offset {offset}"
                mine[producer] = at

    def _check_polled(self, lossy: dict[Partition, None]) -> Iterator[str]:
        for reader, polled in self.polled.items():
            by_place: dict[Partition, list[tuple[int, bytes]]] = {}
            for place, offset, value in polled:
                by_place.setdefault(place, []).append((offset, value))
            for place, read in by_place.items():
                if place in lossy:
                    continue
                first, last = read[0][0], read[-1][0]
                there = [each for each in self.final[place] if first <= each[0] <= last]
                for got, due in itertools.zip_longest(read, there):
                    if got != due:
                        yield f"{reader} at {name(place)}: read {got}, committed is {due}"
                        break
