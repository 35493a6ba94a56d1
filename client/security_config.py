"""The settings of the security of a client's connections: whether they have TLS and a login."""

from collections.abc import Sequence
from typing import Any, TypedDict

from ..runtime.config import config_table, handed, objects_of, setting, settings_of
from ..runtime.runtime import Runtime
from ..security.client_security import ClientSecurity
from ..security.listener import SecurityProtocol
from ..security.sasl.bearer_login import TokenProvider
from ..security.sasl.client import CLIENT_MECHANISMS
from ..security.tls import ClientTls
from ..security.tls_config import TlsConfig
from .login_settings import bearer_login_of, check_login, credentials_of


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
        "the password as it is, SCRAM never sends it, OAUTHBEARER shows a token.",
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
    sasl_oauthbearer_token_endpoint_url: str | None = setting(
        "sasl.oauthbearer.token.endpoint.url",
        None,
        doc="Where tokens come from with OAUTHBEARER: a token endpoint, or file:///path with a "
        "token. The environment must allow it too.",
    )
    sasl_oauthbearer_client_credentials_client_id: str | None = setting(
        "sasl.oauthbearer.client.credentials.client.id",
        None,
        doc="The name of this client at the token endpoint.",
    )
    sasl_oauthbearer_client_credentials_client_secret: str | None = setting(
        "sasl.oauthbearer.client.credentials.client.secret",
        None,
        secret=True,
        doc="The secret of this client at the token endpoint.",
    )
    sasl_oauthbearer_scope: str | None = setting(
        "sasl.oauthbearer.scope", None, doc="The scope that is asked for at the token endpoint."
    )
    sasl_oauthbearer_header_urlencode: bool = setting(
        "sasl.oauthbearer.header.urlencode",
        False,
        doc="Whether name and secret are URL-encoded for the token endpoint (RFC 6749, 2.3.1).",
    )
    sasl_oauth_token_provider: TokenProvider | None = handed()
    """The program's own function for tokens."""

    def check(self) -> None:
        """Check the rules across settings; raise ConfigError, which names the first broken one."""
        TlsConfig.check(self)
        if SecurityProtocol(self.security_protocol).has_sasl:
            check_login(self)

    def as_arguments(self) -> dict[str, Any]:
        """Return the settings as keyword arguments, for another client of the same cluster."""
        table = type(self)
        fields = [*(row.field for row in settings_of(table)), *objects_of(table)]
        return {field: getattr(self, field) for field in fields}

    def steps(self, runtime: Runtime) -> ClientSecurity | None:
        """Return the steps of each connection before its first request; None if there are none.

        Raise ConfigError if a file of keys or certificates cannot be used, or if the environment
        does not allow the place of tokens.
        """
        protocol = SecurityProtocol(self.security_protocol)
        if protocol is SecurityProtocol.PLAINTEXT:
            return None
        tls = ClientTls(runtime, self) if protocol.has_tls else None
        if not protocol.has_sasl:
            return ClientSecurity(tls=tls)
        bearer = bearer_login_of(self)
        if bearer is None:
            return ClientSecurity(credentials_of(self), tls)
        # Only this login needs HTTP, so only this login waits for its import.
        from .net.login_tokens import LoginTokens

        return ClientSecurity(tls=tls, tokens=LoginTokens(runtime, bearer))


class SecuritySettings(TypedDict, total=False):
    """Keyword arguments of every client for TLS and the login."""

    security_protocol: str
    sasl_mechanism: str | None
    sasl_username: str | None
    sasl_password: str | None
    sasl_jaas_config: str | None
    sasl_oauthbearer_token_endpoint_url: str | None
    sasl_oauthbearer_client_credentials_client_id: str | None
    sasl_oauthbearer_client_credentials_client_secret: str | None
    sasl_oauthbearer_scope: str | None
    sasl_oauthbearer_header_urlencode: bool
    sasl_oauth_token_provider: TokenProvider | None
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
