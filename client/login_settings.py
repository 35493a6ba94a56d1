"""The credentials in a client's settings, and the rules between those settings."""

from typing import Protocol

from ..runtime.errors import ConfigError
from ..security.sasl.client import CLIENT_MECHANISMS, Credentials
from ..security.sasl.jaas import parse_jaas
from ..security.sasl.scram import BY_NAME


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
            raise ConfigError("sasl.jaas.config", None, why)
        login = parse_jaas("sasl.jaas.config", settings.sasl_jaas_config, mechanism)
        name, password = login.username, login.password
        if not name or not password:
            raise ConfigError("sasl.jaas.config", None, "must give username and password")
        is_token = login.is_token
        if is_token and mechanism not in BY_NAME:
            why = f"has tokenauth=true: a token logs in by {' or '.join(BY_NAME)}"
            raise ConfigError("sasl.jaas.config", None, why)
    if not name:
        raise ConfigError("sasl.username", None, f"is required with {protocol}")
    if not password:
        raise ConfigError("sasl.password", None, f"is required with {protocol}")
    return Credentials(mechanism, name, password, is_token=is_token)
