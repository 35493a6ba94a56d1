"""A broker's permission to act as a leader without asking the controller again. Pure.

With leases (`leader.lease.enable` of the controllers) an old leader that is cut off stops by itself
before the controller elects another one. A lease is granted by the answer to a heartbeat, and lasts
from the moment when the broker sent that heartbeat. The controller counts from the heartbeat's
arrival, which is later. The clock must continue while the machine is suspended.

    event                                   the lease is held
    an answer grants one of N ms            until N ms after its heartbeat was sent
    an answer grants none                   as before
    we ask to be fenced, or to shut down    not until a later heartbeat is granted one
    the metadata is being loaded anew       not meanwhile, as we may have lost our leaderships
    no answer                               until it ends
"""

NO_LEASES = 0


class LeaderLease:
    """The lease that permits this broker to lead: to answer acks 0 and 1, and serve reads."""

    __slots__ = ("_given_up_ms", "is_blind", "is_required", "until_ms")

    def __init__(self) -> None:
        self.is_required = False
        """True if controllers use leases; otherwise this broker may always act as a leader."""
        self.is_blind = False
        """True while the metadata is being loaded anew and has not been applied."""
        self.until_ms = -1
        self._given_up_ms = -1

    def on_heartbeat_answered(self, sent_ms: int, lease_ms: int) -> None:
        """Note the lease granted to the heartbeat of `sent_ms`.

        `lease_ms` is 0 if the controllers use no leases, and -1 if none is granted.
        """
        self.is_required = lease_ms != NO_LEASES
        if lease_ms > 0 and sent_ms > self._given_up_ms:
            self.until_ms = max(self.until_ms, sent_ms + lease_ms)

    def give_up(self, now_ms: int) -> None:
        """Give up the lease, before the controller is asked to elect other leaders."""
        self.until_ms, self._given_up_ms = -1, now_ms

    def is_held(self, now_ms: int) -> bool:
        """True if this broker may act as a leader at this moment."""
        return not self.is_required or (now_ms < self.until_ms and not self.is_blind)
