"""The shape of a run, drawn from its seed: the cluster, its topics, its load and its faults.

Each run draws its own subset of everything (swarm testing), because a run without network
partitions, say, reaches states that these would hide. Load is drawn as freely as faults.
"""

import random
from dataclasses import dataclass, replace

from .coverage import FAULTS, OPERATIONS

FAULTS_AT_LEAST = 5
COORDINATORS = {
    "offsets.topic.num.partitions": "2",
    "offsets.topic.replication.factor": "3",
    "offsets.topic.segment.bytes": "100000",
    "group.initial.rebalance.delay.ms": "0",
    # Replicas compact each at its own time, and the invariants compare batch by batch.
    "log.cleaner.enable": "false",
    "transaction.state.log.num.partitions": "2",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "transaction.state.log.segment.bytes": "100000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
}
GROUP_FLUSH = True
"""True if the product has flush.policy=group."""


@dataclass(frozen=True, slots=True)
class TopicShape:
    """One topic, and the guarantees that its clients have."""

    name: str
    partitions: int
    replication: int
    min_isr: int
    unclean: bool = False
    group: bool = False
    """True for flush.policy=group: no acknowledged record is lost if all machines lose power."""
    mortal: bool = False
    """True if the topic will be deleted and made again, so that its records may vanish."""
    ledger: bool = False
    """True if only transactions write to the topic."""
    segment_bytes: int = 1 << 30
    index_bytes: int = 4096
    sheds: bool = False
    """True if the topic's log starts advance during the run."""
    retention_bytes: int = -1
    retention_ms: int = -1
    """The topic's retention.ms; -1 for no bound."""

    @property
    def configs(self) -> dict[str, str]:
        return {
            "min.insync.replicas": str(self.min_isr),
            "unclean.leader.election.enable": "true" if self.unclean else "false",
            "flush.policy": "group" if self.group else "none",
            "segment.bytes": str(self.segment_bytes),
            "index.interval.bytes": str(self.index_bytes),
            **self._retention,
        }

    @property
    def _retention(self) -> dict[str, str]:
        if not self.sheds:
            return {}
        return {
            "retention.bytes": str(self.retention_bytes),
            "retention.ms": str(self.retention_ms),
        }


@dataclass(frozen=True, slots=True)
class ProducerShape:
    """The settings of one producer."""

    name: str
    acks: str
    idempotent: bool
    topics: tuple[TopicShape, ...]
    pause: float
    """Mean seconds between its bursts."""
    linger_ms: int
    batch_bytes: int
    compression: str

    @property
    def settings(self) -> dict[str, object]:
        return {
            "acks": self.acks,
            "enable_idempotence": self.idempotent,
            "linger_ms": self.linger_ms,
            "batch_size": self.batch_bytes,
            "compression_type": self.compression,
        }


@dataclass(frozen=True, slots=True)
class Shape:
    """The shape of one run."""

    brokers: int
    controllers: int
    topics: tuple[TopicShape, ...]
    producers: tuple[ProducerShape, ...]
    consumers: int
    members: int
    """The number of members of the consumer group; 0 if there is no group."""
    group_strategy: str
    ledgers: int
    """The number of transactional producers; 0 for none."""
    pipes: int
    """The number of processes that copy committed records to another topic, each once."""
    faults: tuple[str, ...]
    operations: tuple[str, ...]
    overlap: int
    """The number of faults at once."""
    gap: float
    """Mean seconds between faults."""
    elr: bool
    leases: bool
    latency: float
    broker: dict[str, str]
    controller: dict[str, str]
    racks: int = 0
    """The number of racks; consumers read from replicas in their own (KIP-392). 0 if there are no
    racks."""
    directories: int = 1
    """The number of log directories of a broker."""
    compacts: bool = False
    """True if there is a compacted topic, and the internal topics are compacted too."""
    delays: bool = False
    """True if there is a delay topic."""
    connects: int = 0
    """The number of workers of a Connect cluster; 0 if there is none."""
    audits: bool = False
    """True if changes of the metadata are audited."""
    drift: float = 0.0
    """The greatest share of time by which a machine's clock is fast or slow."""

    sealed: bool = False
    """True if the control plane is sealed by a key."""
    refuses: bool = False
    """True if a client sends requests that must be refused."""

    @property
    def all_group(self) -> bool:
        """True if every topic survives a power loss of all machines."""
        return all(topic.group for topic in self.topics)


