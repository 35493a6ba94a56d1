"""Key stores and trust stores: private keys, certificate chains and trusted certificates as PEM.

They are given as bytes of a file, or as text in a setting. PEM is taken as it is; PKCS12 is opened
by `cryptography`, which is optional; Java's own format is refused with the command that converts
it.
Nothing is read from disk here.
"""

import re
from typing import Final, NamedTuple

from ..runtime.errors import ConfigError

PEM: Final = "PEM"
PKCS12: Final = "PKCS12"
JKS: Final = "JKS"
KEYSTORE: Final = "ssl.keystore.location"
TRUSTSTORE: Final = "ssl.truststore.location"
_JAVA_BEGINS: Final = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
_DER_BEGINS: Final = b"\x30"
_BLOCK: Final = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----([\s!-~]*?)-----END \1-----", re.ASCII)
_LINE: Final = 64


class Identity(NamedTuple):
    """A private key and its certificate chain."""

    pem: str
    """The key and the chain, the own certificate first."""
    password: str | None
    """The password of the key, or None if it is not encrypted."""

    def __repr__(self) -> str:
        return "Identity(...)"  # It must not get into a log.


class Given(NamedTuple):
    """A store as it was given."""

    key: str
    """The setting that gives the store, for error messages."""
    location: str | None
    """The path of the file; None if the setting has the content itself."""
    content: bytes
    type: str
    password: str | None

    def __repr__(self) -> str:
        return f"Given({self.key}, {self.location}, ...)"

    def refuse(self, why: str) -> ConfigError:
        """Return the error that names the setting, the file and the reason."""
        return ConfigError(self.key, self.location, why)


def identity_of(given: Given, key_password: str | None) -> Identity:
    """Return key and chain of a key store. Raise ConfigError if it lacks one."""
    if _kind(given) == PKCS12:
        pem, password = _of_pkcs12(given), None
    else:
        pem, password = _text(given), key_password
    blocks = pem_blocks(pem)
    if not any(label.endswith("PRIVATE KEY") for label, _ in blocks):
        raise given.refuse("has no private key")
    if not any(label == "CERTIFICATE" for label, _ in blocks):
        raise given.refuse("has no certificate")
    return Identity("".join(block for _, block in blocks), password)


def trusted_of(given: Given) -> str:
    """Return the certificates of a trust store as PEM. Raise ConfigError if there is none."""
    pem = _of_pkcs12(given) if _kind(given) == PKCS12 else _text(given)
    trusted = [block for label, block in pem_blocks(pem) if label == "CERTIFICATE"]
    if not trusted:
        raise given.refuse("has no certificate")
    return "".join(trusted)


def pem_blocks(text: str) -> list[tuple[str, str]]:
    """Return label and text of each PEM block, in lines as OpenSSL wants them.

    In a setting the lines of a block may have been joined by blanks (KIP-651).
    """
    blocks: list[tuple[str, str]] = []
    for label, body in _BLOCK.findall(text):
        if ":" not in body:  # A block with headers is left as it is.
            packed = "".join(body.split())
            lines = [packed[at : at + _LINE] for at in range(0, len(packed), _LINE)]
            body = "\n" + "\n".join(lines) + "\n"
        blocks.append((label, f"-----BEGIN {label}-----{body}-----END {label}-----\n"))
    return blocks


def _kind(given: Given) -> str:
    """Return PEM or PKCS12 by content.

    Raise ConfigError if it is neither, or not of the given type.
    """
    content, kind = given.content, None
    if content.startswith(_JAVA_BEGINS):
        store = given.location or "store.jks"
        raise given.refuse(
            "is in Java's own format, which only Java reads; convert it by: keytool "
            f"-importkeystore -srckeystore {store} -destkeystore {_p12(store)} "
            "-deststoretype PKCS12"
        )
    if b"-----BEGIN " in content:
        kind = PEM
    elif content.startswith(_DER_BEGINS):
        kind = PKCS12
    if kind is None:
        raise given.refuse("is neither PEM nor PKCS12")
    if given.type not in (JKS, kind):
        raise given.refuse(f"is {kind}, but its type is set to {given.type}")
    return kind


def _p12(path: str) -> str:
    return (path[: path.rindex(".")] if "." in path.rpartition("/")[2] else path) + ".p12"


def _text(given: Given) -> str:
    return given.content.decode("utf-8", "replace")


def _of_pkcs12(given: Given) -> str:
    """Return the key, its certificate and the others of a PKCS12 store as PEM.

    Raise ConfigError if the library is missing or the store cannot be opened.
    """
    try:
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.serialization import (
            Encoding,
            NoEncryption,
            PrivateFormat,
            pkcs12,
        )
    except ImportError:
        why = "PKCS12 needs a library: pip install 'minikafka[tls]'; or convert it to PEM by: "
        why += f"openssl pkcs12 -nodes -in {given.location} -out store.pem"
        raise given.refuse(why) from None
    password = None if given.password is None else given.password.encode()
    try:
        store = pkcs12.load_pkcs12(given.content, password)
        parts = [
            each.certificate.public_bytes(Encoding.PEM)
            for each in ([] if store.cert is None else [store.cert]) + store.additional_certs
        ]
        if store.key is not None:
            plain = store.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
            parts.append(plain)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        # A wrong password and a damaged file cannot be told apart.
        said = str(error) or "it cannot be opened"
        raise given.refuse(f"PKCS12, is its password right? {said}") from None
    return b"".join(parts).decode("ascii")
