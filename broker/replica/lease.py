"""A broker's leave to act as a leader without asking the controller again. Pure.

With leases (`leader.lease.enable` of the controllers) an old leader that is cut off stops by
itself before the controller has another one elected. A lease begins when the heartbeat was sent
whose answer grants it: the controller counts from its arrival, which was later. Times are of a
clock that goes on while the machine is suspended.

    what happens                            held
    an answer grants it for so long         until the sending of its heartbeat and so long
    an answer grants none                   as before
    we ask to be fenced, or to shut down    no more, until a later heartbeat is granted one
    the metadata is being loaded anew       no: we may lead what we lead no more
    no answer                               until it ends
"""

NO_LEASES = 0


class LeaderLease:
    """What this broker may do on its own: acknowledge acks 0 and 1, and serve leader reads."""

    __slots__ = ("_given_up_ms", "is_blind", "is_required", "until_ms")

    def __init__(self) -> None:
        self.is_required = False
        """Does anything depend on it? The only question where leases are off."""
        self.is_blind = False
        """Set while the metadata is loaded anew and not acted upon."""
        self.until_ms = -1
        self._given_up_ms = -1

    def on_heartbeat_answered(self, sent_ms: int, lease_ms: int) -> None:
        """The heartbeat sent at `sent_ms` was answered: 0 no leases, -1 none for this broker."""
        self.is_required = lease_ms != NO_LEASES
        if lease_ms > 0 and sent_ms > self._given_up_ms:
            self.until_ms = max(self.until_ms, sent_ms + lease_ms)

    def give_up(self, now_ms: int) -> None:
        """Leaders may be elected in our place from now on: we are about to ask for it."""
        self.until_ms, self._given_up_ms = -1, now_ms

    def is_held(self, now_ms: int) -> bool:
        """May we act as a leader, at this moment?"""
        return not self.is_required or (now_ms < self.until_ms and not self.is_blind)
