"""TLS: contexts of settings and stores, and their renewal while connections come.

A context is tried in a handshake in memory before it is used, so that a certificate that no client
would accept is found here. Files that have changed are read again when a connection comes, at most
every LOOK_MS; if the new ones cannot be used, the old ones stay. No socket is opened here.
"""

import logging
import ssl
from collections.abc import Callable, Mapping
from typing import Final, Generic, NamedTuple, TypeVar

from ..runtime.config import from_mapping
from ..runtime.errors import ConfigError
from ..runtime.fs import FileSystem
from ..runtime.memory_file import file_in_memory
from ..runtime.runtime import Runtime
from .distinguished_name import subject_of
from .listener import listener_properties
from .principal import ANONYMOUS, Principal, user
from .principal_mapping import PrincipalMapping
from .small_file import READ, WRITE, read_small
from .stores import KEYSTORE, TRUSTSTORE, Given, Identity, identity_of, trusted_of
from .tls_config import ListenerTlsConfig, TlsConfig

T = TypeVar("T")

LOOK_MS: Final = 10_000
"""Milliseconds for which the files of keys and certificates are not looked at again."""
SAY_AGAIN_MS: Final = 60_000
STORE_BYTES_MAX: Final = 1 << 20
VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
CLIENT_AUTH: Final = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}
_TURNS: Final = 8
"""The most turns of a handshake in memory; it takes three."""

log = logging.getLogger(__name__)


class Stores(NamedTuple):
    """The stores that settings name, as they were given."""

    own: Given | None
    trusted: Given | None


def read_stores(fs: FileSystem, config: TlsConfig) -> Stores:
    """Read the key store and the trust store. Raise ConfigError, which names a bad file."""
    own = trusted = None
    if config.ssl_keystore_key is not None:
        pem = f"{config.ssl_keystore_certificate_chain}\n{config.ssl_keystore_key}"
        own = Given("ssl.keystore.key", None, pem.encode(), config.ssl_keystore_type, None)
    elif config.ssl_keystore_location is not None:
        path = config.ssl_keystore_location
        forbidden = READ | WRITE
        content = read_small(fs, KEYSTORE, path, bytes_max=STORE_BYTES_MAX, forbidden=forbidden)
        kind, password = config.ssl_keystore_type, config.ssl_keystore_password
        own = Given(KEYSTORE, path, content, kind, password)
    if config.ssl_truststore_certificates is not None:
        pem, key = config.ssl_truststore_certificates, "ssl.truststore.certificates"
        trusted = Given(key, None, pem.encode(), config.ssl_truststore_type, None)
    elif config.ssl_truststore_location is not None:
        path = config.ssl_truststore_location
        # Whoever writes it can make himself anybody.
        content = read_small(fs, TRUSTSTORE, path, bytes_max=STORE_BYTES_MAX, forbidden=WRITE)
        kind, password = config.ssl_truststore_type, config.ssl_truststore_password
        trusted = Given(TRUSTSTORE, path, content, kind, password)
    return Stores(own, trusted)


class Renewed(Generic[T]):
    """A value that is made of stores, and made anew when their files have changed."""

    def __init__(
        self, runtime: Runtime, config: TlsConfig, build: Callable[[Stores, T | None], T]
    ) -> None:
        """`build` makes the value; it gets the value before, or None, and may raise ConfigError."""
        self._runtime = runtime
        self._config = config
        self._build = build
        self._stores = read_stores(runtime.fs, config)
        self._value = build(self._stores, None)
        self._looked_ms = self._said_ms = runtime.monotonic_ms()
        self._said = ""

    def current(self) -> T:
        """Return the value made of the files as they were at most LOOK_MS ago."""
        now_ms = self._runtime.monotonic_ms()
        if now_ms - self._looked_ms >= LOOK_MS:
            self._looked_ms = now_ms
            self._look(now_ms)
        return self._value

    def _look(self, now_ms: int) -> None:
        try:
            stores = read_stores(self._runtime.fs, self._config)
            if stores != self._stores:
                self._value = self._build(stores, self._value)
                self._stores = stores
                log.info("new keys and certificates are used: %s", _places(stores))
            self._said = ""
        except ConfigError as error:
            if str(error) != self._said or now_ms - self._said_ms >= SAY_AGAIN_MS:
                self._said, self._said_ms = str(error), now_ms
                log.error("%s; the keys and certificates read before are used on", error)


def _places(stores: Stores) -> str:
    return ", ".join(each.location for each in stores if each is not None and each.location)


