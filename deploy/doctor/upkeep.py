"""Findings about brokers, disks, controllers, stuck transactions and old throttles. Pure."""

from collections.abc import Iterator
from typing import Final

from ...client.admin.cluster_types import LATE_MS, MetadataQuorum, QuorumReplica
from ...client.partitions import name_of
from ...client.quantities import size
from ...security.control_settings import FILE
from .connections import is_loopback
from .facts import Broker, Examined, StuckGroup
from .findings import Finding, Severity

FREE_LOW: Final = 0.15
FREE_LEAST: Final = 0.05
"""The free shares of a volume below which it is reported: as nearly full (LOW), as full (LEAST)."""
FLUSH_SLOW_MS: Final = 500.0
"""The 99th percentile of flush times, in ms, from which a disk is reported as slow."""


def broker_findings(found: Examined) -> Iterator[Finding]:
    """Yield brokers that are away, and disks that fail, fill up or are slow."""
    for node_id, broker in sorted(found.brokers.items()):
        if broker.is_fenced:
            yield Finding(
                "fenced-broker",
                Severity.ERROR,
                f"broker {node_id} at {broker.address}",
                "it is registered but fenced: the controllers do not hear from it",
                "Start it, or read its log; if it never comes back, drain it and unregister it.",
                ("plan drain", "--brokers", str(node_id)),
            )
        yield from _disks(broker)


def _disks(broker: Broker) -> Iterator[Finding]:
    for path, one in sorted(broker.directories.items()):
        where = f"broker {broker.node_id}, {path}"
        if one.error is not None:
            yield Finding(
                "failed-directory",
                Severity.ERROR,
                where,
                f"the log directory is offline: {one.error.code.name}",
                "Replace the disk or mend its file system, then restart the broker.",
                ("log-dirs", "--describe", "--broker-list", str(broker.node_id)),
            )
        elif one.total_bytes and one.usable_bytes is not None:
            free = one.usable_bytes / one.total_bytes
            if free < FREE_LOW:
                yield Finding(
                    "disk-full",
                    Severity.ERROR if free < FREE_LEAST else Severity.WARNING,
                    where,
                    f"{free:.1%} of the volume is free ({size(one.usable_bytes)})",
                    "Lower retention.ms or retention.bytes of large topics, or move replicas away.",
                    ("plan balance",),
                )
    flushes = {} if broker.scrape is None else broker.scrape.flush_ms
    for path, spent_ms in sorted(flushes.items()):
        if spent_ms > FLUSH_SLOW_MS:
            yield Finding(
                "slow-disk",
                Severity.WARNING,
                f"broker {broker.node_id}, {path}",
                f"1 % of its flushes take more than {spent_ms:.0f} ms",
                "Look at the disk: `iostat -x`, SMART, and what else writes to it.",
            )


def controller_findings(found: Examined) -> Iterator[Finding]:
    """Yield what is wrong with the controllers."""
    controllers = found.controllers
    for one in controllers.probes:
        where = f"controller {one.address}"
        if one.cause is not None:
            cure = "Start it, or correct the address to that of the controller's listener."
            if FILE in one.cause:
                cure = f"Give {FILE} in the file of --command-config, with the key that it has."
            yield Finding("unreachable-controller", Severity.ERROR, where, one.cause, cure)
        elif not (one.is_sealed or is_loopback(one.address.host)):
            yield Finding(
                "unsealed-controller",
                Severity.WARNING,
                where,
                "it asks for no proof of the cluster's key: whoever reaches it may be a broker",
                f"Give every node {FILE}, in two rounds of restarts (docs/security.md).",
            )
    is_known = all(one.is_supported for one in found.skipped if one.what == "controllers")
    if controllers.quorum is not None:
        hosts = dict.fromkeys(broker.address.host for broker in found.brokers.values())
        yield from _voters(controllers.quorum, is_one_machine=len(hosts) < 2)
    elif is_known and controllers.why:
        yield Finding(
            "no-controller",
            Severity.ERROR,
            "the controllers",
            f"none is active: {controllers.why}; leaders cannot change, nor topics or settings",
            "Start controllers until more than half of the voters run.",
            ("metadata-quorum", "describe", "--status"),
        )


def _voters(quorum: MetadataQuorum, *, is_one_machine: bool) -> Iterator[Finding]:
    voters = quorum.voters
    if len(voters) == 1:
        # Where all brokers are on one machine, others beside it would be lost with it.
        yield Finding(
            "one-controller",
            Severity.NOTE if is_one_machine else Severity.WARNING,
            f"controller {quorum.leader_id}",
            "it is the only one: while it is away no leader can change",
            "Enough for a cluster on one machine. On several run three, on machines of their own. "
            "Their set is fixed when a cluster is made.",
        )
    behind = {one.node_id: why for one in voters if (why := _behind(quorum, one)) is not None}
    in_step = len(voters) - len(behind)
    majority = len(voters) // 2 + 1
    for node_id, why in behind.items():
        rest = f"; {in_step} of {len(voters)} keep up, and {majority} are needed"
        yield Finding(
            "voter-behind",
            Severity.ERROR if in_step <= majority else Severity.WARNING,
            f"controller {node_id}",
            why + rest,
            "Start it, or look at its log, its disk and the network between the controllers.",
            ("metadata-quorum", "describe", "--replication"),
        )


