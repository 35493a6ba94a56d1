"""A broker's leave to act as a leader without asking the controller again. Pure.

With leases (`leader.lease.enable` of the controllers) an old leader that is cut off stops by
itself before the controller has another one elected. A lease begins when the heartbeat was sent
whose answer grants it: the controller counts from its arrival, which was later. Times are of a
clock that goes on while the machine is suspended.

    event                                   held
    an answer grants it for so long         until the sending of its heartbeat and so long
    an answer grants none                   as before
    we ask to be fenced, or to shut down    no more, until a later heartbeat is granted one
    the metadata is being loaded anew       no: we may lead what we lead no more
    no answer                               until it ends
"""

NO_LEASES = 0


class LeaderLease:
    """Bounds what this broker may do alone: acknowledge acks 0 and 1, and serve leader reads."""

    __slots__ = ("_given_up_ms", "is_blind", "is_required", "until_ms")

    def __init__(self) -> None:
        self.is_required = False
        """True if anything depends on the lease; the only question if leases are off."""
        self.is_blind = False
        """Set while the metadata is loaded anew and not acted upon."""
        self.until_ms = -1
        self._given_up_ms = -1

    def on_heartbeat_answered(self, sent_ms: int, lease_ms: int) -> None:
        """Take in an answer to the heartbeat of `sent_ms`; 0: leases are off, -1: none granted."""
        self.is_required = lease_ms != NO_LEASES
        if lease_ms > 0 and sent_ms > self._given_up_ms:
            self.until_ms = max(self.until_ms, sent_ms + lease_ms)

    def give_up(self, now_ms: int) -> None:
        """Give up the lease: we are about to ask that other leaders be elected."""
        self.until_ms, self._given_up_ms = -1, now_ms

    def is_held(self, now_ms: int) -> bool:
        """True if we may act as a leader at this moment."""
        return not self.is_required or (now_ms < self.until_ms and not self.is_blind)
