"""Admits connections: how many in all, how many from one address, and which goes when it is full.

Owns the list of open connections. A new connection takes the place of one that has never asked for
anything, or nothing for long; if there is none, the new one is refused. So peers that connect and
stay silent keep nobody out, a follower that comes back least of all.
"""

from typing import Final, NamedTuple, Protocol

from ...storage.files import DEFAULT_MAX_OPEN

KEPT_MAX: Final = 256
"""Descriptors for all but clients and logs: checkpoints, flushes, other brokers, scrapes."""
LOOKED_AT: Final = 64
"""Connections looked at for one that can go, when somebody new comes."""


class Budget(NamedTuple):
    """How the descriptors of a process are shared."""

    files: int
    """Open files of each data directory."""
    connections: int


def share_descriptors(limit: int, directories: int) -> Budget:
    """Share descriptors: files get up to half of those left, in all directories.

    Clients the rest.
    """
    left = limit - min(KEPT_MAX, limit // 4)
    files = max(1, min(DEFAULT_MAX_OPEN, left // 2 // max(1, directories)))
    return Budget(files, max(1, left - files * directories))


class Guest(Protocol):
    """A connection, as far as its place is concerned."""

    host: str
    """Address of its peer, without the port."""

    @property
    def is_silent(self) -> bool:
        """True if the peer asked for nothing so far, or for long, and waits for nothing."""

    def cut(self, why: str) -> None:
        """End the connection: another one takes its place."""

    def close(self) -> None:
        """End the connection: the broker stops."""


class Doors:
    """The open connections, by when they came or were last looked at."""

    def __init__(self, places: int, *, connections_max: int, per_host_max: int) -> None:
        """`places` is how many connections the process has descriptors for."""
        self._places = places
        self.connections: dict[Guest, None] = {}
        self._hosts: dict[str, int] = {}
        self._is_closed = False
        self.admitted = self.refused = 0
        """Connections since the start."""
        self.bound(connections_max=connections_max, per_host_max=per_host_max)

    def bound(self, *, connections_max: int, per_host_max: int) -> None:
        """Hold to these bounds from now on; connections that are open stay."""
        self.connections_max = min(connections_max, self._places)
        self.per_host_max = per_host_max

    def close(self) -> None:
        """Close every connection, and admit none that was accepted and is not yet made."""
        self._is_closed = True
        for guest in list(self.connections):
            guest.close()

    def admit(self, guest: Guest) -> str | None:
        """Take a new connection in, or say why not."""
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
        """Find a silent connection among a few that were not looked at for the longest time."""
        for _ in range(min(LOOKED_AT, len(self.connections))):
            guest = next(iter(self.connections))
            if guest.is_silent:
                return guest
            del self.connections[guest]
            self.connections[guest] = None
        return None
