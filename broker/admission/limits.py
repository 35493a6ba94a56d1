"""The settings that limit the connections of a broker: number, rate, memory and idle time.

Number and rate may also be set for one listener, by `listener.name.<listener>.` before the key.
"""

import ipaddress
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from ...runtime.config import INT32_MAX, config_table, from_mapping, setting, settings_of
from ...runtime.errors import ConfigError
from ...security.listener import listener_properties

MiB = 1 << 20
PER_IP_OVERRIDES: Final = "max.connections.per.ip.overrides"


@config_table
class ConnectionLimits:
    """Limits of the number, the rate, the memory and the idle time of client connections."""

    queued_max_request_bytes: int = setting(
        "queued.max.request.bytes",
        256 * MiB,
        at_least=-1,
        doc="Memory for requests, partly received ones included; above it large requests "
        "are not read until others are done. -1 means no limit.",
    )
    queued_max_response_bytes: int = setting(
        "minikafka.queued.max.response.bytes",
        512 * MiB,
        at_least=1,
        doc="Memory for unsent responses; above it the connections that have had unsent "
        "responses the longest are closed.",
    )
    connections_max_idle_ms: int = setting(
        "connections.max.idle.ms",
        600_000,
        at_least=-1,
        doc="A connection that completes no request for this long is closed; -1 means never.",
    )
    connections_max_stall_ms: int = setting(
        "minikafka.connections.max.stall.ms",
        30_000,
        at_least=1,
        doc="A connection is closed if it is in the middle of a request or a response and "
        "moves no byte for this long.",
    )
    max_connections: int = setting(
        "max.connections",
        INT32_MAX,
        at_least=0,
        at_most=INT32_MAX,
        dynamic=True,
        doc="The most connections, of the broker and of each listener; one more, or more than file "
        "descriptors allow, replaces an idle one or is closed. The listener of "
        "inter.broker.listener.name, if it is not the only one, is bound by its own number alone. "
        "If the number falls, those that were used the longest ago are closed.",
    )
    max_connections_per_ip: int = setting(
        "max.connections.per.ip",
        INT32_MAX,
        at_least=0,
        at_most=INT32_MAX,
        dynamic=True,
        doc="The most connections from one address; one more is closed at once.",
    )
    max_connections_per_ip_overrides: tuple[str, ...] = setting(
        PER_IP_OVERRIDES,
        (),
        dynamic=True,
        doc="ADDRESS:NUMBER,... : the most connections from single addresses. Names of hosts are "
        "not resolved.",
    )
    max_connection_creation_rate: int = setting(
        "max.connection.creation.rate",
        INT32_MAX,
        at_least=1,
        at_most=INT32_MAX,
        dynamic=True,
        doc="The most new connections a second, to the broker and to each listener; more wait "
        "unread, and beyond 256 they are closed. After a silence ten times as many come at once. "
        "The listener between brokers is excepted as for max.connections.",
    )

    def check(self) -> None:
        """Raise ConfigError if an override is not ADDRESS:NUMBER."""
        _overrides(self)


OF_ONE_LISTENER: Final = tuple(
    row
    for row in settings_of(ConnectionLimits)
    if row.key in ("max.connections", "max.connection.creation.rate")
)
"""The settings that may also be set for one listener."""


class Bounds(NamedTuple):
    """The most open connections, and the most new connections per second."""

    connections: int
    per_host: int
    hosts: Mapping[str, int]
    """The most open connections of each address that has its own limit."""
    listeners: Mapping[str, int]
    """The most open connections of each listener, by its name."""
    rate: int
    listener_rates: Mapping[str, int]

    def of_host(self, host: str) -> int:
        """Return the most open connections of an address."""
        return self.hosts.get(host, self.per_host)


def bounds_of(properties: Mapping[str, str], listeners: Iterable[str]) -> Bounds:
    """Return the bounds that the properties set; a listener without its own has the common ones.

    Raise ConfigError if a value is wrong.
    """
    common = from_mapping(ConnectionLimits, properties)
    own = {
        name: from_mapping(ConnectionLimits, listener_properties(properties, name))
        for name in listeners
    }
    return Bounds(
        connections=common.max_connections,
        per_host=common.max_connections_per_ip,
        hosts=_overrides(common),
        listeners={name: each.max_connections for name, each in own.items()},
        rate=common.max_connection_creation_rate,
        listener_rates={name: each.max_connection_creation_rate for name, each in own.items()},
    )


def _overrides(limits: ConnectionLimits) -> dict[str, int]:
    """Return the limits by address in its shortest spelling; raise ConfigError if one is wrong."""
    numbers: dict[str, int] = {}
    for text in limits.max_connections_per_ip_overrides:
        host, _, number = text.strip().rpartition(":")
        try:
            address = str(ipaddress.ip_address(host.strip("[]")))
        except ValueError:
            why = "is not ADDRESS:NUMBER; names of hosts are not resolved"
            raise ConfigError(PER_IP_OVERRIDES, text, why) from None
        if not (number.isascii() and number.isdecimal() and int(number) <= INT32_MAX):
            raise ConfigError(PER_IP_OVERRIDES, text, "must end in a number of at least 0")
        numbers[address] = int(number)
    return numbers
