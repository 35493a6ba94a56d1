"""Groups: their members, their lag, and the offsets that a reset would give them. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from typing import Final, NamedTuple

from ....client.admin.group_types import GroupDescription, GroupListing, GroupMember
from ....client.admin.lag_types import PartitionLag
from ....client.cli.offset_resets import Bounds, Scenario, new_offset
from ....protocol.errors import ApiError
from ....protocol.types import TopicPartition
from .pages import Page, page_of

Lags = Mapping[TopicPartition, PartitionLag | ApiError]
SHARE: Final = "share"
MOST_OFFSETS: Final = 200
MOST_MEMBERS: Final = 200
STATES = {"Stable": "good", "Empty": "", "Dead": "bad"}


class Lag(NamedTuple):
    """Records left to read in one partition or several; a number is None if it is unknown."""

    records: int | None
    is_estimated: bool
    seconds: float | None
    size: int | None

    @property
    def ms(self) -> int | None:
        """The age in ms of the oldest record that is left to read; None if it is unknown."""
        return None if self.seconds is None else round(self.seconds * 1000)


def lag_of(one: PartitionLag | ApiError | None) -> Lag:
    """Return the lag of a partition: visible records if brokers count them, else offsets."""
    if not isinstance(one, PartitionLag):
        return Lag(None, False, None, None)
    records = one.offsets if one.records is None else one.records
    return Lag(records, one.is_estimated, one.seconds, one.size_bytes)


def lag_in_all(lags: Iterable[Lag]) -> Lag:
    """Add up the lag of partitions; the age is that of the oldest record."""
    every = list(lags)
    records = [one.records for one in every if one.records is not None]
    sizes = [one.size for one in every if one.size is not None]
    return Lag(
        sum(records) if records or not every else None,
        any(one.is_estimated for one in every),
        max((one.seconds for one in every if one.seconds is not None), default=None),
        sum(sizes) if sizes else None,
    )


@dataclass(frozen=True, slots=True)
class GroupRow:
    """A group in the list."""

    group_id: str
    state: str
    type: str
    lag: Lag | None
    """The group's lag; None if it has not been read."""

    @property
    def level(self) -> str:
        """How the state is coloured: a rebalance is a warning."""
        return STATES.get(self.state, "warn")


@dataclass(frozen=True, slots=True)
class GroupList:
    """The groups of one page."""

    page: Page[GroupListing]
    rows: tuple[GroupRow, ...]
    counts_offsets: bool
    """True if brokers do not count records, and lags are differences of offsets."""


def is_other(group: GroupListing) -> bool:
    """Return True if a group has another protocol than the classic one, as in Apache Kafka 4."""
    return group.type.lower() not in ("classic", "")


def counts_offsets(lags: Lags) -> bool:
    """Return True if some of these lags are differences of offsets: their brokers cannot count."""
    return any(isinstance(one, PartitionLag) and one.records is None for one in lags.values())


def groups_page(groups: Sequence[GroupListing], query: str, number: int) -> Page[GroupListing]:
    """Return one page of the groups that match the query."""
    return page_of(groups, query, number, lambda one: one.group_id)


def groups_of(page: Page[GroupListing], lags: Mapping[str, Lags]) -> GroupList:
    """List the groups of a page, with the lag of each."""

    def lag(one: GroupListing) -> Lag | None:
        if one.group_id not in lags or one.type.lower() == SHARE:
            return None
        return lag_in_all(map(lag_of, lags[one.group_id].values()))

    rows = (GroupRow(one.group_id, one.state, one.type, lag(one)) for one in page.rows)
    return GroupList(page, tuple(rows), any(map(counts_offsets, lags.values())))


@dataclass(frozen=True, slots=True)
class OffsetRow:
    """A partition for which a group has an offset or a member."""

    where: TopicPartition
    committed: int | None
    end: int | None
    lag: Lag
    trouble: str
    owner: str
    """The member that reads the partition; empty if no member does."""


