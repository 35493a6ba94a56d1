"""The settings of logins: what a listener offers, and which key is named if one is wrong."""

from collections.abc import Mapping

import pytest

from minikafka.runtime.errors import ConfigError
from minikafka.security.sasl.settings import ListenerSasl, read_listeners

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
PREFIX = "listener.name.inside."
JAAS = f"{PREFIX}plain.sasl.jaas.config"
GIVEN = {
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    JAAS: f'{MODULE} required username="admin" password="hunter2" user_alice="hunter3";',
}


def read(changes: Mapping[str, str | None], inter_broker: str = "INSIDE") -> ListenerSasl:
    given = {**GIVEN, **{key: value for key, value in changes.items() if value is not None}}
    for key, value in changes.items():
        if value is None:
            del given[key]
    return read_listeners(given, ["INSIDE"], inter_broker)["INSIDE"]


def test_users_and_the_login_of_brokers_are_read() -> None:
    sasl = read({})
    assert sasl.mechanisms["PLAIN"].passwords == {"alice": "hunter3"}
    assert sasl.mechanisms["PLAIN"].reauth_ms == 0
    assert sasl.own is not None
    assert (sasl.own.mechanism, sasl.own.name) == ("PLAIN", "admin")
    assert "hunter" not in repr(sasl)


def test_a_listener_that_brokers_do_not_use_needs_no_login_of_theirs() -> None:
    users = f'{MODULE} required user_alice="hunter3";'
    sasl = read({JAAS: users, "sasl.mechanism.inter.broker.protocol": None}, "OTHER")
    assert sasl.own is None


@pytest.mark.parametrize(
    ("changes", "reauth_ms"),
    [
        ({"connections.max.reauth.ms": "1"}, 1),
        ({"connections.max.reauth.ms": "1", f"{PREFIX}connections.max.reauth.ms": "2"}, 2),
        (
            {
                f"{PREFIX}connections.max.reauth.ms": "2",
                f"{PREFIX}plain.connections.max.reauth.ms": "3",
            },
            3,
        ),
    ],
)
def test_the_nearest_key_decides(changes: dict[str, str | None], reauth_ms: int) -> None:
    assert read(changes).mechanisms["PLAIN"].reauth_ms == reauth_ms


def test_a_listener_may_have_mechanisms_of_its_own() -> None:
    own: dict[str, str | None] = {
        "sasl.enabled.mechanisms": None,
        f"{PREFIX}sasl.enabled.mechanisms": " PLAIN ,",
    }
    assert list(read(own).mechanisms) == ["PLAIN"]


@pytest.mark.parametrize(
    ("changes", "key", "why"),
    [
        ({"sasl.enabled.mechanisms": None}, "sasl.enabled.mechanisms", "is required"),
        ({"sasl.enabled.mechanisms": "GSSAPI"}, "sasl.enabled.mechanisms", "Kerberos"),
        (
            {"sasl.mechanism.inter.broker.protocol": "OAUTHBEARER"},
            "sasl.mechanism.inter.broker.protocol",
            "brokers log in at each other by PLAIN",
        ),
        (
            {f"{PREFIX}sasl.enabled.mechanisms": "plain"},
            f"{PREFIX}sasl.enabled.mechanisms",
            "are PLAIN",
        ),
        ({JAAS: None}, JAAS, "must name the users"),
        ({JAAS: f"{MODULE} required;"}, JAAS, "must name the users"),
        ({JAAS: f'{MODULE} required user_a="";'}, JAAS, "empty"),
        ({JAAS: f'{MODULE} required user_a="hunter3";'}, JAAS, "username and password"),
        ({JAAS: GIVEN[JAAS].replace(";", " tokenauth=true;")}, JAAS, "by a token"),
        (
            {"sasl.mechanism.inter.broker.protocol": None},
            "sasl.mechanism.inter.broker.protocol",
            "is required",
        ),
        (
            {"sasl.mechanism.inter.broker.protocol": "GSSAPI"},
            "sasl.mechanism.inter.broker.protocol",
            "Kerberos",
        ),
        (
            {f"{PREFIX}connections.max.reauth.ms": "-1"},
            f"{PREFIX}connections.max.reauth.ms",
            "integer",
        ),
        ({"connections.max.reauth.ms": "-1"}, "connections.max.reauth.ms", "at least 0"),
    ],
)
def test_a_wrong_key_is_named(changes: dict[str, str | None], key: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why) as caught:
        read(changes)
    assert caught.value.key == key
    assert "hunter" not in str(caught.value)
