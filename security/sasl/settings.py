"""The settings of logins by SASL: which mechanisms a listener offers, and as whom a broker logs in.

A key may be given for all listeners, or for one with `listener.name.<name>.` before it; a JAAS text
belongs to one mechanism of one listener. Nobody logs in here; `server.py` and `client.py` do that.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from ...runtime.config import INT32_MAX, INT64_MAX, config_table, from_mapping, setting
from ...runtime.errors import ConfigError
from .client import Credentials
from .jaas import JaasLogin, parse_jaas
from .oauth_settings import TokenChecks, read_token_checks
from .oauthbearer import OAUTHBEARER
from .plain import PLAIN
from .scram import BY_NAME

ENABLED: Final = "sasl.enabled.mechanisms"
BETWEEN_BROKERS: Final = "sasl.mechanism.inter.broker.protocol"
REAUTH: Final = "connections.max.reauth.ms"
JAAS: Final = "sasl.jaas.config"
MECHANISMS: Final = (PLAIN, *BY_NAME, OAUTHBEARER)
"""The mechanisms that can be enabled."""
BETWEEN: Final = (PLAIN, *BY_NAME)
"""The mechanisms by which brokers can log in at each other."""
NOT_HERE: Final = {
    "GSSAPI": "GSSAPI (Kerberos) is not supported: it needs a library in C and blocking calls",
}


@config_table
class SaslConfig:
    """The settings of a broker's listeners with SASL."""

    sasl_enabled_mechanisms: tuple[str, ...] = setting(
        "sasl.enabled.mechanisms",
        (),
        doc="The SASL mechanisms that clients may log in with, on listeners with SASL; such a "
        "listener needs at least one. PLAIN sends passwords as they are.",
    )
    sasl_mechanism_inter_broker_protocol: str | None = setting(
        "sasl.mechanism.inter.broker.protocol",
        None,
        doc="The mechanism by which brokers log in at each other, if the listener between them "
        "has SASL; the JAAS text of that listener and mechanism names user and password.",
    )
    connections_max_reauth_ms: int = setting(
        "connections.max.reauth.ms",
        0,
        at_least=0,
        at_most=INT64_MAX,
        doc="A client must log in again within this time after its last login, or its connection "
        "is closed at the next request (KIP-368). 0 means never.",
    )
    connection_failed_authentication_delay_ms: int = setting(
        "connection.failed.authentication.delay.ms",
        100,
        at_least=0,
        at_most=60_000,
        doc="How long the answer to a login that failed is held back, so that passwords "
        "cannot be tried out fast.",
    )
    sasl_server_max_receive_size: int = setting(
        "sasl.server.max.receive.size",
        524_288,
        at_least=1,
        at_most=INT32_MAX,
        doc="The largest request of a client that is not logged in; the connection of a larger "
        "one is closed.",
    )


@dataclass(frozen=True, slots=True)
class EnabledMechanism:
    """A mechanism that a listener offers."""

    reauth_ms: int
    """Milliseconds after which a client must log in again; 0 means never."""
    passwords: Mapping[str, str] = field(repr=False)
    """The passwords of the users of PLAIN; empty for SCRAM, whose users the cluster keeps."""
    tokens: TokenChecks | None = None
    """The checks of tokens; None except for OAUTHBEARER."""


@dataclass(frozen=True, slots=True)
class ListenerSasl:
    """The logins of one listener."""

    mechanisms: Mapping[str, EnabledMechanism]
    own: Credentials | None = None
    """The credentials with which brokers log in here; None if this is not the listener that they
    use among themselves."""


