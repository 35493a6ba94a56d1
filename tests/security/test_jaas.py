"""Kafka's JAAS text: what is read from it, and what is refused without showing a secret."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.runtime.errors import ConfigError
from minikafka.security.sasl.jaas import parse_jaas

KEY = "listener.name.a.plain.sasl.jaas.config"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


def test_users_and_the_own_login_are_read() -> None:
    text = f"""{PLAIN} required
        username="admin" // brokers log in as this
        password='p"w'   /* quoted
        twice */
        user_alice=plain
        user_a.b="sp ace;=" user_c="\\"q\\\\";
    """
    login = parse_jaas(KEY, text, "PLAIN")
    assert (login.username, login.password) == ("admin", 'p"w')
    assert login.passwords == {"alice": "plain", "a.b": "sp ace;=", "c": '"q\\'}


def test_options_of_kafka_that_mean_nothing_here_are_kept() -> None:
    login = parse_jaas(
        KEY, f'{SCRAM} Required username="u" password="p" debug="true";', "SCRAM-SHA-512"
    )
    assert login.username == "u"
    assert login.passwords == {}
    assert not login.is_token


@pytest.mark.parametrize(("value", "is_token"), [("true", True), ("TRUE", True), ("yes", False)])
def test_a_text_says_whether_it_is_about_a_token(value: str, is_token: bool) -> None:
    text = f'{SCRAM} required username="u" password="p" tokenauth="{value}";'
    assert parse_jaas(KEY, text, "SCRAM-SHA-256").is_token is is_token


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is not"),
        (";", "is not"),
        (PLAIN, "is not"),
        (f'{PLAIN} required user_a="hunter2"', "must end in a semicolon"),
        (f"{PLAIN} needed user_a=hunter2;", "second word"),
        (f"{PLAIN} required user_a=hunter2; {PLAIN} required;", "option 2 is not name"),
        (f"{PLAIN} required user_a hunter2;", "option 1 is not name"),
        (f"{PLAIN} required user_a=;", "option 1 is not name"),
        (f"{PLAIN} required a=hunter2 a=hunter2;", "option 2 is given twice"),
        (f'{PLAIN} required user_a="hunter2;', "cannot be there"),
        ("com.sun.security.auth.module.JndiLoginModule required;", "loads code"),
        ("com.sun.security.auth.module.Krb5LoginModule required;", "GSSAPI"),
        ("os.system required;", "the login modules are"),
        (f"{SCRAM} required;", "not PLAIN"),
    ],
)
def test_a_text_is_refused_in_one_line_without_its_secrets(text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why) as caught:
        parse_jaas(KEY, text, "PLAIN")
    assert caught.value.key == KEY
    assert "hunter2" not in str(caught.value)
    assert "\n" not in str(caught.value)


@given(st.text(alphabet=f"{PLAIN}'\"=;/*\\ \n", max_size=60))
def test_no_text_raises_anything_else(rest: str) -> None:
    with contextlib.suppress(ConfigError):
        parse_jaas(KEY, f"{PLAIN} required {rest}", "PLAIN")
