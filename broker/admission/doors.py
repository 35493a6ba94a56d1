"""Admits connections, up to a number in all and per address, and closes silent ones for new ones.

Owns the list of open connections. If all places are taken, a new connection replaces one whose peer
has sent no request so far, or none for long; if there is none, the new one is refused. So peers
that connect and stay silent cannot keep others out, such as a follower that connects again.
"""

from typing import Final, NamedTuple, Protocol

from ...storage.files import DEFAULT_MAX_OPEN

KEPT_MAX: Final = 256
"""The most descriptors reserved for checkpoints, flushes, other brokers and scrapes."""
LOOKED_AT: Final = 64
"""The most open connections, the longest inactive first, that are checked for a silent one when all
places are taken.
"""


class Budget(NamedTuple):
    """The file descriptors of the process, shared between log files and client connections."""

    files: int
    """The most open files of each data directory."""
    connections: int


def share_descriptors(limit: int, directories: int) -> Budget:
    """Share `limit` descriptors between the files of all directories and clients.

    After a reserve of up to KEPT_MAX, files get at most half of what is left, and clients the rest.
    """
    left = limit - min(KEPT_MAX, limit // 4)
    files = max(1, min(DEFAULT_MAX_OPEN, left // 2 // max(1, directories)))
    return Budget(files, max(1, left - files * directories))


class Guest(Protocol):
    """A connection that takes one of the places."""

    host: str
    """The address of the peer, without the port."""

    @property
    def is_silent(self) -> bool:
        """True if the peer has sent no request so far, or none for long, and awaits no answer."""

    def cut(self, why: str) -> None:
        """End the connection, because another one takes its place."""

    def close(self) -> None:
        """End the connection, because the broker stops."""


class Doors:
    """The open connections, in the order in which they came or were last found active."""

    def __init__(self, places: int, *, connections_max: int, per_host_max: int) -> None:
        """`places` is the number of connections for which the process has descriptors."""
        self._places = places
        self.connections: dict[Guest, None] = {}
        self._hosts: dict[str, int] = {}
        self._is_closed = False
        self.admitted = self.refused = 0
        """The numbers of connections admitted and refused since the start."""
        self.proved: dict[str, int] = {}
        """By listener, the connections on which a TLS handshake or a login succeeded. One that has
        both counts with its login."""
        self.proved_again: dict[str, int] = {}
        """By listener, the logins that succeeded on connections that were logged in."""
        self.unproved: dict[str, int] = {}
        """By listener, the connections on which a TLS handshake or a login failed."""
        self.bound(connections_max=connections_max, per_host_max=per_host_max)

    def bound(self, *, connections_max: int, per_host_max: int) -> None:
        """Set the limits for new connections; open ones stay."""
        self.connections_max = min(connections_max, self._places)
        self.per_host_max = per_host_max

    def close(self) -> None:
        """Close every connection, and admit no more, even if the system has accepted them."""
        self._is_closed = True
        for guest in list(self.connections):
            guest.close()

    def admit(self, guest: Guest) -> str | None:
        """Register a new connection and return None, or return why it is refused."""
        refused = self._find_place(guest)
        if refused is None:
            self.admitted += 1
            self.connections[guest] = None
            self._hosts[guest.host] = self._hosts.get(guest.host, 0) + 1
        else:
            self.refused += 1
        return refused

    def _find_place(self, guest: Guest) -> str | None:
        if self._is_closed:
            return "the broker stops"
        from_there = self._hosts.get(guest.host, 0)
        if from_there >= self.per_host_max:
            return f"{from_there} connections from its address: max.connections.per.ip"
        if len(self.connections) >= self.connections_max:
            silent = self._find_silent()
            if silent is None:
                return f"{len(self.connections)} clients are connected: there is no place left"
            self.release(silent)
            silent.cut("it is silent, and its place is needed: as many are connected as can be")
        return None

    def note_proved(self, listener: str, *, is_again: bool = False) -> None:
        """Count a TLS handshake or a login that succeeded."""
        counts = self.proved_again if is_again else self.proved
        counts[listener] = counts.get(listener, 0) + 1

    def note_unproved(self, listener: str) -> None:
        """Count a TLS handshake or a login that failed."""
        self.unproved[listener] = self.unproved.get(listener, 0) + 1

    def release(self, guest: Guest) -> None:
        """Give back the place of a connection that is closed."""
        if guest not in self.connections:
            return
        del self.connections[guest]
        left = self._hosts[guest.host] - 1
        if left:
            self._hosts[guest.host] = left
        else:
            del self._hosts[guest.host]

    def _find_silent(self) -> Guest | None:
        """Return a silent connection among the first LOOKED_AT, or None.

        Move active ones to the end.
        """
        for _ in range(min(LOOKED_AT, len(self.connections))):
            guest = next(iter(self.connections))
            if guest.is_silent:
                return guest
            del self.connections[guest]
            self.connections[guest] = None
        return None
