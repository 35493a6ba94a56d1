"""Client quotas (KIP-546): which entities have them, which keys there are, which values are valid.

An entity is a user, a client id, both together, or an IP address. The code that
enforces quotas decides which of several applies to a client, and what happens above it.
"""

import ipaddress
import math
from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Final, NamedTuple

from .errors import MOST_DETAIL, ApiError, ErrorCode

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
OF_CLIENTS: Final = (CLIENT_ID, USER)
OF_ADDRESSES: Final = (IP,)

QuotaEntity = tuple[tuple[str, str | None], ...]
"""The parts of an entity as (type, name), sorted by type. The name None is the default of its type.

    (("user", "alice"),)    (("client-id", None), ("user", "alice"))    (("ip", "10.0.0.1"),)
"""

NAME_MAX: Final = 1024
"""The most characters of a name."""
_WHOLE_TO: Final = 1e-6
"""The distance from a whole number up to which a value counts as whole, as in Kafka."""


class Match(IntEnum):
    """The ways in which DescribeClientQuotas compares the name of a part of an entity."""

    EXACT = 0
    DEFAULT = 1
    ANY = 2


class QuotaKey(NamedTuple):
    """The entities that may have a quota, and Kafka's type of its value; LONG and INT are whole."""

    entities: tuple[str, ...]
    type: str


QUOTA_KEYS: Final[Mapping[str, QuotaKey]] = {
    "producer_byte_rate": QuotaKey(OF_CLIENTS, "LONG"),
    "consumer_byte_rate": QuotaKey(OF_CLIENTS, "LONG"),
    "request_percentage": QuotaKey(OF_CLIENTS, "DOUBLE"),
    "controller_mutation_rate": QuotaKey(OF_CLIENTS, "DOUBLE"),
    "connection_creation_rate": QuotaKey(OF_ADDRESSES, "INT"),
}
"""The keys that Kafka has, with their units: bytes per second, percent of one thread's time,
partitions per second, connections per second."""
CONNECTION_RATE: Final = "connection_creation_rate"
_MOST: Final = {"LONG": 2.0**63, "INT": 2.0**31 - 1, "DOUBLE": math.inf}
_ARTICLE: Final = {"LONG": "a LONG", "INT": "an INT", "DOUBLE": "a DOUBLE"}


def entity_of(parts: Iterable[tuple[str, str | None]]) -> QuotaEntity:
    """Return the entity of these parts: sorted, with addresses in their shortest spelling.

    Raise ApiError(INVALID_REQUEST) if there can be no such entity.
    """
    named: dict[str, str | None] = {}
    for kind, name in parts:
        if kind not in (*OF_CLIENTS, *OF_ADDRESSES):
            raise _invalid(f"Unhandled client quota entity type: {kind[:MOST_DETAIL]}")
        if kind in named:
            raise _invalid(f"Invalid client quota entity, duplicate entity type: {kind}")
        if name == "":
            raise _invalid(f"Empty {kind} not supported")
        if name is not None and len(name) > NAME_MAX:
            raise _invalid(f"The name of a {kind} has at most {NAME_MAX} characters")
        named[kind] = name
    if not named:
        raise _invalid("Invalid empty client quota entity")
    if IP not in named:
        return tuple(sorted(named.items()))
    if len(named) > 1:
        raise _invalid(
            "Invalid quota entity combination, IP entity should not be combined with User or"
            " ClientId"
        )
    return ((IP, address_of(named[IP])),)


def address_of(name: str | None) -> str | None:
    """Return an address in its shortest spelling; None is the default of all addresses.

    Host names are refused with ApiError(INVALID_REQUEST), because they are not resolved.
    """
    if name is None:
        return None
    try:
        return str(ipaddress.ip_address(name))
    except ValueError:
        shown = name[:MOST_DETAIL]
        why = "is not a valid IP address; names of hosts are not resolved here"
        raise _invalid(f"{shown} {why}") from None


def check_quota(entity: QuotaEntity, key: str, value: float) -> None:
    """Raise ApiError(INVALID_REQUEST) unless the entity may have the quota `key` of this value."""
    kind, known = entity[0][0], QUOTA_KEYS.get(key)
    if known is None or kind not in known.entities:
        raise _invalid(f"Invalid configuration key {key[:MOST_DETAIL]}")
    if not value > 0:
        raise _invalid(f"Quota {key} must be greater than 0")
    if value > _MOST[known.type] or math.isinf(value):
        raise _invalid(f"Proposed value for {key} is too large for {_ARTICLE[known.type]}.")
    if known.type != "DOUBLE" and value % 1.0 > _WHOLE_TO:
        raise _invalid(f"{key} cannot be a fractional value.")


def _invalid(why: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, why)
