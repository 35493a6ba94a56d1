"""A follower's half of a fetch session (KIP-227): the positions that the leader knows.

A request names only positions that changed. One request may be sent ahead, while the leader holds
the request before until there is data; each answer is then matched with its own request. Pure.
"""

from ...protocol.messages.fetch import INITIAL_SESSION_EPOCH, INVALID_SESSION_ID
from ..replica.follower import FetchPosition

LAST_EPOCH = 0x7FFFFFFF

Key = tuple[bytes, int]


class ReplicaSession:
    """The session of one fetcher with one leader."""

    __slots__ = ("_is_refused", "_overtaken", "_unanswered", "epoch", "id", "sent")

    def __init__(self) -> None:
        self.id = INVALID_SESSION_ID
        self.epoch = INITIAL_SESSION_EPOCH
        """The session epoch of the next request."""
        self.sent: dict[Key, FetchPosition] = {}
        """The newest position sent for each partition in the session."""
        self._overtaken: dict[Key, FetchPosition | None] = {}
        """The positions in the older of two unanswered requests, where they differ from `sent`."""
        self._unanswered = 0
        self._is_refused = False

    @property
    def is_full(self) -> bool:
        """True if the next fetch must name every partition."""
        return self.epoch == INITIAL_SESSION_EPOCH

    @property
    def is_new(self) -> bool:
        """True until the leader's first answer, which tells whether the leader keeps a session."""
        return self.is_full and not self._is_refused

    def name(self, key: Key, position: FetchPosition) -> None:
        """Name this position in the next request."""
        self._remember(key)
        self.sent[key] = position

    def forget(self, key: Key) -> bool:
        """Drop the partition with the next request; return False if it was not in the session."""
        if key not in self.sent:
            return False
        self._remember(key)
        del self.sent[key]
        return True

    def _remember(self, key: Key) -> None:
        if self._unanswered:
            self._overtaken.setdefault(key, self.sent.get(key))

    def asked(self, key: Key) -> FetchPosition | None:
        """Return the partition's position in the oldest unanswered request; None if it has none."""
        return self._overtaken[key] if key in self._overtaken else self.sent.get(key)

    def on_sent(self) -> None:
        """Count a request that was sent, and set the session epoch of the next one."""
        self._unanswered += 1
        if not self.is_full:
            self.epoch = 1 if self.epoch == LAST_EPOCH else self.epoch + 1

    def on_answered(self, session_id: int) -> None:
        """Note an answer. If it has no session id, there is no session, and fetches stay full."""
        self._unanswered -= 1
        self._overtaken.clear()
        if session_id == INVALID_SESSION_ID:
            self.id, self.epoch, self._is_refused = session_id, INITIAL_SESSION_EPOCH, True
        elif self.is_full:
            self.id, self.epoch = session_id, 1
