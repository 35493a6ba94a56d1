"""Findings about partitions and their replicas, and what a restart would do to them. Pure."""

from collections.abc import Iterator
from typing import Final

from ...client.admin.replica_types import ReplicaState
from ...client.partitions import name_of
from ...protocol.errors import ApiError, ErrorCode
from ...protocol.types import TopicPartition
from .facts import Examined, Partition
from .findings import Finding, Severity

IMBALANCE: Final = 0.1
"""A broker is reported if others lead more than this share of the partitions that it should lead,
though it is in sync; as with leader.imbalance.per.broker.percentage.
"""
NAMED_MAX: Final = 3
"""The most partitions that one finding about a broker names."""


def partition_findings(found: Examined) -> Iterator[Finding]:
    """Yield partitions that are offline or lack replicas; each once, with its worst problem."""
    for where, one in sorted(found.partitions.items()):
        alive = [each for each in one.isr if _is_alive(found, each)]
        reasons = "; ".join(_reason(found, one, each) for each in _lacking(found, one))
        name, describe = name_of(where), ("topics", "--describe", "--topic", where.topic)
        if one.leader < 0 or not alive:
            whole = tuple(dict.fromkeys((*one.isr, *one.eligible)))
            last = f"all its records are on {_listed(whole)}" if whole else "none was in sync"
            yield Finding(
                "offline",
                Severity.ERROR,
                name,
                f"it has no leader, so nothing can be written or read; {last}; {reasons}",
                "Start a broker that has all records. Only if all those are lost for good, elect "
                "uncleanly: that loses records.",
                describe,
            )
        elif len(alive) == 1 and len(one.replicas) > 1:
            stop = "; acks=all is refused" if one.min_isr > 1 else ""
            yield Finding(
                "last-copy",
                Severity.ERROR,
                name,
                f"its last replica in sync is on broker {alive[0]}{stop}; {reasons}",
                f"Keep broker {alive[0]} up, and bring the others back.",
                describe,
            )
        elif len(alive) < one.min_isr and len(one.replicas) >= one.min_isr:
            yield Finding(
                "under-min-isr",
                Severity.ERROR,
                name,
                f"{len(alive)} of {len(one.replicas)} replicas are in sync, and "
                f"min.insync.replicas={one.min_isr}: acks=all is refused; {reasons}",
                "Bring back the brokers that are missing.",
                describe,
            )
        elif one.missing:
            yield Finding(
                "under-replicated",
                Severity.WARNING,
                name,
                f"{len(alive)} of {len(one.replicas)} replicas are in sync; {reasons}",
                "Bring back the brokers that are missing; if they run, look at their disks.",
                describe,
            )


def _is_alive(found: Examined, broker: int) -> bool:
    known = found.brokers.get(broker)
    return known is not None and not known.is_fenced


def _lacking(found: Examined, one: Partition) -> list[int]:
    return [each for each in one.replicas if each in one.missing or not _is_alive(found, each)]


def _reason(found: Examined, one: Partition, broker: int) -> str:
    """Say why the replica of a broker is not in sync."""
    who, known = f"broker {broker}", found.brokers.get(broker)
    if known is None:
        return f"{who} is not registered"
    if known.is_fenced:
        return f"{who} is fenced: the controllers do not hear from it"
    if not known.is_reachable:
        why = "" if known.probe is None else f" ({known.probe.phase}: {known.probe.cause})"
        return f"{who} cannot be reached from here{why}"
    state = one.states.get(broker)
    if isinstance(state, ApiError):
        if state.code is ErrorCode.KAFKA_STORAGE_ERROR:
            return f"{who}: the log directory has failed"
        return f"{who} does not describe its replica: {state.code.name}"
    return f"{who} {_behind(one, broker, state)}"


def _behind(one: Partition, broker: int, state: ReplicaState | None) -> str:
    leader = one.states.get(one.leader)
    if not isinstance(leader, ReplicaState):
        return "is not in sync" if state is None else f"has records up to {state.log_end_offset}"
    seen = next((each for each in leader.followers if each.broker_id == broker), None)
    if seen is None:
        return f"is unknown to leader {one.leader}"
    if seen.log_end_offset is None:
        late = f"for {seen.behind_ms / 1000:.1f} s or since it became leader"
        return f"has not fetched from leader {one.leader} {late}"
    count = leader.log_end_offset - seen.log_end_offset
    if count <= 0:
        return "has caught up, and will be in sync soon"
    return f"is slow: {count} offsets behind, for {seen.behind_ms / 1000:.1f} s"