def _behind(quorum: MetadataQuorum, one: QuorumReplica) -> str | None:
    """Return how far a voter is behind, in words; None if it keeps up, or nobody can tell."""
    if one.node_id == quorum.leader_id or quorum.now_ms is None:
        return None
    if one.last_fetch_timestamp is None:
        return "it has not fetched from the active controller"
    silent_ms = quorum.now_ms - one.last_fetch_timestamp
    if silent_ms > LATE_MS:
        return f"it has not fetched for {silent_ms / 1000:.0f} s"
    late_ms = quorum.late_ms(one)
    if late_ms is None or late_ms > LATE_MS:
        lag = quorum.leader_log_end_offset - one.log_end_offset
        return f"it is {lag} records of metadata behind" if lag > 0 else None
    return None


def leftover_findings(found: Examined) -> Iterator[Finding]:
    """Yield transactions and groups that make no progress, and forgotten throttles."""
    for one in found.transactions:
        where, age = name_of(one.partition), one.age_ms // 60_000
        held = f"open for {age} min: readers of committed records stop at {one.first_offset}"
        if one.transactional_id is None:
            yield Finding(
                "hanging-transaction",
                Severity.ERROR,
                where,
                f"a transaction of producer {one.producer_id} that no coordinator knows is {held}",
                "Abort it on this partition.",
                (
                    "transactions",
                    "abort",
                    *("--topic", one.partition.topic),
                    *("--partition", str(one.partition.partition)),
                    *("--start-offset", str(one.first_offset)),
                ),
            )
        else:
            yield Finding(
                "open-transaction",
                Severity.WARNING,
                where,
                f"the transaction of {one.transactional_id} is {held}",
                "End it in its application; it ends by itself at its transaction.timeout.ms.",
                ("transactions", "describe", "--transactional-id", one.transactional_id),
            )
    for group in found.stuck_groups:
        yield _stuck(group)
    if not found.moving:
        yield from _throttles(found)


def _stuck(group: StuckGroup) -> Finding:
    where = f"group {group.group_id}"
    if group.partition is None:
        return Finding(
            "stuck-group",
            Severity.WARNING,
            where,
            f"it was in a rebalance at two looks ({group.state}): a member does not join again",
            "Find the member that does not poll, or whose max.poll.interval.ms is very long.",
            ("consumer-groups", "--describe", "--members", "--group", group.group_id),
        )
    more = f" and {group.partition_count - 1} more" if group.partition_count > 1 else ""
    return Finding(
        "idle-group",
        Severity.WARNING,
        where,
        f"it has members and lags by minutes, but committed nothing between two looks: it stays at "
        f"{group.offset} of {name_of(group.partition)}{more}",
        "Look at its consumers: they hang, fail on the record there, or never commit.",
        ("consumer-groups", "--describe", "--lag", "--group", group.group_id),
    )


def _throttles(found: Examined) -> Iterator[Finding]:
    what = "is set though nothing moves: replicas that fall behind stay slow"
    for node_id, broker in sorted(found.brokers.items()):
        if broker.throttles:
            keys = ",".join(broker.throttles)
            yield Finding(
                "left-throttle",
                Severity.WARNING,
                f"broker {node_id}",
                f"{keys} {what}",
                "Take it away.",
                ("configs", "--alter", "--broker", str(node_id), "--delete-config", keys),
            )
    for topic in found.throttled_topics:
        keys = "leader.replication.throttled.replicas,follower.replication.throttled.replicas"
        yield Finding(
            "left-throttle",
            Severity.WARNING,
            f"topic {topic}",
            f"a list of throttled replicas {what}",
            "Take it away.",
            ("configs", "--alter", "--topic", topic, "--delete-config", keys),
        )


def skipped_findings(found: Examined) -> Iterator[Finding]:
    """Yield what could not be examined; a warning, unless an unreachable broker explains it."""
    is_explained = any(
        one.probe is not None and not one.probe.is_good for one in found.brokers.values()
    )
    for what, why, is_supported in found.skipped:
        grave = is_supported and not is_explained
        yield Finding(
            "not-examined",
            Severity.WARNING if grave else Severity.NOTE,
            what,
            why,
            "Mend the other findings, and examine again."
            if is_supported
            else "These brokers do not tell it.",
        )
