"""Limits the rate of new connections: of the broker, of each listener, and from each address.

Pure. A rate is kept as the time up to which earlier connections have used it up, so that nothing
runs while no connection comes. The rate of an address is a client quota (KIP-612).
"""

from collections.abc import Mapping
from math import ceil
from typing import Final

from ...protocol.quotas import CONNECTION_RATE, IP, QuotaEntity
from ...runtime.config import INT32_MAX

BURST_MS: Final = 10_000
"""After a pause, as many connections may come in a burst as the rate allows in this time (ms), as
with Kafka's quota windows."""
HOSTS_MAX: Final = 10_000
"""The most addresses whose rate is remembered. If there are more, the address that came longest ago
is forgotten."""
UNLIMITED: Final = INT32_MAX
"""The rate that means no limit."""
_ROUNDING_MS: Final = 1e-3


class Pace:
    """One limited rate of connections, on average."""

    __slots__ = ("_ahead_ms", "_interval_ms", "_used_ms")

    def __init__(self, rate: float) -> None:
        self._used_ms = 0.0
        self._interval_ms = 1000 / rate

    def change(self, rate: float, now_ms: int) -> None:
        """Set the rate, in connections per second, above 0; it counts for earlier ones too."""
        interval_ms, before_ms = 1000 / rate, self._interval_ms
        self._interval_ms = interval_ms
        self._used_ms = now_ms + max(0.0, self._used_ms - now_ms) * interval_ms / before_ms

    def late_ms(self, now_ms: int) -> int:
        """Return the milliseconds until one more connection may come; 0 if it may come now."""
        ahead_ms = max(0.0, BURST_MS - self._interval_ms)
        return max(0, ceil(self._used_ms - ahead_ms - now_ms - _ROUNDING_MS))

    def take(self, now_ms: int) -> None:
        """Note that a connection came."""
        self._used_ms = max(self._used_ms, now_ms) + self._interval_ms


class Rates:
    """The limited rates of one broker's connections."""

    def __init__(self, protected: str | None = None) -> None:
        """`protected` is the listener that the broker's rate does not limit, only its own rate."""
        self._protected = protected
        self._all: Pace | None = None
        self._listeners: dict[str, Pace] = {}
        self._hosts: dict[str, Pace] = {}
        self._host_default: float | None = None
        self._host_own: Mapping[str, float] = {}

    @property
    def are_off(self) -> bool:
        """True if no rate is limited."""
        return (
            self._all is None
            and not self._listeners
            and self._host_default is None
            and not self._host_own
        )

    def bound(self, in_all: int, listeners: Mapping[str, int], now_ms: int) -> None:
        """Set the rates of the broker and its listeners, per second; UNLIMITED means no limit."""
        self._all = _changed(self._all, in_all, now_ms)
        paces = {
            name: _changed(self._listeners.get(name), rate, now_ms)
            for name, rate in listeners.items()
        }
        self._listeners = {name: pace for name, pace in paces.items() if pace is not None}

    def bound_hosts(self, default: float | None, own: Mapping[str, float], now_ms: int) -> None:
        """Set the rates, per second, of the addresses in `own` and of all others.

        None as `default` means no limit.
        """
        self._host_default = default
        self._host_own = own
        for host, pace in list(self._hosts.items()):
            rate = own.get(host, default)
            if rate is None:
                del self._hosts[host]
            else:
                pace.change(rate, now_ms)

    def late_ms(self, listener: str, now_ms: int) -> int:
        """Return the milliseconds until one more connection may come to a listener; 0 for now."""
        return max((pace.late_ms(now_ms) for pace in self._paces_of(listener)), default=0)

    def take(self, listener: str, now_ms: int) -> None:
        """Note that a connection came to a listener."""
        for pace in self._paces_of(listener):
            pace.take(now_ms)

    def late_from_ms(self, host: str, now_ms: int) -> int:
        """Return the milliseconds until a connection may come from an address.

        0 means that it may come now; it is then counted.
        """
        rate = self._host_own.get(host, self._host_default)
        if rate is None:
            return 0
        pace = self._hosts.pop(host, None) or Pace(rate)
        self._hosts[host] = pace
        if len(self._hosts) > HOSTS_MAX:
            del self._hosts[next(iter(self._hosts))]
        late_ms = pace.late_ms(now_ms)
        if not late_ms:
            pace.take(now_ms)
        return late_ms

    def _paces_of(self, listener: str) -> list[Pace]:
        common = None if listener == self._protected else self._all
        return [pace for pace in (common, self._listeners.get(listener)) if pace is not None]


def rates_of_hosts(
    quotas: Mapping[QuotaEntity, Mapping[str, float]],
) -> tuple[float | None, dict[str, float]]:
    """Return the default rate of addresses, or None, and the rates of single addresses."""
    default, own = None, {}
    for ((kind, name), *_), bounds in quotas.items():
        rate = bounds.get(CONNECTION_RATE) if kind == IP else None
        if rate is not None and name is None:
            default = rate
        elif rate is not None and name is not None:
            own[name] = rate
    return default, own


def _changed(pace: Pace | None, rate: int, now_ms: int) -> Pace | None:
    if rate == UNLIMITED:
        return None
    if pace is None:
        return Pace(rate)
    pace.change(rate, now_ms)
    return pace
