"""The settings of OAUTHBEARER on a listener: whose tokens are good, and where their keys are.

The keys are Kafka's. Each may be given for all listeners, for one, or for the mechanism of one, and
the nearest counts. Nothing is fetched here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Final

from ...runtime.config import config_table, from_mapping, setting
from ...runtime.errors import ConfigError
from ..listener import OF_LISTENER, listener_properties
from ..token_urls import TokenUrl, parse_url
from .bearer_tokens import TokenRules
from .jaas import JaasLogin

JWKS: Final = "sasl.oauthbearer.jwks.endpoint.url"
HANDLER: Final = "sasl.server.callback.handler.class"
VALIDATOR_OPTIONS: Final = "unsecuredValidator"
"""The beginning of JAAS options that are refused, because there are settings for them."""
TLS_OPTIONS: Final = "ssl."
_PACKAGE: Final = "org.apache.kafka.common.security.oauthbearer."
UNSECURED: Final = f"{_PACKAGE}internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
"""The handler that must be named for tokens without a signature, which anybody can make."""
SECURED: Final = (
    f"{_PACKAGE}OAuthBearerValidatorCallbackHandler",
    f"{_PACKAGE}secured.OAuthBearerValidatorCallbackHandler",
)
"""The handlers of Kafka whose checks are made here if none is named."""


@config_table
class OAuthBearerConfig:
    """The settings of logins by OAUTHBEARER on a broker's listeners."""

    sasl_oauthbearer_jwks_endpoint_url: str | None = setting(
        JWKS,
        None,
        doc="The address of the public keys of the tokens' issuer (a JSON Web Key Set): https://, "
        "http:// or file:///path; OAUTHBEARER needs it. The environment must allow it too.",
    )
    sasl_oauthbearer_jwks_endpoint_refresh_ms: int = setting(
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        3_600_000,
        at_least=1_000,
        doc="How often the keys are read again. A token with an unknown key has them read earlier, "
        "once in ten seconds at most.",
    )
    sasl_oauthbearer_jwks_endpoint_retry_backoff_ms: int = setting(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
        100,
        at_least=1,
        doc="The wait before the first retry, if the keys cannot be read; it doubles each time.",
    )
    sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms: int = setting(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
        10_000,
        at_least=1,
        at_most=600_000,
        doc="The longest wait before a retry; also how long a broker that starts tries to "
        "read the keys.",
    )
    sasl_oauthbearer_expected_audience: tuple[str, ...] = setting(
        "sasl.oauthbearer.expected.audience",
        (),
        doc="A token must be for one of these audiences (aud). If unset, a token that is for any "
        "audience is refused.",
    )
    sasl_oauthbearer_expected_issuer: str | None = setting(
        "sasl.oauthbearer.expected.issuer",
        None,
        doc="A token must be of this issuer (iss).",
    )
    sasl_oauthbearer_clock_skew_seconds: int = setting(
        "sasl.oauthbearer.clock.skew.seconds",
        30,
        at_least=0,
        at_most=86_400,
        doc="How far the issuer's clock may be from the broker's, for exp, nbf and iat.",
    )
    sasl_oauthbearer_scope_claim_name: str = setting(
        "sasl.oauthbearer.scope.claim.name",
        "scope",
        doc="The claim with the token's scopes: one text or a list of texts, none of them twice.",
    )
    sasl_oauthbearer_sub_claim_name: str = setting(
        "sasl.oauthbearer.sub.claim.name",
        "sub",
        doc="The claim with the name of the principal.",
    )

    def check(self) -> None:
        """Raise ConfigError if settings contradict each other, or the address is no URL."""
        first = self.sasl_oauthbearer_jwks_endpoint_retry_backoff_ms
        if first > self.sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms:
            key = "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms"
            raise ConfigError(key, first, "is more than retry.backoff.max.ms beside it")
        for key, name in (
            ("sasl.oauthbearer.scope.claim.name", self.sasl_oauthbearer_scope_claim_name),
            ("sasl.oauthbearer.sub.claim.name", self.sasl_oauthbearer_sub_claim_name),
        ):
            if not name:
                raise ConfigError(key, None, "must name a claim")
        if self.sasl_oauthbearer_jwks_endpoint_url is not None:
            parse_url(JWKS, self.sasl_oauthbearer_jwks_endpoint_url)


