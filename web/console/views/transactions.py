"""Transactions: those that are open, and on each partition the one readers wait for. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ....client.admin.transaction_types import (
    ActiveProducer,
    TransactionDescription,
    TransactionListing,
)
from ....protocol.types import TopicPartition
from .pages import Page, page_of

OPEN = ("Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence")
LEVELS = {"Ongoing": "note", "PrepareCommit": "warn", "PrepareAbort": "warn"}
Producers = Mapping[TopicPartition, Sequence[ActiveProducer]]


@dataclass(frozen=True, slots=True)
class TransactionRow:
    """A transactional id."""

    transactional_id: str
    state: str
    producer_id: int
    coordinator_id: int
    open_ms: int | None
    """How long the transaction is open; None if none is."""
    timeout_ms: int | None
    partitions: tuple[TopicPartition, ...]

    @property
    def level(self) -> str:
        """How the state is coloured.

        A transaction that is ending, or open beyond its timeout, is a warning.
        """
        if self.open_ms is not None and self.timeout_ms and self.open_ms > self.timeout_ms:
            return "warn"
        return LEVELS.get(self.state, "")


@dataclass(frozen=True, slots=True)
class Pin:
    """A partition whose last stable offset is held back by an open transaction."""

    where: TopicPartition
    first_offset: int
    behind: int | None
    """Offsets before the log's end that readers of committed records cannot read yet."""
    producer_id: int
    transactional_id: str
    """The transactional id; empty if no coordinator knows the producer, so that nothing ends it."""
    last_ms: int
    """When the producer last wrote to the partition, ms since the epoch."""


@dataclass(frozen=True, slots=True)
class TransactionsView:
    """Transactions as they are shown."""

    page: Page[TransactionListing]
    rows: tuple[TransactionRow, ...]
    pins: tuple[Pin, ...]


def transactions_page(
    listed: Sequence[TransactionListing], query: str, number: int
) -> Page[TransactionListing]:
    """Return one page of the transactional ids, those with an open transaction first."""
    ordered = sorted(listed, key=lambda one: (one.state not in OPEN, one.transactional_id))
    return page_of(ordered, query, number, lambda one: one.transactional_id)


def pins_of(
    producers: Producers, ends: Mapping[TopicPartition, int], listed: Sequence[TransactionListing]
) -> tuple[Pin, ...]:
    """Find the earliest open transaction of each partition, which holds its readers back."""
    names = {one.producer_id: one.transactional_id for one in listed}
    pins = []
    for where, found in producers.items():
        starts = [
            (one.transaction_start_offset, one)
            for one in found
            if one.transaction_start_offset is not None
        ]
        if starts:
            first, one = min(starts, key=lambda each: each[0])
            behind = ends[where] - first if where in ends else None
            name = names.get(one.producer_id, "")
            pins.append(Pin(where, first, behind, one.producer_id, name, one.last_timestamp_ms))
    return tuple(sorted(pins, key=lambda pin: (-(pin.behind or 0), pin.where)))


def transactions_of(
    page: Page[TransactionListing],
    described: Mapping[str, TransactionDescription],
    pins: tuple[Pin, ...],
    now_ms: int,
) -> TransactionsView:
    """Return the view of a page of transactional ids, and of partitions that hold readers back."""

    def row(one: TransactionListing) -> TransactionRow:
        found = described.get(one.transactional_id)
        # The coordinator names the start of a finished transaction too.
        start = found.start_ms if found and found.state in OPEN else None
        return TransactionRow(
            one.transactional_id,
            found.state if found else one.state,
            one.producer_id,
            one.coordinator_id,
            None if start is None else max(now_ms - start, 0),
            found.timeout_ms if found else None,
            found.partitions if found else (),
        )

    return TransactionsView(page, tuple(map(row, page.rows)), pins)
