"""The leases of registered brokers: a broker with a live lease counts as alive.

Progress on the control connection renews a lease. It ends, and the broker is fenced, when

    the control connection made no progress for the session time;
    heartbeats that used to arrive stopped for that time, a TCP probe is refused, and nothing came
    over the control connection since the probe began;
    the control connection is lost and the probe is refused: the broker has just crashed;
    it has not connected to a new controller and the probe is refused: it crashed before.

Heartbeats (UDP) are one more way to notice a death; TCP suffices if they never arrive. Because
anybody can send a datagram, neither datagrams nor their absence end the lease of a broker whose
control connection makes progress.
Leases are not persistent: a controller that becomes active, or that was itself stalled, gives
every broker a full session from then on.

    machine input                      effects
    on_registered, on_control_contact  -
    on_connection_opened               -
    on_connection_lost                 Probe when it was the last one
    on_heartbeat                       -
    on_probed                          LeaseExpired, or Warning when only UDP is blocked
    on_deadline                        LeaseExpired, Probe, Warning
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, TypeAlias

from ..protocol.control.heartbeat import Heartbeat
from ..protocol.control.image import BrokerRegistration

ABSENT_MS: Final = 200
"""Milliseconds after which an unfenced broker that has not connected to a new controller is probed.
So short a delay is safe, because a live broker answers the probe; one that does not answer keeps
its lease for the whole session."""
AHEAD_MAX: Final = 1000
"""The most by which a sequence number may jump. A datagram beyond it counts only after a session
without one that counted."""
OWN_STALL_MS: Final = 250
"""A deadline noticed this late shows that this process was stalled and has messages to read."""


class ProbeOutcome(Enum):
    """The result of a TCP connection attempt to the broker's listener."""

    ANSWERED = auto()
    REFUSED = auto()
    """The host is up and nothing listens, so the process is gone."""
    SILENT = auto()
    """No answer came in time, or the host cannot be reached."""


class Doubt(Enum):
    """The reason to probe whether a broker is alive."""

    CONNECTION_LOST = auto()
    """The broker's last connection ended, or it never connected to this new active controller."""
    HEARTBEATS_STOPPED = auto()


@dataclass(frozen=True, slots=True)
class Probe:
    """Try to connect to the broker and report the outcome."""

    broker_id: int
    broker_epoch: int


@dataclass(frozen=True, slots=True)
class LeaseExpired:
    """This start of the broker counts as dead and must be fenced."""

    broker_id: int
    broker_epoch: int
    reason: str


@dataclass(frozen=True, slots=True)
class Warning:
    """A warning to be logged."""

    text: str


LeaseEffect: TypeAlias = Probe | LeaseExpired | Warning


@dataclass(slots=True)
class Lease:
    """One start of a broker, and when this controller heard from it."""

    broker_id: int
    broker_epoch: int
    incarnation_id: bytes
    contact_ms: int
    """Time of the last progress of the control connection."""
    opened_ms: int
    is_live: bool = True
    connection_count: int = 0
    heartbeat_ms: int | None = None
    """Time of the last heartbeat; None while heartbeats are not expected."""
    sequence: int = -1
    probing: Doubt | None = None
    """The reason for the probe under way; None if there is none."""
    probed_ms: int = 0
    """Time of the newest probe for heartbeats that stopped."""
    absent_at_ms: int | None = None
    """Time to probe a broker that has not connected; None if it has connected or was probed."""
    is_warned: bool = False
    metadata_offset: int = -1
    shutdown_offset: int = -1
    leaving_since_ms: int = -1
    """Time when the broker first asked for its controlled shutdown here; -1 if it has not."""

    @property
    def heard_ms(self) -> int:
        """The time when anything from the broker last arrived, over TCP or UDP."""
        return max(self.contact_ms, self.heartbeat_ms or 0)

    def deadlines(self, session_ms: int) -> list[int]:
        """Return the times at which the lease must be checked."""
        if not self.is_live:
            return []
        found = [self.contact_ms + session_ms]
        if self.absent_at_ms is not None:
            found.append(self.absent_at_ms)
        if self.probing is None and self.heartbeat_ms is not None:
            found.append(self.heartbeat_ms + session_ms)
        if self.sequence < 0 and not self.is_warned:
            found.append(self.opened_ms + session_ms)
        return found


