"""The tables of `consumer-groups` and `groups`, with the lines of Kafka's tools."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ...protocol.errors import ApiError
from ...protocol.types import TopicPartition
from ..admin.group_types import GroupDescription, GroupListing, GroupMember
from ..admin.lag_types import PartitionLag
from ..group_types import OffsetAndMetadata
from ..partitions import by_topic

MISSING = "-"
NARROW = 15
OFFSETS = (
    "GROUP",
    "TOPIC",
    "PARTITION",
    "LEADER-EPOCH",
    "CURRENT-OFFSET",
    "LOG-END-OFFSET",
    "LAG",
    "CONSUMER-ID",
    "HOST",
    "CLIENT-ID",
)
LAG_AT = OFFSETS.index("LAG") + 1
MEASURES = ("LAG-RECORDS", "LAG-BYTES", "LAG-SECONDS")
"""The columns of --lag, which Kafka's tool does not have."""
NOT_STABLE = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")


@dataclass(frozen=True, slots=True)
class Progress:
    """A group's committed offsets and the log ends, in the partitions that it reads or has read."""

    committed: Mapping[TopicPartition, OffsetAndMetadata]
    ends: Mapping[TopicPartition, int]
    lags: Mapping[TopicPartition, PartitionLag | ApiError] | None = None
    """The lag in records, bytes and seconds; None unless --lag was given."""


def aligned(rows: Sequence[Sequence[str]], least: Sequence[int]) -> list[str]:
    """Pad each column but the last to its longest cell, and at least to the width in `least`."""
    widths = [max(most, *(len(row[i]) for row in rows)) for i, most in enumerate(least)]
    return [
        " ".join(
            [
                *(cell.ljust(width) for cell, width in zip(row, widths, strict=False)),
                *row[len(widths) :],
            ]
        )
        for row in rows
    ]


def listing_lines(
    groups: Iterable[GroupListing], *, with_type: bool, with_state: bool
) -> list[str]:
    """Return the lines of `--list`: names, or a table if types or states are wanted."""
    found = list(groups)
    if not with_type and not with_state:
        return [group.group_id for group in found]
    rows = [["GROUP", *(["TYPE"] if with_type else []), *(["STATE"] if with_state else [])]]
    for group in found:
        row = [group.group_id]
        if with_type:
            row.append(group.type.capitalize() or "Unknown")
        if with_state:
            row.append(group.state or "Unknown")
        rows.append(row)
    width = max(NARROW, *(len(row[0]) for row in rows)) + 10
    return aligned(rows, [width, *[20] * (len(rows[0]) - 1)])


def group_type_lines(groups: Iterable[GroupListing]) -> list[str]:
    """Return the lines of `groups --list`."""
    rows = [["GROUP", "TYPE", "PROTOCOL"]]
    rows += [[g.group_id, g.type.capitalize(), g.protocol_type] for g in groups]
    width = max(20, *(len(cell) for row in rows for cell in row))
    header, *lines = [" ".join(cell.ljust(width) for cell in row) for row in rows]
    # Kafka's tool ends each line but the header with a blank.
    return [header, *(f"{line} " for line in lines)]


def notice(group: GroupDescription) -> str | None:
    """Return the line to print on standard error before a group's table, if any."""
    if group.state == "Empty":
        return f"Consumer group '{group.group_id}' has no active members."
    if group.state in NOT_STABLE:
        return f"Warning: Consumer group '{group.group_id}' is rebalancing."
    return None


def offset_lines(group: GroupDescription, progress: Progress, *, verbose: bool) -> list[str]:
    """Return the table of `--describe --offsets`; it is empty if the group has no partitions."""
    rows: list[list[str]] = []
    assigned: dict[TopicPartition, None] = {}
    for member in sorted(group.members, key=lambda one: -len(one.assignment)):
        who = (member.member_id, member.host, member.client_id)
        for partition in member.assignment:
            assigned[partition] = None
            rows.append(_offset_row(group.group_id, partition, progress, who))
        if not member.assignment:
            rows.append(_offset_row(group.group_id, None, progress, who))
    nobody = (MISSING, MISSING, MISSING)
    for partition in sorted(set(progress.committed) - set(assigned)):
        rows.append(_offset_row(group.group_id, partition, progress, nobody))
    if not rows:
        return []
    table = [list(OFFSETS), *rows]
    least = [NARROW, NARROW, 10, 15, 15, 15, 15, NARROW, NARROW]
    if progress.lags is not None:
        table[0][LAG_AT:LAG_AT] = MEASURES
        least[LAG_AT:LAG_AT] = [15] * len(MEASURES)
    if not verbose:
        table = [[*row[:3], *row[4:]] for row in table]
        del least[3]
    return aligned(table, least)


