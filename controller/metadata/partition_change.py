"""The builder of the records that change a partition; it also holds the election.

Its steps: (1) complete a reassignment whose new replicas are in sync; (2) make replicas that left
the ISR eligible to lead, except emptied ones (KIP-966); (3) elect, but nobody new while the old
leader's lease lasts; (4) derive ISR and eligible leaders; (5) make the record. A replayed record
raises the partition epoch, and the leader epoch if it sets `leader`. A record sets `leader`, even
to the same broker, when a reassignment completes or a replica leaves.

    valid(r)  may lead (or stay leader) and is in the wanted ISR or, if that is empty, eligible
    elect     the first replica, if the preferred leader is to be elected and it is valid
              else the present leader, if valid; else the first valid replica
              else the replica with the longest log, if known, as the whole ISR
              else nobody. The search for the longest log begins (`electing`) if an unclean election
              is allowed, or if nobody is in sync or eligible and all last known replicas are back

Without eligible leaders (feature level 0) the ISR never becomes empty: its last member stays, and
the partition is leaderless until that replica is back. If its disk was replaced, its copy is gone:
electing it would make the other replicas drop their records too. `directories` names the disks that
held the copy; while they are missing, only an unclean election is possible.
"""

from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple, TypeVar

from ...protocol.control.image import PartitionState
from ...protocol.control.records import PartitionChangeRecord
from ...protocol.types import NO_LEADER, TopicIdPartition
from .decision import Living
from .leader_leases import LeaderLeases

T = TypeVar("T")


class Election(Enum):
    """The kind of an election."""

    ONLINE = auto()
    """Elect another leader only if the present one cannot lead on."""
    PREFERRED = auto()
    """Elect the first replica if it can lead."""
    UNCLEAN = auto()
    """Elect any live replica, even if records are lost; one without loss is preferred."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The settings of the partition's topic and of the cluster."""

    min_isr: int
    """min.insync.replicas as configured, which may exceed the number of replicas."""
    has_eligible_leaders: bool
    unclean_allowed: bool = False
    leases: LeaderLeases | None = None
    """The leases that must end before another broker leads; None if leases are off."""


class Placement(NamedTuple):
    """The replicas of a partition, and those that a reassignment adds and removes."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas once the reassignment is completed."""
        return without(self.replicas, self.removing)

    @property
    def original(self) -> tuple[int, ...]:
        """The replicas if the reassignment is cancelled."""
        return without(self.replicas, self.adding)


class Elected(NamedTuple):
    """The result of an election: a leader, or a search for the longest log (`electing`)."""

    leader: int
    is_unclean: bool = False
    electing: bool = False


