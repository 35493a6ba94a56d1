"""Entities of client quotas and the values that Kafka accepts for them."""

import math

import pytest

from minikafka.protocol.errors import ApiError, ErrorCode
from minikafka.protocol.quotas import check_quota, entity_of

USER = (("user", "alice"),)
ADDRESS = (("ip", "::1"),)


def test_an_entity_has_one_form() -> None:
    assert entity_of([("user", "a"), ("client-id", None)]) == (("client-id", None), ("user", "a"))
    assert entity_of([("user", None)]) == (("user", None),)
    assert entity_of([("ip", "0:0:0:0:0:0:0:1")]) == ADDRESS
    assert entity_of([("ip", None)]) == (("ip", None),)


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        ([], "Invalid empty client quota entity"),
        ([("group", "g")], "Unhandled client quota entity type: group"),
        ([("", "g")], "Unhandled client quota entity type: "),
        ([("user", "a"), ("user", "b")], "duplicate entity type: user"),
        ([("client-id", "")], "Empty client-id not supported"),
        ([("ip", "10.0.0.1"), ("user", "a")], "IP entity should not be combined"),
        ([("client-id", None), ("ip", None)], "IP entity should not be combined"),
        ([("ip", "localhost")], "localhost is not a valid IP address"),
        ([("ip", "10.0.0.1/8")], "10.0.0.1/8 is not a valid IP address"),
        ([("user", "a" * 1025)], "The name of a user has at most 1024 characters"),
    ],
)
def test_what_is_no_entity_is_refused(parts: list[tuple[str, str | None]], why: str) -> None:
    with pytest.raises(ApiError, match=why) as caught:
        entity_of(parts)
    assert caught.value.code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("producer_byte_rate", 1.0),
        ("consumer_byte_rate", 2.0**62),
        ("request_percentage", 0.5),
        ("controller_mutation_rate", 1e-3),
        ("producer_byte_rate", 5 + 1e-7),
    ],
)
def test_a_quota_of_a_client(key: str, value: float) -> None:
    check_quota(USER, key, value)
    check_quota((("client-id", "c"), ("user", None)), key, value)
    with pytest.raises(ApiError, match=f"Invalid configuration key {key}"):
        check_quota(ADDRESS, key, value)


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("retention.ms", 1.0, "Invalid configuration key retention.ms"),
        ("connection_creation_rate", 1.0, "Invalid configuration key connection_creation_rate"),
        ("producer_byte_rate", 0.0, "Quota producer_byte_rate must be greater than 0"),
        ("request_percentage", -1.0, "Quota request_percentage must be greater than 0"),
        ("request_percentage", math.nan, "Quota request_percentage must be greater than 0"),
        ("request_percentage", math.inf, "request_percentage is too large for a DOUBLE"),
        ("producer_byte_rate", 1e19, "producer_byte_rate is too large for a LONG"),
        ("producer_byte_rate", math.inf, "producer_byte_rate is too large for a LONG"),
        ("producer_byte_rate", 10000.5, "producer_byte_rate cannot be a fractional value"),
    ],
)
def test_what_is_no_quota_of_a_client(key: str, value: float, why: str) -> None:
    with pytest.raises(ApiError, match=why) as caught:
        check_quota(USER, key, value)
    assert caught.value.code == ErrorCode.INVALID_REQUEST


def test_a_quota_of_an_address() -> None:
    check_quota(ADDRESS, "connection_creation_rate", 2.0**31 - 1)
    with pytest.raises(ApiError, match="too large for an INT"):
        check_quota(ADDRESS, "connection_creation_rate", 2.0**31)