@dataclass(frozen=True, slots=True)
class KeySource:
    """The place of the keys of an issuer, and when they are read."""

    url: TokenUrl
    refresh_ms: int
    backoff_ms: int
    backoff_max_ms: int
    trust: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """The TLS settings for the server of the keys; if empty, the system's trust counts."""


@dataclass(frozen=True, slots=True)
class TokenChecks:
    """The checks that a listener makes of a token."""

    rules: TokenRules
    source: KeySource | None
    """The keys of signatures; None if tokens without a signature are taken, and no others."""


def read_token_checks(
    properties: Mapping[str, str], listener: str, login: JaasLogin | None
) -> TokenChecks:
    """Read how a listener checks tokens. Raise ConfigError, which names the wrong key.

    `login` is the JAAS text of the mechanism on that listener, or None if there is none.
    """
    of_mechanism = f"{listener.lower()}.oauthbearer"
    own = listener_properties(listener_properties(properties, listener), of_mechanism)
    config = from_mapping(OAuthBearerConfig, own)
    rules = TokenRules(
        config.sasl_oauthbearer_expected_audience,
        config.sasl_oauthbearer_expected_issuer,
        config.sasl_oauthbearer_clock_skew_seconds * 1000,
        config.sasl_oauthbearer_scope_claim_name,
        config.sasl_oauthbearer_sub_claim_name,
    )
    check_library(f"{OF_LISTENER}{of_mechanism}")
    options = {} if login is None else login.options
    for option in options:
        if option.startswith(VALIDATOR_OPTIONS):
            why = f"{option} is not supported: use the settings sasl.oauthbearer.*"
            raise ConfigError(f"{OF_LISTENER}{of_mechanism}.sasl.jaas.config", None, why)
    handler_key = f"{OF_LISTENER}{of_mechanism}.{HANDLER}"
    handler = properties.get(handler_key)
    if handler == UNSECURED:
        if config.sasl_oauthbearer_jwks_endpoint_url is not None:
            why = f"is the handler of tokens without a signature, but {JWKS} is set"
            raise ConfigError(handler_key, handler, why)
        return TokenChecks(rules, None)
    if handler is not None and handler not in SECURED:
        why = f"no class is loaded; the names that are known are {SECURED[0]} and {UNSECURED}"
        raise ConfigError(handler_key, handler, why)
    if config.sasl_oauthbearer_jwks_endpoint_url is None:
        why = f"is required with OAUTHBEARER on listener {listener}. Tokens without a signature, "
        why += f"which anybody can make, are taken only with {handler_key}={UNSECURED}"
        raise ConfigError(JWKS, None, why)
    return TokenChecks(rules, _source(config, options))


def check_library(key: str) -> None:
    """Raise ConfigError, which names the key, if the library for tokens is not installed."""
    if find_spec("jwt") is None or find_spec("cryptography") is None:
        why = "OAUTHBEARER needs a library: pip install 'minikafka[oauth]'"
        raise ConfigError(key, None, why)


def _source(config: OAuthBearerConfig, options: Mapping[str, str]) -> KeySource:
    assert config.sasl_oauthbearer_jwks_endpoint_url is not None
    return KeySource(
        parse_url(JWKS, config.sasl_oauthbearer_jwks_endpoint_url),
        config.sasl_oauthbearer_jwks_endpoint_refresh_ms,
        config.sasl_oauthbearer_jwks_endpoint_retry_backoff_ms,
        config.sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms,
        tuple((key, value) for key, value in options.items() if key.startswith(TLS_OPTIONS)),
    )