class Served(NamedTuple):
    """The context of a listener, and the facts of its certificate."""

    context: ssl.SSLContext
    subject: str
    alternatives: frozenset[tuple[str, str]]
    """The alternative names, as kind and name."""


class ListenerTls:
    """The server's end of TLS on one listener."""

    def __init__(self, runtime: Runtime, properties: Mapping[str, str], listener: str) -> None:
        """Read the stores. Raise ConfigError, which names the wrong setting."""
        self._config = from_mapping(ListenerTlsConfig, listener_properties(properties, listener))
        self._mapping = PrincipalMapping(self._config.ssl_principal_mapping_rules)
        self._served = Renewed(runtime, self._config, self._serve)

    @property
    def context(self) -> ssl.SSLContext:
        """The context for a connection that comes now."""
        return self._served.current().context

    @property
    def own_name(self) -> str | None:
        """The name that the rules make of this listener's own certificate; None if none does."""
        return self._mapping.name_of(self._served.current().subject)

    def principal_of(self, certificate: bytes | None) -> Principal | None:
        """Return the principal of a client's verified certificate, ANONYMOUS if it showed none.

        None if its subject cannot be read, or no mapping rule matches it.
        """
        if certificate is None:
            return ANONYMOUS
        try:
            name = self._mapping.name_of(subject_of(certificate))
        except ValueError:
            return None  # OpenSSL reads more encodings than we do.
        return None if name is None else user(name)

    def _serve(self, stores: Stores, before: Served | None) -> Served:
        made = served_of(self._config, stores)
        if before is not None:
            _check_change(self._config, before, made)
        return made


class ClientTls:
    """The client's end of TLS on all connections of one client."""

    def __init__(self, runtime: Runtime, config: TlsConfig) -> None:
        """Read the stores. Raise ConfigError, which names the wrong setting."""
        self._context = Renewed(runtime, config, lambda stores, _: client_context(config, stores))

    @property
    def context(self) -> ssl.SSLContext:
        """The context for a connection that is opened now."""
        return self._context.current()


def is_refusal(error: Exception) -> bool:
    """True if a handshake failed because an end does not accept the other, not by a lost peer."""
    return isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError)


def served_of(config: ListenerTlsConfig, stores: Stores) -> Served:
    """Make a listener's context and try it. Raise ConfigError if no client would accept it."""
    if stores.own is None:
        why = "is required on a listener with TLS: a file with private key and certificates"
        raise ConfigError(KEYSTORE, None, why)
    if config.ssl_client_auth != "none" and stores.trusted is None:
        why = f"is required with ssl.client.auth={config.ssl_client_auth}"
        raise ConfigError(TRUSTSTORE, None, why)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    identity = _set_up(context, config, stores)
    assert identity is not None
    try:
        seen = _try(context, identity)
        subject = subject_of(seen.getpeercert(binary_form=True) or b"")
    except ssl.SSLError as error:
        why = f"no client would accept it: {_reason(error)}"
        raise stores.own.refuse(why) from None
    except ValueError as error:
        raise stores.own.refuse(f"its certificate cannot be read: {error}") from None
    context.verify_mode = CLIENT_AUTH[config.ssl_client_auth]
    facts = seen.getpeercert() or {}
    names: tuple[tuple[str, str], ...] = facts.get("subjectAltName", ())  # type: ignore[assignment]
    return Served(context, subject, frozenset(names))


