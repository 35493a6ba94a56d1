"""The quorum: the leader, and how far the other controllers and the brokers lag. Pure."""

from dataclasses import dataclass

from ....client.admin.cluster_types import LATE_MS, MetadataQuorum, QuorumReplica


@dataclass(frozen=True, slots=True)
class QuorumRow:
    """A copy of the metadata log."""

    node_id: int
    role: str
    addresses: str
    log_end: int | None
    behind: int | None
    caught_up_ms_ago: int | None
    is_late: bool


@dataclass(frozen=True, slots=True)
class QuorumView:
    """The quorum as it is shown."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    rows: tuple[QuorumRow, ...]


def quorum_of(quorum: MetadataQuorum) -> QuorumView:
    """List the leader first, then the other voters, then the brokers that follow."""
    voters = sorted(quorum.voters, key=lambda one: (one.node_id != quorum.leader_id, one.node_id))
    rows = [_row(quorum, one, "voter") for one in voters]
    rows += [_row(quorum, one, "observer") for one in quorum.observers]
    return QuorumView(quorum.leader_id, quorum.leader_epoch, quorum.high_watermark, tuple(rows))


def _row(quorum: MetadataQuorum, one: QuorumReplica, role: str) -> QuorumRow:
    leads = one.node_id == quorum.leader_id and role == "voter"
    log_end = None if one.log_end_offset < 0 else one.log_end_offset
    behind = None if log_end is None else max(quorum.leader_log_end_offset - log_end, 0)
    ago_ms = 0 if leads else quorum.late_ms(one)
    return QuorumRow(
        one.node_id,
        "leader" if leads else role,
        ", ".join(quorum.endpoints.get(one.node_id, ())),
        log_end,
        behind,
        ago_ms,
        ago_ms is not None and ago_ms > LATE_MS,
    )
