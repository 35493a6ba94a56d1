"""Listeners: security protocols by name, and the listener of the brokers."""

import pytest

from minikafka.protocol.control.messages import Endpoint
from minikafka.runtime.errors import ConfigError
from minikafka.security.listener import (
    SecurityProtocol,
    inter_broker_name,
    parse_listeners,
    parse_protocols,
    protocol_of,
)

ADVERTISED = (Endpoint("OUTSIDE", "h", 1, "SASL_SSL"), Endpoint("SSL", "h", 2, "SSL"))


def test_a_listener_has_the_protocol_of_the_map_or_of_its_own_name() -> None:
    mapped = parse_protocols(["outside:sasl_ssl", " PLAINTEXT : SSL "])
    assert protocol_of("OUTSIDE", mapped) is SecurityProtocol.SASL_SSL
    assert protocol_of("PLAINTEXT", mapped) is SecurityProtocol.SSL
    assert protocol_of("SASL_PLAINTEXT", mapped) is SecurityProtocol.SASL_PLAINTEXT
    with pytest.raises(ConfigError, match="listener INSIDE is missing"):
        protocol_of("INSIDE", mapped)


@pytest.mark.parametrize(
    ("protocol", "tls", "sasl"),
    [
        (SecurityProtocol.PLAINTEXT, False, False),
        (SecurityProtocol.SSL, True, False),
        (SecurityProtocol.SASL_PLAINTEXT, False, True),
        (SecurityProtocol.SASL_SSL, True, True),
    ],
)
def test_a_protocol_is_tls_or_sasl_or_both(
    protocol: SecurityProtocol, tls: bool, sasl: bool
) -> None:
    assert (protocol.has_tls, protocol.has_sasl) == (tls, sasl)


@pytest.mark.parametrize(
    ("name", "protocol", "chosen"),
    [(None, None, "OUTSIDE"), ("ssl", None, "SSL"), (None, "ssl", "SSL")],
)
def test_brokers_use_the_listener_that_is_named_or_the_first(
    name: str | None, protocol: str | None, chosen: str
) -> None:
    assert inter_broker_name(name, protocol, ADVERTISED) == chosen


def test_names_are_in_upper_case_and_an_address_of_ipv6_has_brackets() -> None:
    assert parse_listeners("listeners", "inside://[::1]:9092, OUT://:0") == (
        Endpoint("INSIDE", "::1", 9092),
        Endpoint("OUT", "", 0),
    )