class Leases:
    """The leases of all brokers."""

    def __init__(self, session_ms: int) -> None:
        self.session_ms = session_ms
        self._leases: dict[int, Lease] = {}

    def __getitem__(self, broker_id: int) -> Lease:
        return self._leases[broker_id]

    @property
    def all(self) -> Iterable[Lease]:
        """All leases."""
        return self._leases.values()

    def find(self, broker_id: int) -> Lease | None:
        """Return the lease of a broker; None if the broker has none."""
        return self._leases.get(broker_id)

    def restart(self, brokers: list[BrokerRegistration], now_ms: int) -> None:
        """Replace all leases: each of these brokers that is not fenced gets a full session."""
        before, self._leases = self._leases, {}
        for broker in brokers:
            self.on_registered(broker, now_ms)
            lease, old = self._leases[broker.broker_id], before.get(broker.broker_id)
            lease.is_live = not broker.fenced
            if old is not None and old.broker_epoch == broker.broker_epoch:
                lease.connection_count = old.connection_count
            if lease.is_live and not lease.connection_count:
                lease.absent_at_ms = now_ms + ABSENT_MS

    def is_live(self, broker_id: int) -> bool:
        """True if the newest known start of the broker counts as alive."""
        lease = self._leases.get(broker_id)
        return lease is not None and lease.is_live

    def applied_by_others(self, broker_ids: list[int]) -> int | None:
        """Return the lowest metadata offset of these brokers; -1 if one has reported none.

        Return None if `broker_ids` is empty.
        """
        leases = (self._leases.get(broker_id) for broker_id in broker_ids)
        return min(
            (-1 if lease is None else lease.metadata_offset for lease in leases), default=None
        )

    def on_registered(self, broker: BrokerRegistration, now_ms: int) -> None:
        """Begin the lease of a registered broker, in place of that of an earlier incarnation.

        A repeated registration of the same start only renews its lease.
        """
        lease = self._leases.get(broker.broker_id)
        if lease is not None and lease.broker_epoch == broker.broker_epoch:
            self.on_control_contact(broker.broker_id, broker.broker_epoch, now_ms)
            return
        self._leases[broker.broker_id] = Lease(
            broker.broker_id,
            broker.broker_epoch,
            broker.incarnation_id,
            contact_ms=now_ms,
            opened_ms=now_ms,
        )

    def on_connection_opened(self, broker_id: int, broker_epoch: int, now_ms: int) -> None:
        """Note that a control connection now belongs to this start of the broker."""
        if (lease := self._of(broker_id, broker_epoch)) is not None:
            lease.connection_count += 1
            lease.absent_at_ms = None
            self.on_control_contact(broker_id, broker_epoch, now_ms)

    def on_connection_lost(self, broker_id: int, broker_epoch: int) -> list[LeaseEffect]:
        """Note that a connection ended.

        After the broker's last one, probe at once whether its process ended too.
        """
        lease = self._of(broker_id, broker_epoch)
        if lease is None:
            return []
        lease.connection_count -= 1
        if lease.connection_count or not lease.is_live or lease.probing:
            return []
        lease.probing = Doubt.CONNECTION_LOST
        return [Probe(broker_id, broker_epoch)]

    def on_control_contact(self, broker_id: int, broker_epoch: int, now_ms: int) -> None:
        """Renew or reopen the lease, because something from this start arrived over TCP."""
        if (lease := self._of(broker_id, broker_epoch)) is not None:
            lease.contact_ms = now_ms
            if not lease.is_live:
                lease.is_live = True
                lease.heartbeat_ms = None

    def on_heartbeat(self, heartbeat: Heartbeat, now_ms: int) -> None:
        """Note the heartbeat of a datagram, if it counts.

        It counts if it is from the broker's newest start and its sequence number is higher than the
        last, by at most `AHEAD_MAX`. After a session without one that counted, any number counts;
        otherwise a forged high number would shut out all true ones for ever.
        """
        lease = self._of(heartbeat.broker_id, heartbeat.broker_epoch)
        if (
            lease is not None
            and lease.is_live
            and heartbeat.incarnation_id == lease.incarnation_id
            and (
                lease.sequence < heartbeat.sequence <= lease.sequence + AHEAD_MAX
                or lease.heartbeat_ms is None
                or now_ms >= lease.heartbeat_ms + self.session_ms
            )
        ):
            lease.sequence = heartbeat.sequence
            lease.heartbeat_ms = now_ms
            if lease.probing is Doubt.HEARTBEATS_STOPPED:
                lease.probing = None

    def on_probed(self, probe: Probe, outcome: ProbeOutcome) -> list[LeaseEffect]:
        """Act on a probe's outcome: expire the lease if the broker's process is gone.

        No newer start of the broker can have answered, because it would have registered first.
        """
        lease = self._of(probe.broker_id, probe.broker_epoch)
        if lease is None or lease.probing is None:
            return []
        doubt, lease.probing = lease.probing, None
        if not lease.is_live:
            return []
        if doubt is Doubt.CONNECTION_LOST:
            if outcome is ProbeOutcome.REFUSED and lease.connection_count == 0:
                return [self._expire(lease, "no connection, and its listener refuses: crashed")]
            return []
        if outcome is ProbeOutcome.REFUSED and lease.contact_ms <= lease.probed_ms:
            why = f"no heartbeat for {self.session_ms} ms, and its listener refuses: crashed"
            return [self._expire(lease, why)]
        # Nothing shows that the broker is gone. TCP alone decides until datagrams come again.
        lease.heartbeat_ms = None
        return self._warn(lease, "heartbeats (UDP) stopped arriving")

    def next_deadline_ms(self) -> int | None:
        """Return the time of the next call of `on_deadline`; None if none is due."""
        return min(
            (
                deadline
                for lease in self._leases.values()
                for deadline in lease.deadlines(self.session_ms)
            ),
            default=None,
        )

    def on_deadline(self, now_ms: int) -> list[LeaseEffect]:
        """End the leases that are over, and ask for the probes that are due."""
        due = self.next_deadline_ms()
        if due is None or now_ms < due:
            return []
        if now_ms - due >= OWN_STALL_MS:
            self._forgive(now_ms)
            return [Warning(f"this controller stood still for {now_ms - due} ms or more")]
        effects: list[LeaseEffect] = []
        for lease in self._leases.values():
            if lease.is_live:
                effects.extend(self._look_at(lease, now_ms))
        return effects

    def _look_at(self, lease: Lease, now_ms: int) -> list[LeaseEffect]:
        since = now_ms - self.session_ms
        if lease.contact_ms <= since:
            why = f"its control connection made no progress for {self.session_ms} ms"
            return [self._expire(lease, why)]
        if lease.absent_at_ms is not None and lease.absent_at_ms <= now_ms:
            lease.absent_at_ms = None
            lease.probing = Doubt.CONNECTION_LOST
            return [Probe(lease.broker_id, lease.broker_epoch)]
        if lease.heartbeat_ms is not None and lease.heartbeat_ms <= since and not lease.probing:
            lease.probing, lease.probed_ms = Doubt.HEARTBEATS_STOPPED, now_ms
            return [Probe(lease.broker_id, lease.broker_epoch)]
        if lease.sequence < 0 and lease.opened_ms <= since:
            return self._warn(lease, "no heartbeat (UDP) ever arrived")
        return []

    def _forgive(self, now_ms: int) -> None:
        for lease in self._leases.values():
            lease.contact_ms = lease.opened_ms = now_ms
            if lease.absent_at_ms is not None:
                lease.absent_at_ms = now_ms + ABSENT_MS
            if lease.heartbeat_ms is not None:
                lease.heartbeat_ms = now_ms

    def _expire(self, lease: Lease, reason: str) -> LeaseExpired:
        lease.is_live = False
        lease.probing = None
        lease.heartbeat_ms = None
        return LeaseExpired(lease.broker_id, lease.broker_epoch, reason)

    def _warn(self, lease: Lease, what: str) -> list[LeaseEffect]:
        if lease.is_warned:
            return []
        lease.is_warned = True
        text = f"{what} from broker {lease.broker_id}: its liveness rests on TCP alone"
        return [Warning(text)]

    def _of(self, broker_id: int, broker_epoch: int) -> Lease | None:
        lease = self._leases.get(broker_id)
        return lease if lease is not None and lease.broker_epoch == broker_epoch else None
