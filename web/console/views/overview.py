"""The overview: counts, the health of the cluster, and how to mend what is wrong. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from ....client.admin.cluster_types import LATE_MS
from ....protocol.types import TopicPartition
from .sight import Sight, Troubles, troubles_of
from .words import duration, listed, plural


class Level(Enum):
    """The severity of a finding."""

    GOOD = "good"
    NOTE = "note"
    WARN = "warn"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class Finding:
    """One statement about the cluster's health, with a command that helps."""

    level: Level
    title: str
    detail: str
    advice: str
    command: tuple[str, ...] = ()
    """Arguments after `minikafka` of a command that shows or mends the trouble."""
    link: str = ""


@dataclass(frozen=True, slots=True)
class Tile:
    """One number of the overview."""

    label: str
    value: int
    note: str
    link: str
    level: Level = Level.NOTE


@dataclass(frozen=True, slots=True)
class Overview:
    """The overview as it is shown."""

    level: Level
    sentence: str
    tiles: tuple[Tile, ...]
    findings: tuple[Finding, ...]


def overview_of(sight: Sight) -> Overview:
    """Judge the health of the cluster."""
    troubles = troubles_of(sight)
    findings = tuple(
        sorted(_findings(sight, troubles), key=lambda one: -list(Level).index(one.level))
    )
    level = max((one.level for one in findings), key=list(Level).index, default=Level.GOOD)
    grave = [one for one in findings if one.level in (Level.WARN, Level.BAD)]
    sentence = "; ".join(one.title for one in grave) if grave else "Everything is in order"
    return Overview(
        level if grave else Level.GOOD, sentence + ".", tuple(_tiles(sight, troubles)), findings
    )


def _tiles(sight: Sight, troubles: Troubles) -> Iterator[Tile]:
    fenced = sum(broker.is_fenced for broker in sight.cluster.brokers)
    alive = len(sight.cluster.brokers) - fenced
    note = f"{fenced} fenced" if fenced else "all in service"
    yield Tile("Brokers", alive, note, "/brokers", Level.BAD if fenced else Level.NOTE)
    mine = [topic for topic in sight.topics.values() if not topic.is_internal]
    internal = f"{len(sight.topics) - len(mine)} internal beside them"
    yield Tile("Topics", len(mine), internal, "/topics")
    partitions = sum(len(topic.partitions) for topic in sight.topics.values())
    copies = sum(len(one.replicas) for _, one in sight.partitions())
    yield Tile("Partitions", partitions, plural(copies, "replica"), "/topics")
    for label, note, found, level in (
        ("Offline", "without a leader", troubles.offline, Level.BAD),
        ("Under min ISR", "refuse acks=all", troubles.under_min_isr, Level.BAD),
        ("Under-replicated", "a replica is behind", troubles.under_replicated, Level.WARN),
    ):
        link = f"/topics?only={label.lower().replace(' ', '-')}"
        yield Tile(label, len(found), note, link, level if found else Level.NOTE)
    if sight.quorum is not None:
        note = f"controller {sight.quorum.leader_id} leads, epoch {sight.quorum.leader_epoch}"
        yield Tile("Controllers", len(sight.quorum.voters), note, "/quorum")
    yield Tile("Moving", len(sight.moving), "partitions on the way", "/reassignments")


def _findings(sight: Sight, troubles: Troubles) -> Iterator[Finding]:
    yield from _brokers(sight)
    if troubles.offline:
        yield Finding(
            Level.BAD,
            f"{plural(len(troubles.offline), 'partition')} without a leader",
            f"{_named(troubles.offline)}: nothing can be written or read.",
            "Start a broker that holds a replica in sync. Only if all of them are lost for good, "
            "elect uncleanly: that loses records.",
            ("topics", "--describe", "--unavailable-partitions"),
            "/topics?only=offline",
        )
    if troubles.under_min_isr:
        yield Finding(
            Level.BAD,
            f"{plural(len(troubles.under_min_isr), 'partition')} under min.insync.replicas",
            f"{_named(troubles.under_min_isr)}: producers with acks=all are refused.",
            "Bring back the brokers that are missing from the ISR.",
            ("topics", "--describe", "--under-min-isr-partitions"),
            "/topics?only=under-min-isr",
        )
    if troubles.under_replicated:
        yield Finding(
            Level.WARN,
            f"{plural(len(troubles.under_replicated), 'partition')} under-replicated",
            f"{_named(troubles.under_replicated)}: a replica is down or behind.",
            "Start the broker that is missing; if it runs, look at its disk and its log.",
            ("topics", "--describe", "--under-replicated-partitions"),
            "/topics?only=under-replicated",
        )
    yield from _quorum(sight)
    if sight.moving:
        yield Finding(
            Level.NOTE,
            f"{plural(len(sight.moving), 'partition')} on the move",
            _named(list(sight.moving)),
            "A reassignment is under way. Nothing is to be done.",
            ("reassign-partitions", "--list"),
            "/reassignments",
        )
    if troubles.not_preferred:
        yield Finding(
            Level.NOTE,
            f"{plural(len(troubles.not_preferred), 'partition')} not led by the preferred replica",
            _named(troubles.not_preferred),
            "Load may be uneven. Elect the preferred leaders.",
            ("leader-election", "--election-type", "preferred", "--all-topic-partitions"),
            "/do/elect-preferred",
        )


def _brokers(sight: Sight) -> Iterator[Finding]:
    fenced = [broker for broker in sight.cluster.brokers if broker.is_fenced]
    if fenced:
        yield Finding(
            Level.BAD,
            f"{plural(len(fenced), 'broker')} out of service",
            listed([f"{one.node_id} ({one.host}:{one.port})" for one in fenced])
            + ": fenced by the controller.",
            "Start it. If it runs, its log says why it does not reach the controller.",
            ("metadata-quorum", "describe", "--status"),
            "/brokers",
        )


def _quorum(sight: Sight) -> Iterator[Finding]:
    quorum = sight.quorum
    if quorum is None:
        return
    if quorum.leader_id < 0:
        yield Finding(
            Level.BAD,
            "No active controller",
            "Nothing can be created, changed or elected.",
            "Start a majority of the controllers.",
            ("metadata-quorum", "describe", "--status"),
            "/quorum",
        )
    for voter in quorum.voters:
        late_ms = quorum.late_ms(voter) or 0
        if voter.node_id != quorum.leader_id and late_ms > LATE_MS:
            yield Finding(
                Level.WARN,
                f"Controller {voter.node_id} is behind",
                f"It last held all of the metadata log {duration(late_ms)} ago.",
                "Start it, or look at its disk and its network.",
                ("metadata-quorum", "describe", "--replication"),
                "/quorum",
            )


def _named(partitions: list[TopicPartition]) -> str:
    return listed([f"{topic}-{index}" for topic, index in partitions])
