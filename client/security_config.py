"""The settings of the security of a client's connections: whether they have TLS and a login."""

from collections.abc import Sequence
from typing import Any, TypedDict

from ..runtime.config import config_table, setting, settings_of
from ..runtime.runtime import Runtime
from ..security.client_security import ClientSecurity
from ..security.listener import SecurityProtocol
from ..security.sasl.client import CLIENT_MECHANISMS
from ..security.tls import ClientTls
from ..security.tls_config import TlsConfig
from .login_settings import credentials_of


@config_table
class SecurityConfig(TlsConfig):
    """The settings of TLS and of the login of every client."""

    security_protocol: str = setting(
        "security.protocol",
        "PLAINTEXT",
        choices=tuple(SecurityProtocol.__members__),
        doc="The protocol of connections: whether they use TLS and SASL.",
    )
    sasl_mechanism: str | None = setting(
        "sasl.mechanism",
        None,
        choices=CLIENT_MECHANISMS,
        doc="The mechanism of the login; required with a security.protocol of SASL. PLAIN sends "
        "the password as it is, SCRAM never sends it.",
    )
    sasl_username: str | None = setting(
        "sasl.username", None, doc="The user that this client logs in as."
    )
    sasl_password: str | None = setting(
        "sasl.password", None, secret=True, doc="The password of that user."
    )
    sasl_jaas_config: str | None = setting(
        "sasl.jaas.config",
        None,
        secret=True,
        doc="User and password in Kafka's JAAS text, in place of sasl.username and sasl.password.",
    )

    def check(self) -> None:
        """Check the rules across settings; raise ConfigError, which names the first broken one."""
        TlsConfig.check(self)
        if SecurityProtocol(self.security_protocol).has_sasl:
            credentials_of(self)

    def as_arguments(self) -> dict[str, Any]:
        """Return the settings as keyword arguments, for another client of the same cluster."""
        return {row.field: getattr(self, row.field) for row in settings_of(type(self))}

    def steps(self, runtime: Runtime) -> ClientSecurity | None:
        """Return the steps of each connection before its first request; None if there are none.

        Raise ConfigError if a file of keys or certificates cannot be used.
        """
        protocol = SecurityProtocol(self.security_protocol)
        if protocol is SecurityProtocol.PLAINTEXT:
            return None
        return ClientSecurity(
            credentials_of(self) if protocol.has_sasl else None,
            ClientTls(runtime, self) if protocol.has_tls else None,
        )


class SecuritySettings(TypedDict, total=False):
    """Keyword arguments of every client for TLS and the login."""

    security_protocol: str
    sasl_mechanism: str | None
    sasl_username: str | None
    sasl_password: str | None
    sasl_jaas_config: str | None
    ssl_keystore_type: str
    ssl_keystore_location: str | None
    ssl_keystore_password: str | None
    ssl_key_password: str | None
    ssl_keystore_key: str | None
    ssl_keystore_certificate_chain: str | None
    ssl_truststore_type: str
    ssl_truststore_location: str | None
    ssl_truststore_password: str | None
    ssl_truststore_certificates: str | None
    ssl_enabled_protocols: str | Sequence[str]
    ssl_cipher_suites: str | Sequence[str]
    ssl_endpoint_identification_algorithm: str | None