def client_context(config: TlsConfig, stores: Stores) -> ssl.SSLContext:
    """Make a client's context. Raise ConfigError if a store cannot be used.

    Without a trust store it trusts what the system trusts.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = config.ssl_endpoint_identification_algorithm is not None
    if stores.trusted is None:
        context.load_default_certs()
    _set_up(context, config, stores)
    return context


def _set_up(context: ssl.SSLContext, config: TlsConfig, stores: Stores) -> Identity | None:
    """Load what the settings say into the context; return the key and chain, or None.

    Raise ConfigError if a store cannot be used.
    """
    chosen = [VERSIONS[each] for each in config.ssl_enabled_protocols]
    context.minimum_version, context.maximum_version = min(chosen), max(chosen)
    context.options |= ssl.OP_NO_RENEGOTIATION
    if config.ssl_cipher_suites:
        _choose_suites(context, config.ssl_cipher_suites)
    if stores.trusted is not None:
        try:
            context.load_verify_locations(cadata=trusted_of(stores.trusted))
        except ssl.SSLError as error:
            raise stores.trusted.refuse(_reason(error)) from None
    if stores.own is None:
        return None
    identity = identity_of(stores.own, config.ssl_key_password)
    try:
        with file_in_memory(identity.pem.encode()) as path:
            # Given no function, OpenSSL would ask for a password at the terminal.
            context.load_cert_chain(path, password=lambda: identity.password or "")
    except ssl.SSLError as error:
        raise stores.own.refuse(_key_reason(error, identity)) from None
    except ValueError as error:
        raise ConfigError("ssl.key.password", None, str(error)) from None
    return identity


def _choose_suites(context: ssl.SSLContext, names: tuple[str, ...]) -> None:
    key, chosen = "ssl.cipher.suites", []
    for name in names:
        suite = openssl_suite(name)
        # OpenSSL also takes the names of groups.
        if not _has_suite(context, suite):
            why = "is no cipher suite of TLS 1.2 in this OpenSSL"
            if name.startswith("TLS_") and "_WITH_" not in name:
                why = "is a suite of TLS 1.3, and those cannot be chosen: all are offered"
            raise ConfigError(key, name, why)
        chosen.append(suite)
    context.set_ciphers(":".join(chosen))


def _has_suite(context: ssl.SSLContext, suite: str) -> bool:
    try:
        context.set_ciphers(suite)
    except ssl.SSLError:
        return False
    return any(each["name"] == suite for each in context.get_ciphers())


def openssl_suite(name: str) -> str:
    """Return OpenSSL's name of a cipher suite that may be named as at IANA."""
    exchange, is_iana, cipher = name.removeprefix("TLS_").partition("_WITH_")
    if not is_iana:
        return name
    cipher = cipher.replace("AES_", "AES").replace("_CBC_", "_")
    cipher = cipher.removesuffix("_SHA256") if "POLY1305" in cipher else cipher
    parts = [*([] if exchange == "RSA" else [exchange]), cipher]
    return "-".join(parts).replace("_", "-")


def _try(context: ssl.SSLContext, identity: Identity) -> ssl.SSLObject:
    """Shake hands with a client that trusts exactly this certificate, and return the client's end.

    Raise SSLError, which says why a client would refuse the certificate, for example because it has
    expired.
    """
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    client.load_verify_locations(cadata=_first_certificate(identity))
    context.verify_mode = ssl.CERT_NONE
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    near = client.wrap_bio(to_client, to_server)
    far = context.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(_TURNS):
        ends = [end for end in (near, far) if not _is_complete(end)]
        if not ends:
            break
    return near


def _is_complete(end: ssl.SSLObject) -> bool:
    """Take a step of a handshake, and return True if it is complete."""
    try:
        end.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True


def _first_certificate(identity: Identity) -> str:
    pem = identity.pem
    start = pem.index("-----BEGIN CERTIFICATE-----")
    end = "-----END CERTIFICATE-----"
    return pem[start : pem.index(end, start) + len(end)] + "\n"


def _check_change(config: ListenerTlsConfig, before: Served, now: Served) -> None:
    """Raise ConfigError if the new certificate names somebody else, and that is not allowed."""
    if now.subject != before.subject and not config.ssl_allow_dn_changes:
        why = f"its subject is {now.subject}, before it was {before.subject}: ssl.allow.dn.changes"
        raise ConfigError(KEYSTORE, config.ssl_keystore_location, why)
    lost = sorted(before.alternatives - now.alternatives)
    if lost and not config.ssl_allow_san_changes:
        named = ", ".join(f"{kind}:{name}" for kind, name in lost)
        why = f"it no longer names {named}: ssl.allow.san.changes"
        raise ConfigError(KEYSTORE, config.ssl_keystore_location, why)


def reason_of(error: OSError) -> str:
    """Return why a handshake failed, in few words."""
    if not isinstance(error, ssl.SSLError):
        return error.strerror or str(error)
    if error.reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST"):
        return f"{_reason(error)}: the peer does not speak TLS, but perhaps plain text"
    return _reason(error)


def _reason(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate verify failed: {error.verify_message}"
    # Where there is no reason, the text ends with a line of Python's source.
    return (error.reason or str(error).partition(" (_ssl.c")[0]).lower().replace("_", " ")


def _key_reason(error: ssl.SSLError, identity: Identity) -> str:
    reason = error.reason or ""
    if "MISMATCH" in reason:
        return "the private key does not belong to the first certificate"
    if "ENCRYPTED" in identity.pem and ("DECRYPT" in reason or "PASSWORD" in reason or not reason):
        return "the private key is encrypted, and ssl.key.password does not open it"
    return f"key and certificates cannot be loaded: {_reason(error)}"
