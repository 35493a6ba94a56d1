"""Listeners: their names, their security protocols, and the settings that name them.

These are rules on texts and values; nothing is opened here.
"""

import enum
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from ..protocol.control.messages import Endpoint
from ..runtime.config import PORT_MAX
from ..runtime.errors import ConfigError

PROTOCOL_MAP: Final = "listener.security.protocol.map"
INTER_BROKER_NAME: Final = "inter.broker.listener.name"
INTER_BROKER_PROTOCOL: Final = "security.inter.broker.protocol"
OF_LISTENER: Final = "listener.name."
"""The beginning of keys that belong to one listener."""


class SecurityProtocol(enum.Enum):
    """The protocol beneath Kafka's own on a listener: with TLS or without, with SASL or without."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def has_tls(self) -> bool:
        """True if the bytes are encrypted by TLS."""
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def has_sasl(self) -> bool:
        """True if a client must log in by SASL before anything else."""
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)


class Listener(NamedTuple):
    """The listener by which a connection came."""

    name: str
    """The name in `listeners`, in upper case. Answers name the endpoints of this listener."""
    security_protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT


def parse_listeners(key: str, text: str) -> tuple[Endpoint, ...]:
    """Parse NAME://host:port,... ; an empty host means every interface, and names must differ.

    Their security protocols are not looked up. Raise ConfigError, which names `key` and the wrong
    part.
    """
    listeners: list[Endpoint] = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, separator, address = part.partition("://")
        host, colon, port = address.rpartition(":")
        if not (separator and colon and name and port.isascii() and port.isdigit()):
            raise ConfigError(key, text, f"{part!r} is not NAME://host:port")
        if int(port) > PORT_MAX:
            raise ConfigError(key, text, f"there is no port {port}")
        if any(name.upper() == other.name for other in listeners):
            raise ConfigError(key, text, f"listener {name.upper()} is named twice")
        listeners.append(Endpoint(name.upper(), host.strip("[]"), int(port)))
    if not listeners:
        raise ConfigError(key, text, "names no listener")
    return tuple(listeners)


def parse_protocols(pairs: Iterable[str]) -> dict[str, SecurityProtocol]:
    """Parse the NAME:PROTOCOL pairs of listener.security.protocol.map; names are in upper case.

    Raise ConfigError if a part is no such pair.
    """
    mapped: dict[str, SecurityProtocol] = {}
    for pair in pairs:
        listener, colon, protocol = pair.partition(":")
        if not colon:
            raise ConfigError(PROTOCOL_MAP, pair, "is not NAME:PROTOCOL")
        mapped[listener.strip().upper()] = parse_protocol(PROTOCOL_MAP, protocol)
    return mapped


def parse_protocol(key: str, text: str) -> SecurityProtocol:
    """Return the security protocol of that name, in any case. Raise ConfigError if none."""
    found = SecurityProtocol.__members__.get(text.strip().upper())
    if found is None:
        names = ", ".join(SecurityProtocol.__members__)
        raise ConfigError(key, text, f"must be one of {names}")
    return found


def protocol_of(name: str, protocols: Mapping[str, SecurityProtocol]) -> SecurityProtocol:
    """Return a listener's security protocol; a name that is not mapped must itself be one.

    Raise ConfigError otherwise.
    """
    found = protocols.get(name) or SecurityProtocol.__members__.get(name)
    if found is None:
        why = f"listener {name} is missing, and its name is no security protocol"
        raise ConfigError(PROTOCOL_MAP, None, why)
    return found


def inter_broker_name(
    name: str | None, protocol: str | None, advertised: tuple[Endpoint, ...]
) -> str:
    """Return the name of the listener that brokers use among themselves.

    `name` and `protocol` are the values of the two keys that may choose it, of which one at most
    may be set. A protocol chooses the listener of its own name, as in Kafka. If neither is set, the
    first advertised listener is chosen. Raise ConfigError if both are set, or if the chosen
    listener is not advertised.
    """
    if name is not None and protocol is not None:
        why = f"cannot be set together with {INTER_BROKER_NAME}={name}"
        raise ConfigError(INTER_BROKER_PROTOCOL, protocol, why)
    if name is None and protocol is None:
        return advertised[0].name
    key, given = (
        (INTER_BROKER_NAME, name) if name is not None else (INTER_BROKER_PROTOCOL, protocol)
    )
    assert given is not None
    chosen = given.upper() if name is not None else parse_protocol(key, given).value
    if all(each.name != chosen for each in advertised):
        raise ConfigError(key, given, f"listener {chosen} is not an advertised listener")
    return chosen


def listener_properties(properties: Mapping[str, str], listener: str) -> dict[str, str]:
    """Return the properties as they are for one listener.

    `listener.name.<listener>.<key>` is taken as <key>, and replaces what is set for all listeners.
    """
    prefix = f"{OF_LISTENER}{listener.lower()}."
    own = {
        key[len(prefix) :]: value
        for key, value in properties.items()
        if key.lower().startswith(prefix)
    }
    return {**properties, **own}
