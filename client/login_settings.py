"""The credentials or the tokens in a client's settings, and the rules between those settings."""

from collections.abc import Mapping
from typing import Final, Protocol

from ..runtime.errors import ConfigError
from ..security.sasl.bearer_login import BearerLogin, ClientCredentials, TokenProvider
from ..security.sasl.client import CLIENT_MECHANISMS, Credentials
from ..security.sasl.jaas import parse_jaas
from ..security.sasl.oauthbearer import OAUTHBEARER, is_extension
from ..security.sasl.scram import BY_NAME
from ..security.token_urls import parse_url

JAAS: Final = "sasl.jaas.config"
TOKEN_URL: Final = "sasl.oauthbearer.token.endpoint.url"
CLIENT_ID: Final = "sasl.oauthbearer.client.credentials.client.id"
CLIENT_SECRET: Final = "sasl.oauthbearer.client.credentials.client.secret"
PROVIDER: Final = "sasl_oauth_token_provider"
_EXTENSION: Final = "extension_"
_CLAIM: Final = "unsecuredLoginStringClaim_"
_TLS: Final = "ssl."
_OF_ENDPOINT: Final = ("clientId", "clientSecret", "scope")


class LoginSettings(Protocol):
    """The settings of a login, which every client's configuration has."""

    @property
    def security_protocol(self) -> str:
        """The security protocol of all connections, such as SASL_SSL."""

    @property
    def sasl_mechanism(self) -> str | None:
        """The SASL mechanism of the login; None if it is not set."""

    @property
    def sasl_username(self) -> str | None:
        """The user to log in as; None if it is not set."""

    @property
    def sasl_password(self) -> str | None:
        """The password of that user; None if it is not set."""

    @property
    def sasl_jaas_config(self) -> str | None:
        """User and password in Kafka's JAAS text; None if it is not set."""

    @property
    def sasl_oauthbearer_token_endpoint_url(self) -> str | None:
        """The place of tokens; None if it is not set."""

    @property
    def sasl_oauthbearer_client_credentials_client_id(self) -> str | None:
        """The name of the client at the token endpoint; None if it is not set."""

    @property
    def sasl_oauthbearer_client_credentials_client_secret(self) -> str | None:
        """The secret of the client at the token endpoint; None if it is not set."""

    @property
    def sasl_oauthbearer_scope(self) -> str | None:
        """The scope to ask for; None if it is not set."""

    @property
    def sasl_oauthbearer_header_urlencode(self) -> bool:
        """True if name and secret are URL-encoded for the token endpoint."""

    @property
    def sasl_oauth_token_provider(self) -> TokenProvider | None:
        """The program's own function for tokens; None if it is not given."""


def check_login(settings: LoginSettings) -> None:
    """Raise ConfigError, which names the key that is missing or wrong."""
    if bearer_login_of(settings) is None:
        credentials_of(settings)


def credentials_of(settings: LoginSettings) -> Credentials:
    """Return the credentials; raise ConfigError, which names the key that is missing or wrong."""
    mechanism, protocol = settings.sasl_mechanism, settings.security_protocol
    if mechanism is None:
        why = f"is required with {protocol}: one of {', '.join(CLIENT_MECHANISMS)}"
        raise ConfigError("sasl.mechanism", None, why)
    name, password, is_token = settings.sasl_username, settings.sasl_password, False
    if settings.sasl_jaas_config is not None:
        if name is not None or password is not None:
            why = "cannot be given together with sasl.username and sasl.password"
            raise ConfigError(JAAS, None, why)
        login = parse_jaas(JAAS, settings.sasl_jaas_config, mechanism)
        name, password = login.username, login.password
        if not name or not password:
            raise ConfigError(JAAS, None, "must give username and password")
        is_token = login.is_token
        if is_token and mechanism not in BY_NAME:
            why = f"has tokenauth=true: a token logs in by {' or '.join(BY_NAME)}"
            raise ConfigError(JAAS, None, why)
    if not name:
        raise ConfigError("sasl.username", None, f"is required with {protocol}")
    if not password:
        raise ConfigError("sasl.password", None, f"is required with {protocol}")
    return Credentials(mechanism, name, password, is_token=is_token)


def bearer_login_of(settings: LoginSettings) -> BearerLogin | None:
    """Return where the tokens come from; None if the mechanism is not OAUTHBEARER.

    Raise ConfigError, which names the key that is missing or wrong.
    """
    if settings.sasl_mechanism != OAUTHBEARER:
        return None
    text = settings.sasl_jaas_config
    options = {} if text is None else parse_jaas(JAAS, text, OAUTHBEARER).options
    extensions = _beginning(options, _EXTENSION)
    for key, value in extensions.items():
        if not is_extension(key, value):
            raise ConfigError(JAAS, None, f"{_EXTENSION}{key[:50]} cannot be sent")
    claims = _beginning(options, _CLAIM)
    url, provider = settings.sasl_oauthbearer_token_endpoint_url, settings.sasl_oauth_token_provider
    ways = [url is not None, provider is not None, bool(claims)]
    if sum(ways) != 1:
        why = "OAUTHBEARER needs it, or the argument sasl_oauth_token_provider, or "
        why += f"{_CLAIM}sub in {JAAS} (a token without a signature): exactly one of them"
        raise ConfigError(TOKEN_URL, url, why)
    if claims and not claims.get("sub"):
        raise ConfigError(JAAS, None, f"must give {_CLAIM}sub")
    if provider is not None and not callable(provider):
        raise ConfigError(PROVIDER, None, "must be a function that returns a token")
    place = None if url is None else parse_url(TOKEN_URL, url)
    return BearerLogin(
        provider,
        place,
        None if place is None or place.is_file else _client_credentials(settings, options),
        claims or None,
        tuple(extensions.items()),
        tuple((key, value) for key, value in options.items() if key.startswith(_TLS)),
    )


def _client_credentials(settings: LoginSettings, options: Mapping[str, str]) -> ClientCredentials:
    own = (
        settings.sasl_oauthbearer_client_credentials_client_id,
        settings.sasl_oauthbearer_client_credentials_client_secret,
        settings.sasl_oauthbearer_scope,
    )
    in_text = tuple(options.get(name) for name in _OF_ENDPOINT)
    if any(own) and any(in_text):
        why = f"clientId, clientSecret and scope cannot be given together with {CLIENT_ID}"
        raise ConfigError(JAAS, None, why)
    client_id, secret, scope = own if any(own) else in_text
    if not client_id:
        raise ConfigError(CLIENT_ID, None, f"is required with {TOKEN_URL}")
    if not secret:
        raise ConfigError(CLIENT_SECRET, None, f"is required with {TOKEN_URL}")
    is_encoded = settings.sasl_oauthbearer_header_urlencode
    return ClientCredentials(client_id, secret, scope or None, is_encoded)


def _beginning(options: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {
        key.removeprefix(prefix): value for key, value in options.items() if key.startswith(prefix)
    }
