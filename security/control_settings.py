"""The settings by which brokers, controllers and tools prove themselves to each other."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from ..protocol.control.messages import Endpoint
from ..runtime.config import config_table, setting, settings_of
from ..runtime.errors import ConfigError

SECURITY: Final = "control.security"
FILE: Final = "control.psk.file"
PSK: Final = "psk"
MTLS: Final = "mtls"
NONE: Final = "none"
HOW: Final = "`minikafka generate key` makes one, the same for all nodes"
"""A hint for error messages: the way to make a key."""
HOW_CERTIFIED: Final = "`minikafka generate certificates` makes them"

PREFIX: Final = "control."
"""The beginning of keys for TLS of the control plane; after it comes the key of a listener."""
KEYSTORE: Final = "control.ssl.keystore.location"
TRUSTSTORE: Final = "control.ssl.truststore.location"

_LOOPBACK: Final = re.compile(r"127(\.\d{1,3}){3}|::1|localhost")


def control_security() -> Any:
    """Declare control.security, as a field of type `str | None`."""
    return setting(
        SECURITY,
        None,
        choices=(PSK, MTLS, NONE),
        doc="Whether brokers and controllers prove to each other who they are, and seal what they"
        " send. psk: by the cluster's key. mtls: by certificates, control.ssl.*. Where both are"
        " set, which is for the time of a change, this is how a node connects, and a controller"
        " speaks to peers of both kinds. none: sealed where both ends have control.psk.file, for"
        " the time of a change too. If unset, psk with control.psk.file, mtls with"
        " control.ssl.keystore.location; without both the daemon listens on loopback addresses"
        " only.",
    )


def control_psk_file() -> Any:
    """Declare control.psk.file, as a field of type `str | None`."""
    return setting(
        FILE,
        None,
        doc="The file of the cluster's key: 32 random bytes in Base64 on one line, a second key on"
        " another while keys change. It is read anew for each connection, and refused if everybody"
        " may read it.",
    )


@config_table
class ControlTlsConfig:
    """The settings of TLS between nodes, the same on brokers, on controllers and for tools."""

    control_ssl_keystore_location: str | None = setting(
        KEYSTORE,
        None,
        doc="With control.security=mtls: a PEM or PKCS12 file with the node's private key and its"
        " certificate chain. The name made of its subject is broker-7 for broker 7, and"
        " controller-101 for controller 101. It is read again when it changes.",
    )
    control_ssl_keystore_password: str | None = setting(
        "control.ssl.keystore.password", None, secret=True, doc="The password of a PKCS12 file."
    )
    control_ssl_key_password: str | None = setting(
        "control.ssl.key.password", None, secret=True, doc="The password of an encrypted key."
    )
    control_ssl_truststore_location: str | None = setting(
        TRUSTSTORE,
        None,
        doc="The certificates of the authority that signs nodes and operators, and nobody else:"
        " whoever it signs as broker-7 is broker 7.",
    )
    control_ssl_truststore_password: str | None = setting(
        "control.ssl.truststore.password", None, secret=True, doc="The password of a PKCS12 file."
    )
    control_ssl_endpoint_identification_algorithm: str | None = setting(
        "control.ssl.endpoint.identification.algorithm",
        "https",
        choices=("https", "HTTPS"),
        doc="https: a controller's certificate must name the host that was connected to; empty: it"
        " need not, so that each controller can pose as any other.",
    )
    control_ssl_principal_mapping_rules: str = setting(
        "control.ssl.principal.mapping.rules",
        "RULE:^CN=([^,]+).*$/$1/",
        doc="Rules that make a name of a certificate's subject; by default its common name. The"
        " first that matches decides.",
    )

    @property
    def properties(self) -> dict[str, str]:
        """The TLS settings under the keys of a listener that requires certificates."""
        given = {"ssl.client.auth": "required"}
        # Another subject is another name, and then other nodes refuse it.
        given |= dict.fromkeys(("ssl.allow.dn.changes", "ssl.allow.san.changes"), "true")
        for row in settings_of(type(self)):
            value = getattr(self, row.field)
            if value is not None or row.default is not None:
                given[row.key.removeprefix(PREFIX)] = row.format(value)
        return given

    def check(self) -> None:
        """Raise ConfigError if one of the two stores is missing."""
        own, trusted = self.control_ssl_keystore_location, self.control_ssl_truststore_location
        for key, value, other in ((KEYSTORE, own, trusted), (TRUSTSTORE, trusted, own)):
            if value is None and other is not None:
                raise ConfigError(key, None, f"{KEYSTORE} and {TRUSTSTORE} need each other")


@dataclass(frozen=True, slots=True)
class ControlSettings:
    """The settings of a daemon or a tool for the security of the control plane."""

    security: str | None
    """The value of control.security; None for tools, and where it is unset."""
    path: str | None
    """The file of the cluster's key."""
    tls: ControlTlsConfig

    @property
    def has_tls(self) -> bool:
        """True if nodes prove themselves by certificates."""
        return self.tls.control_ssl_keystore_location is not None

    @property
    def shows(self) -> tuple[str, ...]:
        """The ways in which this node tries to connect, the first one first."""
        if self.has_tls and (self.security == MTLS or self.path is None):
            return (MTLS,)
        if self.path is None:
            return (NONE,)
        return (PSK, NONE) if self.security == NONE else (PSK,)

    @property
    def takes(self) -> tuple[str, ...]:
        """The ways in which peers may connect to this node."""
        ways = ((MTLS, self.has_tls), (PSK, self.path is not None), (NONE, NONE in self.shows))
        return tuple(way for way, is_taken in ways if is_taken)

    def check(self, listeners: Iterable[Endpoint] = ()) -> None:
        """Raise ConfigError if settings contradict each other or do not suffice for `listeners`."""
        if self.security == PSK and self.path is None:
            raise ConfigError(SECURITY, PSK, f"needs {FILE}: {HOW}")
        if self.security == MTLS and not self.has_tls:
            raise ConfigError(SECURITY, MTLS, f"needs {KEYSTORE}: {HOW_CERTIFIED}")
        if self.has_tls and self.security == NONE:
            why = f"has no effect with {SECURITY}={NONE}"
            raise ConfigError(KEYSTORE, self.tls.control_ssl_keystore_location, why)
        if self.has_tls and self.path is not None and self.security is None:
            why = f"and {KEYSTORE} are both set, so {SECURITY} must say which of them is shown"
            raise ConfigError(FILE, self.path, why)
        if self.security is not None or self.path is not None or self.has_tls:
            return
        for listener in listeners:
            if not _LOOPBACK.fullmatch(listener.host):
                where = f"{listener.name}://{listener.host}:{listener.port}"
                why = f"is required to listen at {where}: {HOW}; or set {SECURITY}={NONE}"
                raise ConfigError(FILE, None, why)
