"""The settings of OAUTHBEARER on a listener: what is read, and the key of an error."""

import pytest

from minikafka.runtime.errors import ConfigError
from minikafka.security.sasl.bearer_tokens import TokenRules
from minikafka.security.sasl.oauth_settings import SECURED, UNSECURED, TokenChecks
from minikafka.security.sasl.settings import read_listeners
from minikafka.security.token_urls import ALLOWED_FILES, ALLOWED_URLS, check_allowed, parse_url

MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
OWN = "listener.name.inside.oauthbearer."
JAAS = f"{OWN}sasl.jaas.config"
HANDLER = f"{OWN}sasl.server.callback.handler.class"
JWKS = "sasl.oauthbearer.jwks.endpoint.url"
URL = "https://issuer.example/keys"


def read(**changes: str) -> TokenChecks:
    given = {"sasl.enabled.mechanisms": "OAUTHBEARER", **changes}
    checks = read_listeners(given, ["INSIDE"], "OTHER")["INSIDE"].mechanisms["OAUTHBEARER"].tokens
    assert checks is not None
    return checks


def test_the_rules_and_the_place_of_the_keys_are_read() -> None:
    checks = read(
        **{
            JWKS: URL,
            "sasl.oauthbearer.expected.audience": "kafka, logs",
            "sasl.oauthbearer.expected.issuer": "https://issuer.example",
            "sasl.oauthbearer.clock.skew.seconds": "5",
            "sasl.oauthbearer.scope.claim.name": "roles",
            "sasl.oauthbearer.sub.claim.name": "client_id",
            JAAS: f'{MODULE} required ssl.truststore.location="ca.pem" ssl.key.password="hunter2";',
            HANDLER: SECURED[0],
        }
    )
    issuer = "https://issuer.example"
    assert checks.rules == TokenRules(("kafka", "logs"), issuer, 5000, "roles", "client_id")
    assert checks.source is not None
    assert checks.source.url == parse_url(JWKS, URL)
    assert dict(checks.source.trust)["ssl.truststore.location"] == "ca.pem"
    assert "hunter2" not in repr(checks)


def test_the_nearest_key_decides() -> None:
    of_listener = {JWKS: URL, f"listener.name.inside.{JWKS}": "https://listener.example/"}
    for changes, host in (
        ({JWKS: URL}, "issuer.example"),
        (of_listener, "listener.example"),
        ({**of_listener, f"{OWN}{JWKS}": "https://mechanism.example/"}, "mechanism.example"),
    ):
        source = read(**changes).source
        assert source is not None
        assert source.url.host == host


def test_tokens_without_a_signature_are_taken_only_if_the_handler_is_named() -> None:
    unsecured = f'{MODULE} required unsecuredLoginStringClaim_sub="alice";'
    assert read(**{HANDLER: UNSECURED, JAAS: unsecured}).source is None
    with pytest.raises(ConfigError, match="which anybody can make, are taken only with") as caught:
        read(**{JAAS: unsecured})
    assert caught.value.key == JWKS
    assert str(caught.value).endswith(f"{HANDLER}={UNSECURED}")


@pytest.mark.parametrize(
    ("changes", "key", "why"),
    [
        ({}, JWKS, "is required with OAUTHBEARER on listener INSIDE"),
        ({JWKS: "issuer.example/keys"}, JWKS, "must begin with https://"),
        ({JWKS: "ftp://issuer.example/"}, JWKS, "must begin with https://"),
        ({JWKS: "https:///keys"}, JWKS, "name a host"),
        ({JWKS: "https://issuer.example:0/"}, JWKS, "name a host"),
        ({JWKS: "https://issuer.example:99999/"}, JWKS, "is no URL"),
        ({JWKS: "https://[::1/"}, JWKS, "is no URL"),
        ({JWKS: "https://issuer..example/"}, JWKS, "is no URL"),
        ({JWKS: f"https://{'a' * 64}.example/"}, JWKS, "is no URL"),
        ({JWKS: "https://a:hunter2@issuer.example/"}, JWKS, "without user, password"),
        ({JWKS: "https://issuer.example/#x"}, JWKS, "fragment"),
        ({JWKS: "https://issuer.example/a b"}, JWKS, "characters"),
        ({JWKS: "https://issuer.example/\x07"}, JWKS, "characters"),
        ({JWKS: "file://host/keys"}, JWKS, "file:///path"),
        ({JWKS: "file:keys"}, JWKS, "file:///path"),
        ({JWKS: "file:///keys%00"}, JWKS, "file:///path"),
        ({JWKS: URL, HANDLER: UNSECURED}, HANDLER, "but sasl.oauthbearer.jwks"),
        ({JWKS: URL, HANDLER: "com.example.Handler"}, HANDLER, "no class is loaded"),
        (
            {JWKS: URL, JAAS: f'{MODULE} required unsecuredValidatorScopeClaimName="x";'},
            JAAS,
            "unsecuredValidatorScopeClaimName is not supported",
        ),
        ({JWKS: URL, "sasl.oauthbearer.clock.skew.seconds": "-1"}, None, "at least 0"),
        ({JWKS: URL, "sasl.oauthbearer.sub.claim.name": ""}, None, "must name a claim"),
        ({JWKS: URL, "sasl.oauthbearer.scope.claim.name": ""}, None, "must name a claim"),
        (
            {JWKS: URL, "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms": "20000"},
            None,
            "more than retry.backoff.max.ms",
        ),
    ],
)
def test_a_wrong_key_is_named(changes: dict[str, str], key: str | None, why: str) -> None:
    with pytest.raises(ConfigError, match=why) as caught:
        read(**changes)
    assert caught.value.key == (key or list(changes)[-1])
    assert "hunter2" not in str(caught.value)


def test_an_address_must_be_allowed_letter_by_letter(monkeypatch: pytest.MonkeyPatch) -> None:
    http, file = parse_url(JWKS, URL), parse_url(JWKS, "file:///etc/keys.json")
    for url in (http, file):
        with pytest.raises(ConfigError, match=f"the environment variable {ALLOWED_URLS[:10]}"):
            check_allowed(JWKS, url)
    monkeypatch.setenv(ALLOWED_URLS, f"https://other.example/, {URL}")
    check_allowed(JWKS, http)
    for text in (
        f"{URL}/",
        f"{URL}?a",
        "https://ISSUER.example/keys",
        "http://issuer.example/keys",
    ):
        with pytest.raises(ConfigError, match="is not allowed"):
            check_allowed(JWKS, parse_url(JWKS, text))
    monkeypatch.setenv(ALLOWED_FILES, "/etc/keys.json")
    check_allowed(JWKS, file)
    with pytest.raises(ConfigError, match="is not allowed"):
        check_allowed(JWKS, parse_url(JWKS, "file:///etc/../etc/keys.json"))
