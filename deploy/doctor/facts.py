"""The facts about a cluster that an examination has collected, as plain values. Pure.

Times are in milliseconds. A fact that could not be found out is None or empty, and `Skipped` says
why.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ...client.admin.cluster_types import MetadataQuorum
from ...client.admin.log_types import LogDirectory
from ...client.admin.replica_types import ReplicaState
from ...client.net.address import Address
from ...protocol.errors import ApiError
from ...protocol.schema import Versions
from ...protocol.types import TopicPartition


class Advertised(NamedTuple):
    """A broker's id and address, as the cluster's metadata has them."""

    node_id: int
    address: Address


@dataclass(frozen=True, slots=True)
class Probe:
    """The outcome of a connection to one address of a broker."""

    address: Address
    phase: str | None = None
    """The phase that failed: resolve, connect, negotiate or metadata; None if a broker answered."""
    cause: str = ""
    cluster_id: str | None = None
    brokers: tuple[Advertised, ...] = ()
    versions: Mapping[int, Versions] = field(default_factory=dict)
    """The versions of each API that it serves."""
    denial: str | None = None
    """The error message of a broker that is not the one expected at this address."""

    @property
    def is_good(self) -> bool:
        """True if a broker answered."""
        return self.phase is None


@dataclass(frozen=True, slots=True)
class ControllerProbe:
    """The outcome of a connection to one controller."""

    address: Address
    cause: str | None = None
    """The reason why it could not be used; None if a controller answered."""
    active_id: int = -1
    """The active controller as this one knows it; -1 if it knows none."""
    cluster_id: str | None = None
    is_sealed: bool = True
    """False if the controller spoke to the doctor without a proof of the cluster's key."""


class Clock(NamedTuple):
    """The time by which a clock is ahead of this machine's clock, and the uncertainty of that."""

    ahead_ms: int
    error_ms: int


@dataclass(frozen=True, slots=True)
class Scrape:
    """The facts that a broker's metrics tell."""

    clock: Clock | None = None
    flush_ms: Mapping[str, float] = field(default_factory=dict)
    """The 99th percentile of the time of a flush, by log directory."""


@dataclass(frozen=True, slots=True)
class Broker:
    """One broker of the cluster."""

    node_id: int
    address: Address
    rack: str | None = None
    is_fenced: bool = False
    probe: Probe | None = None
    """The connection to its advertised address; None if it was not tried."""
    directories: Mapping[str, LogDirectory] = field(default_factory=dict)
    throttles: tuple[str, ...] = ()
    """The keys of the replication throttle rates that are set on the broker."""
    scrape: Scrape | None = None
    """The facts from the broker's metrics; None if it serves none, or they could not be read."""

    @property
    def is_reachable(self) -> bool:
        """True if the broker answered at its advertised address."""
        return self.probe is not None and self.probe.is_good


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition."""

    replicas: tuple[int, ...]
    """The replicas, the preferred leader first, without those that are being added."""
    isr: tuple[int, ...]
    leader: int
    """The leader's id; -1 if there is none."""
    min_isr: int = 1
    eligible: tuple[int, ...] = ()
    """Replicas out of sync that have every committed record, so that they may lead (KIP-966)."""
    states: Mapping[int, ReplicaState | ApiError] = field(default_factory=dict)
    """Replicas as their brokers describe them, by broker."""

    @property
    def missing(self) -> tuple[int, ...]:
        """The replicas that are not in sync."""
        return tuple(each for each in self.replicas if each not in self.isr)


class Transaction(NamedTuple):
    """A transaction that is open on a partition."""

    partition: TopicPartition
    producer_id: int
    first_offset: int
    age_ms: int
    transactional_id: str | None
    """The transactional id; None if no coordinator has a transaction of this producer."""


class StuckGroup(NamedTuple):
    """A group that made no progress between the two looks at it (groups.py)."""

    group_id: str
    state: str
    partition: TopicPartition | None = None
    """The first partition in which it lags; None if it is in a rebalance."""
    offset: int = -1
    """The offset that the group has committed in that partition."""
    partition_count: int = 0
    """The partitions in which it lags and has committed nothing between the looks."""


class Skipped(NamedTuple):
    """Something that could not be examined, and why."""

    what: str
    why: str
    is_supported: bool = True
    """False if these brokers lack the API: Apache Kafka's lack those that only minikafka has."""


@dataclass(frozen=True, slots=True)
class Controllers:
    """The quorum of controllers."""

    quorum: MetadataQuorum | None = None
    """The quorum as its active controller describes it; None if none has described it."""
    why: str = ""
    """The reason why there is no description; empty if none was requested."""
    clock: Clock | None = None
    """The clock of the active controller."""
    probes: tuple[ControllerProbe, ...] = ()


@dataclass(frozen=True, slots=True)
class Examined:
    """All that was found out."""

    bootstrap: tuple[Probe, ...]
    brokers: Mapping[int, Broker] = field(default_factory=dict)
    partitions: Mapping[TopicPartition, Partition] = field(default_factory=dict)
    transactions: tuple[Transaction, ...] = ()
    """The transactions that have been open for long."""
    stuck_groups: tuple[StuckGroup, ...] = ()
    throttled_topics: tuple[str, ...] = ()
    """Topics with replicas that are throttled."""
    moving: tuple[TopicPartition, ...] = ()
    """Partitions that are being moved."""
    controllers: Controllers = field(default_factory=Controllers)
    skipped: tuple[Skipped, ...] = ()

    @property
    def entry(self) -> Probe | None:
        """The first bootstrap address at which a broker answered; None if none did."""
        return next((one for one in self.bootstrap if one.is_good), None)