def read_listener(
    config: SaslConfig, properties: Mapping[str, str], listener: str, *, is_inter_broker: bool
) -> ListenerSasl:
    """Read the logins of a listener with SASL. Raise ConfigError, which names the wrong key."""
    own = _Own(properties, f"listener.name.{listener.lower()}.")
    key, text = own.find(ENABLED)
    names = config.sasl_enabled_mechanisms if text is None else tuple(_split(text))
    if not names:
        why = f"is required: listener {listener} has SASL; it may be {', '.join(MECHANISMS)}"
        raise ConfigError(ENABLED, None, why)
    mechanisms: dict[str, EnabledMechanism] = {}
    logins: dict[str, JaasLogin] = {}
    for name in names:
        check_mechanism(key, name)
        login = own.login(name)
        if login is not None:
            logins[name] = login
        mechanisms[name] = EnabledMechanism(
            own.reauth_ms(name, config.connections_max_reauth_ms),
            _passwords(own, login) if name == PLAIN else {},
            read_token_checks(properties, listener, login) if name == OAUTHBEARER else None,
        )
    if not is_inter_broker:
        return ListenerSasl(mechanisms)
    key, text = own.find(BETWEEN_BROKERS)
    chosen = text or config.sasl_mechanism_inter_broker_protocol
    if chosen is None:
        why = f"is required: brokers use listener {listener}, which has SASL"
        raise ConfigError(BETWEEN_BROKERS, None, why)
    check_mechanism(key, chosen)
    if chosen not in BETWEEN:
        raise ConfigError(key, chosen, f"brokers log in at each other by {', '.join(BETWEEN)}")
    if chosen not in mechanisms:
        raise ConfigError(key, chosen, f"is not enabled on listener {listener}: {ENABLED}")
    login = logins.get(chosen)
    if login is None or not login.username or not login.password:
        why = "must give username and password, with which brokers log in at each other"
        raise ConfigError(own.jaas_key(chosen), None, why)
    if login.is_token:
        why = "has tokenauth=true: brokers do not log in at each other by a token, which expires"
        raise ConfigError(own.jaas_key(chosen), None, why)
    return ListenerSasl(mechanisms, Credentials(chosen, login.username, login.password))


def read_listeners(
    properties: Mapping[str, str], listeners: Iterable[str], inter_broker: str
) -> dict[str, ListenerSasl]:
    """Read the logins of the listeners with SASL, by name.

    `inter_broker` is the listener that brokers use among themselves, whether it has SASL or not.
    Raise ConfigError, which names the wrong key.
    """
    config = from_mapping(SaslConfig, properties)
    return {
        name: read_listener(config, properties, name, is_inter_broker=name == inter_broker)
        for name in listeners
    }


def check_mechanism(key: str, name: str) -> None:
    """Raise ConfigError, which names the key, unless the mechanism is supported."""
    if name not in MECHANISMS:
        why = NOT_HERE.get(name, f"the mechanisms are {', '.join(MECHANISMS)}")
        raise ConfigError(key, name, why)


def _passwords(own: "_Own", login: JaasLogin | None) -> Mapping[str, str]:
    passwords = {} if login is None else login.passwords
    if not passwords:
        why = 'must name the users that may log in, as user_<name>="password"'
        raise ConfigError(own.jaas_key(PLAIN), None, why)
    for name, password in passwords.items():
        if not name or not password:
            raise ConfigError(own.jaas_key(PLAIN), None, "has an empty user name or password")
    return passwords


class _Own:
    """The properties of one listener."""

    def __init__(self, properties: Mapping[str, str], prefix: str) -> None:
        self._properties = properties
        self._prefix = prefix

    def find(self, key: str) -> tuple[str, str | None]:
        """Return the key that gives a setting, and its text.

        The text is None if the listener has none of its own.
        """
        own = self._prefix + key
        text = self._properties.get(own)
        return (key, None) if text is None else (own, text)

    def jaas_key(self, mechanism: str) -> str:
        """Return the key of the JAAS text of a mechanism."""
        return f"{self._prefix}{mechanism.lower()}.{JAAS}"

    def login(self, mechanism: str) -> JaasLogin | None:
        """Return the parsed JAAS text of a mechanism, or None if there is none.

        Raise ConfigError if it is malformed.
        """
        key = self.jaas_key(mechanism)
        text = self._properties.get(key)
        return None if text is None else parse_jaas(key, text, mechanism)

    def reauth_ms(self, mechanism: str, common: int) -> int:
        """Return connections.max.reauth.ms for a mechanism: its own, the listener's, or common.

        Raise ConfigError if it is no whole number of at least 0.
        """
        for key in (f"{self._prefix}{mechanism.lower()}.{REAUTH}", self._prefix + REAUTH):
            text = self._properties.get(key)
            if text is not None:
                if not text.strip().isdecimal() or int(text) > INT64_MAX:
                    raise ConfigError(key, text, "must be an integer of at least 0")
                return int(text)
        return common


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
