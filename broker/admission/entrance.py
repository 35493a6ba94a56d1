"""Delays new connections that come faster than allowed, before they cost more than a descriptor.

`Entrance` keeps the connections that wait. They are served in the order in which they came to their
listener. A connection that came too fast from its address is closed after a delay, so that its
client does not come again immediately. Kafka's acceptors do the same (KIP-402, KIP-612).
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, Protocol

from ...security.listener import Listener
from .limits import Bounds
from .rates import Rates

HELD_MAX: Final = 256
"""The most connections that wait; any further one that would have to wait is closed immediately."""
TURN_AWAY_MS: Final = 1_000
"""The most milliseconds until a connection that came too fast from its address is closed."""


class Arrival(Protocol):
    """A new connection that is not served yet."""

    host: str
    """The address of the peer, without the port."""
    listener: Listener

    def serve(self) -> None:
        """Begin to serve the connection."""

    def turn_away(self, why: str) -> None:
        """Close the connection; `why` is logged."""


class Entrance:
    """Admits the new connections of one broker, at the allowed rates.

    `later(delay_ms, call)` schedules `call` after `delay_ms`.
    """

    def __init__(
        self,
        rates: Rates,
        now_ms: Callable[[], int],
        later: Callable[[int, Callable[[], None]], object],
    ) -> None:
        self.rates = rates
        self._now_ms = now_ms
        self._later = later
        self._waiting: dict[str, dict[Arrival, None]] = {}
        self._leaving: dict[Arrival, None] = {}
        self._look_ms: int | None = None

    @property
    def is_wide(self) -> bool:
        """True if no rate is limited, so that no connection has to wait."""
        return self.rates.are_off

    @property
    def held(self) -> int:
        """The number of connections that wait, to be served or to be closed."""
        return sum(map(len, self._waiting.values())) + len(self._leaving)

    def bound(self, bounds: Bounds) -> None:
        """Set the rates of the broker and its listeners; serve whoever need not wait any more."""
        self.rates.bound(bounds.rate, bounds.listener_rates, self._now_ms())
        self._look()

    def bound_hosts(self, default: float | None, own: Mapping[str, float]) -> None:
        """Set the rates, in connections per second, of the addresses in `own` and of all others.

        None as `default` means no limit.
        """
        self.rates.bound_hosts(default, own, self._now_ms())

    def arrive(self, arrival: Arrival) -> None:
        """Serve a new connection now or later, or close it."""
        now_ms = self._now_ms()
        late_ms = self.rates.late_from_ms(arrival.host, now_ms)
        if late_ms:
            why = "more came from its address than its connection_creation_rate allows"
            if self.held >= HELD_MAX:
                arrival.turn_away(why)
                return
            self._leaving[arrival] = None
            self._later(min(late_ms, TURN_AWAY_MS), partial(self._turn_away, arrival, why))
            return
        name = arrival.listener.name
        waiting = self._waiting.setdefault(name, {})
        if self.held >= HELD_MAX and (waiting or self.rates.late_ms(name, now_ms)):
            arrival.turn_away(f"{HELD_MAX} others wait for max.connection.creation.rate")
            return
        waiting[arrival] = None
        self._look()

    def forget(self, arrival: Arrival) -> None:
        """Forget a connection that is gone."""
        self._leaving.pop(arrival, None)
        for waiting in self._waiting.values():
            waiting.pop(arrival, None)

    def close(self) -> None:
        """Close all connections that wait, because the broker stops."""
        held = [each for waiting in self._waiting.values() for each in waiting]
        for arrival in (*held, *self._leaving):
            self.forget(arrival)
            arrival.turn_away("the broker stops")

    def _look(self) -> None:
        """Serve the connections whose turn has come, and schedule the next look."""
        now_ms, next_ms = self._now_ms(), None
        for name, waiting in self._waiting.items():
            late_ms = 0
            while waiting and not (late_ms := self.rates.late_ms(name, now_ms)):
                arrival = next(iter(waiting))
                del waiting[arrival]
                self.rates.take(name, now_ms)
                arrival.serve()
            if waiting:
                next_ms = now_ms + late_ms if next_ms is None else min(next_ms, now_ms + late_ms)
        if next_ms is not None and (self._look_ms is None or next_ms < self._look_ms):
            self._look_ms = next_ms
            self._later(next_ms - now_ms, self._on_time)

    def _on_time(self) -> None:
        self._look_ms = None
        self._look()

    def _turn_away(self, arrival: Arrival, why: str) -> None:
        if arrival in self._leaving:
            del self._leaving[arrival]
            arrival.turn_away(why)
