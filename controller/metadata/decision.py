"""A decision, which is an answer and records, and the cluster that it is made from.

A decision function reads the `Cluster` and returns records and an answer; it changes nothing. The
driver appends the records, replays them into the image, and sends the answer once they are
committed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from ...protocol.control.image import BrokerRegistration, MetadataImage
from ...protocol.control.records import BROKER, ELIGIBLE_LEADERS, TOPIC, MetadataRecord
from ...protocol.errors import ApiError, ErrorCode
from ...security.tokens import TokenPolicy
from .leader_leases import LeaderLeases
from .mutations import UNLIMITED, Allowance

A_co = TypeVar("A_co", covariant=True)

DECISION_RECORDS_MAX = 10_000
"""The most records of a decision; they form one batch, which brokers apply in one step."""


@dataclass(frozen=True, slots=True)
class Occasion:
    """The circumstances of a forwarded request: its principal, its time, its ids, its quota."""

    principal: str
    """The principal of the client, as its broker knows it; empty if the broker itself asks."""
    now_ms: int
    """The time of day in milliseconds since the epoch."""
    id_of: Callable[[str], bytes]
    """Returns 16 random bytes for a text, the same ones whenever the request is repeated."""
    allowance: Allowance = UNLIMITED
    """The quota for created and deleted partitions, which a decision about topics charges."""


@dataclass(frozen=True, slots=True)
class Decision(Generic[A_co]):
    """An answer, and the records to commit before it is sent: all of them, or none."""

    answer: A_co
    records: Sequence[MetadataRecord] = ()


@dataclass(frozen=True, slots=True)
class Defaults:
    """The controller's own settings, used if the metadata sets none."""

    partition_count: int = 1
    replication_factor: int = 3
    topic_deletion: bool = True
    topic_settings: dict[str, str] = field(default_factory=dict)
    """Values of topic keys, unclean election among them, by topic key."""
    switches: dict[str, bool] = field(default_factory=dict)
    """Values of the cluster's switches by their keys."""


@dataclass(frozen=True, slots=True)
class Living:
    """Says which brokers may lead once a decision is carried out."""

    image: MetadataImage
    returning: int = -1
    """The broker that the decision unfences; -1 for none."""
    leaving: int = -1
    """The broker that the decision fences or takes the lead from; -1 for none."""

    def may_lead(self, broker_id: int) -> bool:
        """True if the broker may become a leader."""
        if broker_id in (self.returning, self.leaving):
            return broker_id == self.returning
        broker = self.image.brokers.get(broker_id)
        return broker is not None and broker.is_active

    def may_stay(self, broker_id: int) -> bool:
        """True if the broker may stay a leader.

        A broker in controlled shutdown may, until another can take over.
        """
        broker = self.image.brokers.get(broker_id)
        return broker_id != self.leaving and broker is not None and not broker.fenced


@dataclass(slots=True)
class Cluster:
    """The state that decisions are made from."""

    image: MetadataImage
    defaults: Defaults = field(default_factory=Defaults)
    leases: LeaderLeases | None = None
    """The leases of leaders; None if leases are off."""
    tokens: TokenPolicy | None = None
    """The rules of delegation tokens; None if tokens are off."""

    @property
    def next_offset(self) -> int:
        """The offset that the first record of the next decision gets."""
        return self.image.offset + 1

    def is_active(self, broker_id: int) -> bool:
        """True if the broker is registered, unfenced and not in controlled shutdown."""
        broker = self.image.brokers.get(broker_id)
        return broker is not None and broker.is_active

    @property
    def living(self) -> Living:
        """The brokers that may lead now."""
        return Living(self.image)

    def active_brokers(self) -> list[BrokerRegistration]:
        """Return the brokers that are unfenced and not in controlled shutdown, sorted by id."""
        brokers = self.image.brokers
        return [brokers[broker_id] for broker_id in sorted(brokers) if self.is_active(broker_id)]

    def unclean_election(self, topic: str) -> bool:
        """True if a replica outside the ISR may lead partitions of this topic."""
        return (self.topic_setting(topic, UNCLEAN_ELECTION) or "").strip().lower() == "true"

    @property
    def has_eligible_leaders(self) -> bool:
        """True if ISRs may become empty, and eligible leaders outside them are kept (KIP-966)."""
        return self.image.features.get(ELIGIBLE_LEADERS, 0) >= 1

    def min_isr(self, topic: str) -> int:
        """Return the topic's min.insync.replicas as configured."""
        return int(self.topic_setting(topic, MIN_ISR) or 1)

    def topic_setting(self, topic: str, key: str) -> str | None:
        """Return the topic's own value, else the cluster's dynamic default, else the controller's.

        Return None if the key is set nowhere.
        """
        configs = self.image.configs
        for resource in ((TOPIC, topic), (BROKER, "")):
            value = configs.get(resource, {}).get(key)
            if value is not None:
                return value
        return self.defaults.topic_settings.get(key)

    def is_on(self, switch: str) -> bool:
        """True if a switch of the cluster is on, by its dynamic value or the controller's own."""
        return self.would_be_on(switch, self.image.configs.get((BROKER, ""), {}).get(switch))

    def would_be_on(self, switch: str, value: str | None) -> bool:
        """True if a switch is on with this dynamic value, or without one."""
        if value is None:
            return self.defaults.switches.get(switch, False)
        return value.strip().lower() == "true"

    def check_broker_epoch(self, broker_id: int, broker_epoch: int) -> BrokerRegistration:
        """Return the broker's registration; raise ApiError if its epoch is not `broker_epoch`."""
        broker = self.image.brokers.get(broker_id)
        if broker is None:
            detail = f"broker {broker_id} is not registered: register before anything else"
            raise ApiError(ErrorCode.BROKER_ID_NOT_REGISTERED, detail)
        if broker.broker_epoch != broker_epoch:
            detail = f"broker {broker_id} has epoch {broker.broker_epoch}, not {broker_epoch}"
            raise ApiError(ErrorCode.STALE_BROKER_EPOCH, f"{detail}: register again")
        return broker


UNCLEAN_ELECTION = "unclean.leader.election.enable"
MIN_ISR = "min.insync.replicas"
