"""Limits the open connections, in all, per listener and per address; closes silent ones for new.

`Doors` keeps the list of open connections, each of which takes a place. If all places are taken, a
new connection replaces a silent one: one whose client has sent no request so far, or none for long.
If there is no silent one, the new connection is refused. So clients that connect and stay silent
cannot keep others out, such as a follower that connects again.

A listener that is protected, because brokers use it among themselves, is limited by its own
max.connections only. If all places of the broker are taken, a new connection to this listener
replaces the least recently used connection of another listener. When a limit is lowered, the least
recently used connections are closed.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from ...security.listener import Listener
from ...storage.files import DEFAULT_MAX_OPEN
from .limits import Bounds

KEPT_MAX: Final = 256
"""The most file descriptors reserved for checkpoints, flushes, other brokers and scrapes."""
LOOKED_AT: Final = 64
"""The most open connections of a listener that are checked for a silent one when all places are
taken. Those inactive for longest are checked first."""


class Budget(NamedTuple):
    """The file descriptors of the process, shared between log files and client connections."""

    files: int
    """The most open files of each data directory."""
    connections: int


def share_descriptors(limit: int, directories: int) -> Budget:
    """Share `limit` descriptors between the files of all directories and clients.

    After a reserve of at most KEPT_MAX, files get at most half of the rest, and clients get the
    remainder.
    """
    left = limit - min(KEPT_MAX, limit // 4)
    files = max(1, min(DEFAULT_MAX_OPEN, left // 2 // max(1, directories)))
    return Budget(files, max(1, left - files * directories))


class Guest(Protocol):
    """A connection of a client, which takes one place."""

    host: str
    """The address of the peer, without the port."""
    listener: Listener
    wall_ms: int
    """The wall time (ms) at which bytes last came; 0 before any came."""
    is_replica: bool
    """True if a follower fetches over the connection."""

    @property
    def is_silent(self) -> bool:
        """True if the peer has sent no request so far, or none for long, and awaits no answer."""

    def cut(self, why: str) -> None:
        """Close the connection, because its place is needed."""

    def close(self) -> None:
        """Close the connection, because the broker stops."""


class Doors:
    """The open connections by listener, and the limits of their number.

    The connections of a listener are kept in a dict, called room, in the order in which they came
    or were last found active.
    """

    def __init__(self, places: int, bounds: Bounds, protected: str | None = None) -> None:
        """`places` is the number of connections for which the process has descriptors.

        `protected` is the name of the listener that max.connections of the broker does not limit.
        """
        self._places = places
        self._protected = protected
        self._rooms: dict[str, dict[Guest, None]] = {}
        self._hosts: dict[str, int] = {}
        self._is_closed = False
        self.admitted = self.refused = 0
        """The numbers of connections admitted and refused since the start."""
        self.proved: dict[str, int] = {}
        """By listener, the connections on which a TLS handshake or a login succeeded. A connection
        with both counts once, at its login."""
        self.proved_again: dict[str, int] = {}
        """By listener, the repeated logins (KIP-368) that succeeded."""
        self.unproved: dict[str, int] = {}
        """By listener, the connections on which a TLS handshake or a login failed."""
        self._bounds = bounds

    @property
    def connections(self) -> list[Guest]:
        """A list of the open connections, ordered by listener."""
        return [guest for room in self._rooms.values() for guest in room]

    def bound(self, bounds: Bounds) -> None:
        """Replace the limits, and close the least recently used connections above them.

        Limits per address apply to new connections only.
        """
        self._bounds = bounds
        for name, room in self._rooms.items():
            self._cut_idlest([room], len(room) - self._most_at(name))
        self._cut_idlest(self._shared_rooms(), self._count() - self._most())

    def close(self) -> None:
        """Close every connection, and refuse those that the system may still accept."""
        self._is_closed = True
        for guest in self.connections:
            guest.close()

    def admit(self, guest: Guest) -> str | None:
        """Register a new connection and return None, or return the reason why it is refused.

        A silent connection may be closed to make room.
        """
        refused = self._find_place(guest)
        if refused is None:
            self.admitted += 1
            self._rooms.setdefault(guest.listener.name, {})[guest] = None
            self._hosts[guest.host] = self._hosts.get(guest.host, 0) + 1
        else:
            self.refused += 1
        return refused

    def crowd_from(self, host: str) -> str | None:
        """Return why an address may open no more connections; None if it may."""
        from_there = self._hosts.get(host, 0)
        if from_there < self._bounds.of_host(host):
            return None
        return f"{from_there} connections from its address: max.connections.per.ip"

    def note_proved(self, listener: str, *, is_again: bool = False) -> None:
        """Count a TLS handshake or a login that succeeded."""
        counts = self.proved_again if is_again else self.proved
        counts[listener] = counts.get(listener, 0) + 1

    def note_unproved(self, listener: str) -> None:
        """Count a client whose handshake, certificate or login was refused."""
        self.unproved[listener] = self.unproved.get(listener, 0) + 1

    def release(self, guest: Guest) -> None:
        """Free the place of a connection that is closed."""
        room = self._rooms.get(guest.listener.name, {})
        if guest not in room:
            return
        del room[guest]
        left = self._hosts[guest.host] - 1
        if left:
            self._hosts[guest.host] = left
        else:
            del self._hosts[guest.host]

    def _find_place(self, guest: Guest) -> str | None:
        if self._is_closed:
            return "the broker stops"
        crowd = self.crowd_from(guest.host)
        if crowd is not None:
            return crowd
        name = guest.listener.name
        room = self._rooms.get(name, {})
        if len(room) >= self._most_at(name) and not self._cut_silent([room]):
            return f"{len(room)} clients are connected to {name}: there is no place left"
        if self._count() >= self._most():
            if name == self._protected:
                self._cut_idlest(self._shared_rooms(), 1)
            elif not self._cut_silent(self._shared_rooms()):
                return f"{self._count()} clients are connected: there is no place left"
        return None

    def _count(self) -> int:
        return sum(map(len, self._rooms.values()))

    def _most(self) -> int:
        return min(self._bounds.connections, self._places)

    def _most_at(self, listener: str) -> int:
        return min(self._bounds.listeners.get(listener, self._places), self._places)

    def _shared_rooms(self) -> list[dict[Guest, None]]:
        """Return the connections that the limit of the whole broker applies to, by listener."""
        return [room for name, room in self._rooms.items() if name != self._protected]

    def _cut_silent(self, rooms: Sequence[dict[Guest, None]]) -> bool:
        """Close one silent connection among the first LOOKED_AT of each room; False if none is.

        Active connections found on the way move to the end of their room.
        """
        for room in rooms:
            for _ in range(min(LOOKED_AT, len(room))):
                guest = next(iter(room))
                if guest.is_silent:
                    self._cut(guest, "it is silent, and its place is needed: no other is free")
                    return True
                del room[guest]
                room[guest] = None
        return False

    def _cut_idlest(self, rooms: Sequence[dict[Guest, None]], excess: int) -> None:
        """Close the `excess` least recently used connections; followers come last."""
        if excess > 0:
            guests = [guest for room in rooms for guest in room]
            for guest in sorted(guests, key=_last_used)[:excess]:
                self._cut(
                    guest, "it was used the longest ago, and there are too many: max.connections"
                )

    def _cut(self, guest: Guest, why: str) -> None:
        self.release(guest)
        guest.cut(why)


def _last_used(guest: Guest) -> tuple[bool, int]:
    return guest.is_replica, guest.wall_ms
