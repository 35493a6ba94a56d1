"""The settings of TLS under Kafka's keys: of both ends, and of a listener.

These are values only; files are read by `stores.py`, and contexts are made by `tls.py`.
"""

from ..runtime.config import config_table, setting
from ..runtime.errors import ConfigError
from .principal_mapping import PrincipalMapping

PROTOCOLS = ("TLSv1.2", "TLSv1.3")
STORE_TYPES = ("JKS", "PKCS12", "PEM")


@config_table
class TlsConfig:
    """The settings of TLS that clients and listeners have in common."""

    ssl_keystore_type: str = setting(
        "ssl.keystore.type",
        "JKS",
        choices=STORE_TYPES,
        doc="PEM or PKCS12; with the default JKS the content decides, as in Java. Java's own "
        "format is refused: convert it to PKCS12.",
    )
    ssl_keystore_location: str | None = setting(
        "ssl.keystore.location",
        None,
        doc="A file with the private key and its certificate chain, the own certificate first. "
        "It must not be readable by everybody.",
    )
    ssl_keystore_password: str | None = setting(
        "ssl.keystore.password", None, secret=True, doc="The password of a PKCS12 key store."
    )
    ssl_key_password: str | None = setting(
        "ssl.key.password", None, secret=True, doc="The password of an encrypted private key."
    )
    ssl_keystore_key: str | None = setting(
        "ssl.keystore.key",
        None,
        secret=True,
        doc="The private key itself as PEM, instead of a file (KIP-651).",
    )
    ssl_keystore_certificate_chain: str | None = setting(
        "ssl.keystore.certificate.chain",
        None,
        doc="The certificate chain itself as PEM, with ssl.keystore.key.",
    )
    ssl_truststore_type: str = setting(
        "ssl.truststore.type",
        "JKS",
        choices=STORE_TYPES,
        doc="PEM or PKCS12; with the default JKS the content decides, as in Java.",
    )
    ssl_truststore_location: str | None = setting(
        "ssl.truststore.location",
        None,
        aliases=("ssl.ca.location",),
        doc="A file with the certificates of those that are trusted to sign the peer's. A client "
        "without one trusts what the system trusts.",
    )
    ssl_truststore_password: str | None = setting(
        "ssl.truststore.password", None, secret=True, doc="The password of a PKCS12 trust store."
    )
    ssl_truststore_certificates: str | None = setting(
        "ssl.truststore.certificates",
        None,
        doc="The trusted certificates themselves as PEM, instead of a file (KIP-651).",
    )
    ssl_enabled_protocols: tuple[str, ...] = setting(
        "ssl.enabled.protocols",
        PROTOCOLS,
        choices=PROTOCOLS,
        doc="The versions of TLS that are spoken.",
    )
    ssl_cipher_suites: tuple[str, ...] = setting(
        "ssl.cipher.suites",
        (),
        doc="The cipher suites of TLS 1.2 by their names at IANA or in OpenSSL; if unset, those "
        "of OpenSSL. The suites of TLS 1.3 cannot be chosen.",
    )
    ssl_endpoint_identification_algorithm: str | None = setting(
        "ssl.endpoint.identification.algorithm",
        "https",
        choices=("https", "HTTPS"),
        doc="https: a server's certificate must name the host that was connected to; empty: it "
        "need not, so that whoever has any trusted certificate can pose as a broker.",
    )

    def check(self) -> None:
        """Raise ConfigError if settings contradict each other."""
        key, chain = self.ssl_keystore_key, self.ssl_keystore_certificate_chain
        if (key is None) != (chain is None):
            why = "ssl.keystore.key and ssl.keystore.certificate.chain need each other"
            raise ConfigError("ssl.keystore.key", None, why)
        if key is not None and self.ssl_keystore_location is not None:
            why = "cannot be set together with ssl.keystore.key"
            raise ConfigError("ssl.keystore.location", self.ssl_keystore_location, why)
        if self.ssl_truststore_certificates and self.ssl_truststore_location:
            why = "cannot be set together with ssl.truststore.certificates"
            raise ConfigError("ssl.truststore.location", self.ssl_truststore_location, why)
        if not self.ssl_enabled_protocols:
            raise ConfigError("ssl.enabled.protocols", "", "needs at least one version")


@config_table
class ListenerTlsConfig(TlsConfig):
    """The settings of TLS of a broker's listener."""

    ssl_client_auth: str = setting(
        "ssl.client.auth",
        "none",
        choices=("none", "requested", "required"),
        doc="Whether a client is asked for a certificate, and whether it must have one. Its "
        "subject is the client's principal on listeners without SASL.",
    )
    ssl_principal_mapping_rules: str = setting(
        "ssl.principal.mapping.rules",
        "DEFAULT",
        doc="Rules that make a principal's name of a certificate's subject: DEFAULT, or "
        "RULE:pattern/replacement/[LU],... of which the first that matches decides.",
    )
    ssl_allow_dn_changes: bool = setting(
        "ssl.allow.dn.changes",
        False,
        doc="Whether a new certificate in the key store may have another subject than the one "
        "before it, while the broker runs.",
    )
    ssl_allow_san_changes: bool = setting(
        "ssl.allow.san.changes",
        False,
        doc="Whether a new certificate in the key store may lack alternative names of the one "
        "before it, while the broker runs.",
    )

    def check(self) -> None:
        """Raise ConfigError if settings contradict each other, or a mapping rule is malformed."""
        TlsConfig.check(self)
        PrincipalMapping(self.ssl_principal_mapping_rules)