def restart_findings(found: Examined) -> Iterator[Finding]:
    """Yield the brokers that must not be restarted now, and why."""
    stops: dict[int, dict[TopicPartition, str]] = {}
    is_passing: dict[int, bool] = {}
    for where, one in sorted(found.partitions.items()):
        alive = [each for each in one.isr if _is_alive(found, each)]
        for broker in alive:
            others = len(alive) - 1
            if not others:
                why = "nothing could be written or read"
            elif others < one.min_isr <= len(alive):
                why = "acks=all would be refused"
            else:
                continue
            stops.setdefault(broker, {})[where] = why
            # A topic that never has a replica to spare is a finding of its own.
            if len(one.replicas) > max(one.min_isr, 1):
                is_passing[broker] = True
    for broker, partitions in sorted(stops.items()):
        named = [f"{name_of(where)} ({why})" for where, why in partitions.items()][:NAMED_MAX]
        more = len(partitions) - len(named)
        rest = f" and {more} more" if more else ""
        passing = is_passing.get(broker, False)
        yield Finding(
            "unsafe-restart",
            Severity.WARNING if passing else Severity.NOTE,
            f"broker {broker}",
            f"a restart now would stop {len(partitions)} partitions: {', '.join(named)}{rest}",
            "Wait until their replicas are in sync again."
            if passing
            else "Give these topics one replica more than min.insync.replicas.",
        )


def placement_findings(found: Examined) -> Iterator[Finding]:
    """Yield topics and brokers whose replicas are placed or led badly."""
    yield from _spare(found)
    yield from _racks(found)
    yield from _preferred(found)


def _spare(found: Examined) -> Iterator[Finding]:
    # A cluster of one broker has no room for more replicas, so it was made for what may be lost.
    has_room = len(found.brokers) > 1
    topics: dict[str, Partition] = {}
    for where, one in sorted(found.partitions.items()):
        if where.topic not in topics or len(one.replicas) < len(topics[where.topic].replicas):
            topics[where.topic] = one
    for topic, one in topics.items():
        count = len(one.replicas)
        if count == 1:
            yield Finding(
                "one-replica",
                Severity.WARNING if has_room else Severity.NOTE,
                f"topic {topic}",
                "its replication factor is 1: a lost disk loses its records, a restart stops it",
                "Give it more replicas." if has_room else "Add brokers, and give it more replicas.",
                ("plan replication-factor", "--factor", "3", "--topics", topic) if has_room else (),
            )
        elif one.min_isr >= count:
            yield Finding(
                "no-spare-replica",
                Severity.WARNING,
                f"topic {topic}",
                f"min.insync.replicas={one.min_isr} with {count} replicas: one broker away stops "
                "acks=all",
                "Give it one replica more than min.insync.replicas, or lower that.",
                ("plan replication-factor", "--factor", str(one.min_isr + 1), "--topics", topic),
            )


def _racks(found: Examined) -> Iterator[Finding]:
    racks = {node_id: broker.rack for node_id, broker in found.brokers.items()}
    if len(dict.fromkeys(rack for rack in racks.values() if rack is not None)) < 2:
        return
    for where, one in sorted(found.partitions.items()):
        used = list(dict.fromkeys(racks.get(each) for each in one.replicas))
        if len(one.replicas) > 1 and len(used) == 1 and used[0] is not None:
            yield Finding(
                "one-rack",
                Severity.WARNING,
                name_of(where),
                f"all replicas ({_listed(one.replicas)}) are in rack {used[0]}",
                "Spread them over the racks.",
                ("plan rack-spread", "--topics", where.topic),
            )


def _preferred(found: Examined) -> Iterator[Finding]:
    due: dict[int, int] = {}
    absent: dict[int, int] = {}
    for one in found.partitions.values():
        if not one.replicas:
            continue
        preferred = one.replicas[0]
        due[preferred] = due.get(preferred, 0) + 1
        if one.leader not in (preferred, -1) and preferred in one.isr:
            absent[preferred] = absent.get(preferred, 0) + 1
    for broker, count in sorted(absent.items()):
        if count > IMBALANCE * due[broker]:
            yield Finding(
                "not-preferred",
                Severity.WARNING,
                f"broker {broker}",
                f"it is in sync, but others lead {count} of the {due[broker]} partitions that it "
                "should lead",
                "Elect the preferred leaders.",
                ("leader-election", "--election-type", "preferred", "--all-topic-partitions"),
            )


def _listed(brokers: tuple[int, ...]) -> str:
    return ",".join(map(str, brokers))