def draw(rng: random.Random, controllers: int) -> Shape:
    """Draw a shape."""
    brokers = rng.choice((4, 4, 4, 5))
    topics = tuple(_topics(rng, brokers))
    leases = rng.random() < 0.3
    elr = rng.random() < 0.75
    faults = sorted(rng.sample(FAULTS, rng.randint(FAULTS_AT_LEAST, 12)))
    if all(topic.group for topic in topics) and "power-all" not in faults:
        faults.append("power-all")
    operations = sorted(rng.sample(OPERATIONS, rng.randint(0, len(OPERATIONS))))
    ledgers = rng.choice((0, 0, 1, 2))
    if ledgers:
        topics += _ledgers(rng, topics)
    return Shape(
        brokers=brokers,
        controllers=controllers,
        topics=topics,
        producers=tuple(_producers(rng, tuple(each for each in topics if not each.ledger))),
        consumers=rng.choice((0, 1, 1, 2)),
        members=rng.choice((0, 0, 2, 3)),
        group_strategy=rng.choice(("cooperative-sticky", "cooperative-sticky", "range")),
        ledgers=ledgers,
        pipes=rng.choice((0, 1, 2)) if ledgers else 0,
        faults=tuple(faults),
        operations=tuple(operations),
        overlap=rng.choice((1, 1, 2, 3)),
        gap=rng.choice((0.3, 1.0, 3.0)),
        elr=elr,
        leases=leases,
        latency=rng.choice((0.00005, 0.0001, 0.002)),
        broker={
            "num.replica.fetchers": str(rng.choice((1, 1, 2, 3))),
            "replica.lag.time.max.ms": str(rng.choice((1500, 1500, 4000))),
            "controlled.shutdown.enable": str(rng.random() < 0.9).lower(),
            "log.flush.policy": "group" if all(topic.group for topic in topics) else "none",
            **COORDINATORS,
        },
        controller={
            "leader.lease.enable": str(leases).lower(),
            "metadata.log.max.record.bytes.between.snapshots": str(
                rng.choice((20_000_000, 20_000, 3000))
            ),
            "leader.imbalance.check.interval.seconds": str(rng.choice((300, 5))),
        },
    )


def _topics(rng: random.Random, brokers: int) -> list[TopicShape]:
    groups = rng.choice(("none", "none", "some", "all"))
    if not GROUP_FLUSH:
        groups = "none"
    frail = rng.random() < 0.35
    """True if topics may have a single replica, or min.insync.replicas=1."""
    unclean = rng.random() < 0.25
    topics = []
    for number in range(rng.choice((1, 2, 2, 3))):
        factors = (1, 2, 3, 4) if frail else (2, 3, 3, 3, 4)
        replication = min(rng.choice(factors), brokers)
        least = 1 if frail else 2
        min_isr = rng.randint(least, max(least, min(replication, 3)))
        topics.append(
            TopicShape(
                f"events-{number}",
                partitions=rng.choice((1, 1, 2, 4)),
                replication=replication,
                min_isr=min_isr,
                unclean=unclean and rng.random() < 0.5,
                group=groups == "all" or (groups == "some" and rng.random() < 0.5),
                segment_bytes=rng.choice((1 << 30, 30_000, 3000)),
                index_bytes=rng.choice((4096, 200)),
            )
        )
    if rng.random() < 0.5:
        topics.append(
            TopicShape(
                "mortal",
                partitions=rng.choice((1, 2)),
                replication=3,
                min_isr=2,
                group=groups == "all",
                mortal=True,
            )
        )
    return topics


def _ledgers(rng: random.Random, topics: tuple[TopicShape, ...]) -> tuple[TopicShape, ...]:
    """Return the topic that transactions write to, and the one that pipes copy it to."""
    ledger = TopicShape(
        "ledger",
        partitions=rng.choice((1, 2)),
        replication=3,
        min_isr=2,
        group=all(topic.group for topic in topics),
        ledger=True,
        segment_bytes=rng.choice((1 << 30, 30_000, 3000)),
        index_bytes=rng.choice((4096, 200)),
    )
    return ledger, replace(ledger, name="piped")


def _producers(rng: random.Random, topics: tuple[TopicShape, ...]) -> list[ProducerShape]:
    lasting = tuple(topic for topic in topics if not topic.mortal)
    mortal = tuple(topic for topic in topics if topic.mortal)
    count = rng.choice((2, 3, 3, 4))
    producers = []
    for number in range(count + len(mortal)):
        acks = "all" if number == 0 else rng.choice(("all", "all", "all", "1", "0"))
        producers.append(
            ProducerShape(
                f"producer-{number}",
                acks=acks,
                idempotent=acks == "all" and (number == 0 or rng.random() < 0.7),
                topics=lasting if number < count else mortal,
                pause=rng.choice((0.2, 0.4, 1.0)),
                linger_ms=rng.choice((0, 1, 20)),
                batch_bytes=rng.choice((100, 1000, 65_536)),
                compression=rng.choice(("none", "none", "lz4", "zstd", "gzip", "snappy")),
            )
        )
    return producers