def _offset_row(
    group_id: str,
    partition: TopicPartition | None,
    progress: Progress,
    who: tuple[str, str, str],
) -> list[str]:
    if partition is None:
        more = 0 if progress.lags is None else len(MEASURES)
        return [group_id, *[MISSING] * (6 + more), *who]
    committed, end = progress.committed.get(partition), progress.ends.get(partition)
    epoch = None if committed is None or committed.leader_epoch < 0 else committed.leader_epoch
    offset = None if committed is None else committed.offset
    lag = None if end is None or offset is None else end - offset
    numbers = (partition.partition, epoch, offset, end, lag)
    cells = [MISSING if number is None else str(number) for number in numbers]
    if progress.lags is not None:
        cells += _measures(progress.lags.get(partition))
    return [group_id, partition.topic, *cells, *who]


def _measures(lag: PartitionLag | ApiError | None) -> list[str]:
    """Return the cells of records, bytes and seconds; estimates begin with a tilde."""
    if not isinstance(lag, PartitionLag):
        return [MISSING] * len(MEASURES)
    about = "~" if lag.is_estimated else ""
    return [
        MISSING if lag.records is None else f"{about}{lag.records}",
        MISSING if lag.size_bytes is None else f"{about}{lag.size_bytes}",
        MISSING if lag.seconds is None else f"{lag.seconds:.1f}",
    ]


def member_lines(group: GroupDescription, *, verbose: bool) -> list[str]:
    """Return the table of `--describe --members`; only its header if there are no members."""
    is_static = any(member.group_instance_id for member in group.members)
    headers = ["GROUP", "CONSUMER-ID", "HOST", "CLIENT-ID", "#PARTITIONS"]
    least = [NARROW, NARROW, NARROW, NARROW, 15]
    if is_static:
        headers.insert(2, "GROUP-INSTANCE-ID")
        least.insert(2, 17)
    if verbose:
        headers += ["CURRENT-EPOCH", "CURRENT-ASSIGNMENT", "TARGET-EPOCH", "TARGET-ASSIGNMENT"]
        least += [15, 20, 15, 20]
    rows = [headers]
    for member in group.members:
        row = [group.group_id, member.member_id, member.host, member.client_id]
        row.append(str(len(member.assignment)))
        if is_static:
            row.insert(2, member.group_instance_id or "")
        if verbose:
            # The classic protocol has no member epochs and no target assignment.
            row += [MISSING, assignment_text(member), MISSING, MISSING]
        rows.append(row)
    return aligned(rows, least)


def assignment_text(member: GroupMember) -> str:
    """Return a member's partitions as `a:0,1;b:0`."""
    topics = sorted(by_topic(member.assignment).items())
    parts = [f"{topic}:{','.join(map(str, sorted(indexes)))}" for topic, indexes in topics]
    return ";".join(parts) or MISSING


def state_lines(group: GroupDescription, coordinator: str, *, verbose: bool) -> list[str]:
    """Return the table of `--describe --state`; `coordinator` is the host and port to print."""
    headers = ["GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE"]
    row = [
        group.group_id,
        f"{coordinator}  ({group.coordinator_id})",
        group.protocol or MISSING,
        group.state,
    ]
    least = [NARROW, 25, 20, 20]
    if verbose:
        headers += ["GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH"]
        row += [MISSING, MISSING]
        least += [15, 25]
    headers.append("#MEMBERS")
    row.append(str(len(group.members)))
    return aligned([headers, row], least)


def reset_lines(offsets: Mapping[str, Mapping[TopicPartition, int]]) -> list[str]:
    """Return the table of `--reset-offsets`: the new offsets, set or only planned."""
    rows = [("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET")]
    for group_id, found in offsets.items():
        for (topic, index), offset in sorted(found.items()):
            rows.append((group_id, topic, str(index), str(offset)))
    groups = max(NARROW, *(len(row[0]) for row in rows))
    topics = max(NARROW, *(len(row[1]) for row in rows))
    return [
        f"{group_id:<{groups}} {topic:<{topics}} {index:<10} {offset}"
        for group_id, topic, index, offset in rows
    ]


def deleted_lines(outcomes: Mapping[TopicPartition, str]) -> list[str]:
    """Return the table of `--delete-offsets`: the outcome of each partition."""
    rows = [("TOPIC", "PARTITION", "STATUS")]
    rows += [(topic, str(index), status) for (topic, index), status in sorted(outcomes.items())]
    topics = max(NARROW, *(len(row[0]) for row in rows))
    return [f"{topic:<{topics}} {index:<10} {status:<15}" for topic, index, status in rows]