class Quorum(NamedTuple):
    """A partition's replicas that are in sync, eligible to lead, and last known (KIP-966)."""

    isr: tuple[int, ...]
    elr: tuple[int, ...]
    last_known: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class PartitionChange:
    """A wanted change of one partition, and the state and rules that decide on it."""

    partition: TopicIdPartition
    state: PartitionState
    rules: Rules
    living: Living
    isr: tuple[int, ...] | None = None
    """The wanted ISR; None if unchanged."""
    recovering: bool | None = None
    """The wanted recovery state; None if unchanged."""
    placement: Placement | None = None
    """The wanted replicas; None if unchanged."""
    election: Election = Election.ONLINE
    emptied: tuple[int, ...] = ()
    """Replicas that may have lost records, and so cannot become eligible leaders."""
    lost_directories: tuple[bytes, ...] = ()
    """Directories that an emptied replica's broker had before, if some of them are missing."""
    copy_is_away: bool = False
    """True if the last good copy may be in a directory that its broker has not registered."""
    longest: int | None = None
    """The live replica with the longest log; None while it is not known."""
    offline: tuple[int, ...] | None = None
    """Replicas whose directory failed; None if unchanged."""

    def build(self) -> PartitionChangeRecord | None:
        """Return the record of the change; None if nothing changes."""
        old = self.state
        isr = old.isr if self.isr is None else self.isr
        before = Placement(old.replicas, old.adding, old.removing)
        placement, isr = self._complete(self.placement or before, isr)
        elr = self._eligible(placement, isr)
        elected = self._after_lease(self._elect(placement.replicas, isr, elr))
        quorum = self._quorum(placement, elected, Quorum(isr, elr))
        recovering = old.recovering if self.recovering is None else self.recovering
        is_completed = before.adding + before.removing and not (
            placement.adding or placement.removing
        )
        replica_left = any(each not in placement.replicas for each in old.replicas)
        leads_anew = elected.leader != old.leader or is_completed or replica_left
        offline = old.offline if self.offline is None else self.offline
        record = PartitionChangeRecord(
            self.partition.topic_id,
            self.partition.partition,
            isr=_news(quorum.isr, old.isr),
            leader=elected.leader if leads_anew else None,
            recovering=True if elected.is_unclean else _news(recovering, old.recovering),
            replicas=_news(placement.replicas, old.replicas),
            elr=_news(quorum.elr, old.elr),
            last_known_elr=_news(quorum.last_known, old.last_known_elr),
            adding=_news(placement.adding, old.adding),
            removing=_news(placement.removing, old.removing),
            directories=_news(self._directories(elected.leader, quorum), old.directories),
            electing=_news(elected.electing, old.electing),
            offline=_news(offline, old.offline),
        )
        nothing = PartitionChangeRecord(self.partition.topic_id, self.partition.partition)
        return None if record == nothing else record

    def _complete(
        self, placement: Placement, isr: tuple[int, ...]
    ) -> tuple[Placement, tuple[int, ...]]:
        """Return placement and ISR, with the reassignment completed if it can be.

        All new replicas must be in sync, and enough members must stay in the ISR to commit.
        """
        if not placement.adding and not placement.removing:
            return placement, isr
        staying = without(isr, placement.removing)
        if not staying or any(each not in isr for each in placement.adding):
            return placement, isr
        needed = min(self.rules.min_isr, len(placement.target))
        if len(staying) < needed and len(staying) < len(isr):
            return placement, isr
        return Placement(placement.target), staying

    def _eligible(self, placement: Placement, isr: tuple[int, ...]) -> tuple[int, ...]:
        """Return the replicas outside the ISR that can lead without loss (the ELR of KIP-966).

        Empty if the ISR is large enough to commit.
        """
        if not self.rules.has_eligible_leaders or len(isr) >= self._min_isr(placement):
            return ()
        old = self.state
        held = tuple(dict.fromkeys((*old.elr, *old.isr)))
        left = without(held, isr + self.emptied)
        return tuple(each for each in left if each in placement.replicas)

    def _elect(
        self, replicas: tuple[int, ...], isr: tuple[int, ...], elr: tuple[int, ...]
    ) -> Elected:
        """Elect a leader from the wanted ISR and the eligible leaders, as the module says."""
        old = self.state
        candidates = () if self.copy_is_away else isr or elr
        if (
            self.election is Election.PREFERRED
            and replicas[0] in candidates
            and self._may_lead(replicas[0])
        ):
            return Elected(replicas[0])
        if old.leader in candidates and self._may_stay(old.leader):
            return Elected(old.leader)
        for replica in replicas:
            if replica in candidates and self._may_lead(replica):
                return Elected(replica)
        if self.longest is not None and self._may_lead(self.longest):
            return Elected(self.longest, is_unclean=True)
        is_last_resort = not isr and not elr and self._last_known_are_back()
        begins = (self._may_lose or is_last_resort) and any(
            self._may_lead(replica) for replica in replicas
        )
        return Elected(NO_LEADER, electing=old.electing or begins)

    def _after_lease(self, elected: Elected) -> Elected:
        """Elect nobody while the old leader may still act as one, by its lease.

        Another change elects once the lease is over.
        """
        leases, old = self.rules.leases, self.state
        if leases is None or elected.leader in (old.leader, NO_LEADER):
            return elected
        if not leases.must_wait(self.partition, old.leader):
            return elected
        return Elected(NO_LEADER, electing=old.electing or elected.is_unclean)

    def _last_known_are_back(self) -> bool:
        """True if all last known replicas are back, one of which has all committed records."""
        known = self._known()
        return bool(known) and all(map(self._may_lead, known)) and not self.copy_is_away

    def _quorum(self, placement: Placement, elected: Elected, wanted: Quorum) -> Quorum:
        """Return the in-sync, eligible and last known replicas after the election."""
        leader, old = elected.leader, self.state
        if elected.is_unclean:
            return Quorum((leader,), ())
        isr, elr = wanted.isr, wanted.elr
        if leader != NO_LEADER and leader not in isr:
            isr = (leader,)
            elr = () if self._min_isr(placement) <= 1 else without(elr, isr)
        elif not isr and not self.rules.has_eligible_leaders:
            isr = old.isr[:1]
        return Quorum(isr, elr, self._last_known(placement, Quorum(isr, elr), elected))

    def _last_known(
        self, placement: Placement, quorum: Quorum, elected: Elected
    ) -> tuple[int, ...]:
        """Return the replicas that had all committed records, but stopped uncleanly.

        Together with ISR and eligible leaders they are at least min.insync.replicas. Any of them
        that lost nothing has every committed record (KIP-966).
        """
        old, isr = self.state, quorum.isr
        if len(isr) >= self._min_isr(placement) or (elected.electing and self._may_lose):
            return ()
        if not self.rules.has_eligible_leaders:
            return () if isr else old.last_known_elr
        left = without(self._known(), isr + quorum.elr)
        return tuple(each for each in left if each in placement.replicas)

    def _known(self) -> tuple[int, ...]:
        """Return the replicas that had all committed records before they stopped uncleanly."""
        old = self.state
        emptied = (each for each in (*old.isr, *old.elr) if each in self.emptied)
        return tuple(dict.fromkeys((*old.last_known_elr, *emptied)))

    @property
    def _may_lose(self) -> bool:
        """True if the longest log may be elected even if committed records are lost."""
        return self.rules.unclean_allowed or self.election is Election.UNCLEAN

    def _directories(self, leader: int, quorum: Quorum) -> tuple[bytes, ...]:
        """Return the lost directories that held the last good copy; none once somebody leads."""
        if leader != NO_LEADER:
            return ()
        holders = quorum.isr or quorum.elr or quorum.last_known
        if self.lost_directories and not self.state.directories and holders == self.emptied:
            return self.lost_directories
        return self.state.directories

    def _may_lead(self, replica: int) -> bool:
        return self._is_online(replica) and self.living.may_lead(replica)

    def _may_stay(self, replica: int) -> bool:
        return self._is_online(replica) and self.living.may_stay(replica)

    def _is_online(self, replica: int) -> bool:
        return replica not in (self.state.offline if self.offline is None else self.offline)

    def _min_isr(self, placement: Placement) -> int:
        return min(self.rules.min_isr, len(placement.original))


def without(brokers: tuple[int, ...], gone: tuple[int, ...]) -> tuple[int, ...]:
    """Return the brokers that are not in `gone`, in their order."""
    return tuple(each for each in brokers if each not in gone)


def _news(new: T, old: T) -> T | None:
    """Return the new value if it differs from the old one, else None."""
    return None if new == old else new