@dataclass(frozen=True, slots=True)
class GroupView:
    """One group as it is shown."""

    group: GroupDescription
    lag: Lag
    rows: tuple[OffsetRow, ...]
    """The partitions with the largest lag, `MOST_OFFSETS` at most."""
    partitions: int
    members: tuple[GroupMember, ...]
    """The first members, `MOST_MEMBERS` at most."""
    member_count: int
    counts_offsets: bool
    """True if brokers do not count records, and lags are differences of offsets."""
    unknown: str = ""
    """A sentence about the parts of the group that cannot be shown; empty if there are none."""

    @property
    def level(self) -> str:
        """How the state is coloured."""
        return STATES.get(self.group.state, "warn")


def group_of(group: GroupDescription | GroupListing, lags: Lags) -> GroupView:
    """Return the view of a group; its partitions with the largest lag come first."""
    unknown = ""
    if isinstance(group, GroupListing):
        unknown = (
            "This is a share group: neither its members nor what is left to read can be shown."
            if group.type.lower() == SHARE
            else f"This is a group of the {group.type} protocol: its members cannot be shown."
        )
        group = GroupDescription(group.group_id, group.state, group.protocol_type, "", (), -1)
    owners = {where: member for member in group.members for where in member.assignment}
    every = {
        where: lag_of(lags.get(where)) for where in {**dict.fromkeys(lags), **dict.fromkeys(owners)}
    }
    shown = nsmallest(MOST_OFFSETS, every, lambda where: (-(every[where].records or 0), where))
    return GroupView(
        group,
        lag_of(None) if unknown and not lags else lag_in_all(every.values()),
        tuple(_offset_row(where, lags.get(where), owners.get(where)) for where in shown),
        len(every),
        group.members[:MOST_MEMBERS],
        len(group.members),
        counts_offsets(lags),
        unknown,
    )


def _offset_row(
    where: TopicPartition, one: PartitionLag | ApiError | None, owner: GroupMember | None
) -> OffsetRow:
    known = one if isinstance(one, PartitionLag) else None
    return OffsetRow(
        where,
        known.committed_offset if known else None,
        known.high_watermark if known else None,
        lag_of(one),
        str(one) if isinstance(one, ApiError) else "",
        f"{owner.client_id} at {owner.host}" if owner else "",
    )


@dataclass(frozen=True, slots=True)
class ResetRow:
    """A partition's offset before and after a reset."""

    where: TopicPartition
    committed: int | None
    target: int
    warning: str

    @property
    def difference(self) -> int | None:
        """The change of the offset: negative to read again, positive to skip.

        It is None if no offset is committed.
        """
        return None if self.committed is None else self.target - self.committed


@dataclass(frozen=True, slots=True)
class ResetView:
    """The preview of a reset."""

    group_id: str
    scenario: str
    amount: str
    topic: str
    rows: tuple[ResetRow, ...]
    is_possible: bool
    """False while the group has members, because they would overwrite the offsets."""
    command: tuple[str, ...]


FLAGS = {
    "earliest": Scenario.EARLIEST,
    "latest": Scenario.LATEST,
    "offset": Scenario.OFFSET,
    "shift": Scenario.SHIFT,
    "time": Scenario.DATETIME,
    "duration": Scenario.DURATION,
}


def reset_rows(
    scenario: Scenario, amount: int, bounds: Mapping[TopicPartition, Bounds]
) -> tuple[ResetRow, ...]:
    """Compute a reset; raise ConfigError if a partition without an offset is to be shifted."""
    rows = []
    for where in sorted(bounds):
        target, warning = new_offset(scenario, amount, where, bounds[where])
        rows.append(ResetRow(where, bounds[where].committed, target, warning or ""))
    return tuple(rows)


def reset_command(
    group_id: str, scenario: str, amount: str, topic: str, *, execute: bool
) -> tuple[str, ...]:
    """Return the arguments of the command that does this reset."""
    flag = FLAGS[scenario].value
    which = ("--topic", topic) if topic else ("--all-topics",)
    value = () if scenario in ("earliest", "latest") else (amount,)
    how = "--execute" if execute else "--dry-run"
    return ("consumer-groups", "--reset-offsets", "--group", group_id, *which, flag, *value, how)
