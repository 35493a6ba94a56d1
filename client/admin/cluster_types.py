"""The cluster as plain values: its brokers, the controllers' quorum, the levels of its features.

Times are ms since the epoch, or None if unknown. Directory ids are URL-safe base64 text.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from ...protocol.messages.update_features import UpgradeType as UpgradeType


class BrokerDescription(NamedTuple):
    """One broker of the cluster."""

    node_id: int
    host: str
    port: int
    rack: str | None = None
    is_fenced: bool = False


class ClusterDescription(NamedTuple):
    """The cluster as a broker sees it."""

    cluster_id: str
    controller_id: int
    """The id of a broker that takes admin requests, or -1 if none is known."""
    brokers: tuple[BrokerDescription, ...]


@dataclass(frozen=True, slots=True)
class QuorumReplica:
    """One replica of the metadata log, at a controller or a broker."""

    node_id: int
    directory_id: str
    log_end_offset: int
    """The replica's log end offset, or -1 if it is unknown."""
    last_fetch_timestamp: int | None = None
    last_caught_up_timestamp: int | None = None


LATE_MS: Final = 10_000
"""A voter is behind if it has not had the whole log, or has not fetched, for so many ms."""


@dataclass(frozen=True, slots=True)
class MetadataQuorum:
    """The controllers' quorum as its leader sees it."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...] = ()
    endpoints: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    """NAME://host:port of each controller; empty if the broker is too old to return them."""

    @property
    def leader_log_end_offset(self) -> int:
        """The leader's log end offset; -1 if the leader is not among the voters."""
        return -1 if self._leader is None else self._leader.log_end_offset

    @property
    def now_ms(self) -> int | None:
        """The leader's clock as it answered, in ms since the epoch; None if the broker is too old.

        `late_ms` counts from this time, at which the leader has its whole log.
        """
        return None if self._leader is None else self._leader.last_caught_up_timestamp

    def late_ms(self, one: QuorumReplica) -> int | None:
        """Return how many ms ago a replica last had the whole log; None if that is unknown."""
        then_ms = one.last_caught_up_timestamp
        if self.now_ms is None or then_ms is None:
            return None
        return max(self.now_ms - then_ms, 0)

    @property
    def _leader(self) -> QuorumReplica | None:
        return next((one for one in self.voters if one.node_id == self.leader_id), None)


class FeatureLevels(NamedTuple):
    """An inclusive range of levels."""

    lowest: int
    highest: int


@dataclass(frozen=True, slots=True)
class FeatureMetadata:
    """The finalised features of the cluster, and those that the broker supports (KIP-584)."""

    finalized: Mapping[str, int]
    """The level of each feature; a feature at level 0 is off and left out."""
    supported: Mapping[str, FeatureLevels]
    epoch: int | None = None
    """The epoch of the finalised features, which grows with the metadata log; None if unknown."""


class FeatureUpdate(NamedTuple):
    """A level to finalise; one below the present level needs a downgrade as `upgrade_type`."""

    level: int
    upgrade_type: UpgradeType = UpgradeType.UPGRADE
