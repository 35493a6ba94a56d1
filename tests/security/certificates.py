"""Certificate authorities and certificates for tests, as PEM."""

import datetime
import functools
import ipaddress
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import NameOID

NOW = datetime.datetime.now(datetime.UTC)
DAY = datetime.timedelta(days=1)
ALTERNATIVES = (
    x509.DNSName("localhost"),
    x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
)


class Made(NamedTuple):
    """A certificate with its key, and the authority that signed it."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def certificate_pem(self) -> str:
        return self.certificate.public_bytes(Encoding.PEM).decode()

    @property
    def pem(self) -> str:
        return self.certificate_pem + self.key_pem()

    def key_pem(self, password: str | None = None) -> str:
        encryption = (
            NoEncryption() if password is None else BestAvailableEncryption(password.encode())
        )
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption).decode()

    def pkcs12(self, password: str, *others: "Made") -> bytes:
        cas = [each.certificate for each in others]
        encryption = BestAvailableEncryption(password.encode())
        return pkcs12.serialize_key_and_certificates(
            b"own", self.key, self.certificate, cas, encryption
        )

    def write(self, path: Path, content: str | bytes | None = None) -> str:
        """Write the key store, readable by its owner only, and return its path."""
        data = self.pem if content is None else content
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        path.chmod(0o600)
        return str(path)


def common_name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


@functools.cache
def authority(name: str = "ca") -> Made:
    key = ec.generate_private_key(ec.SECP256R1())
    return Made(_sign(common_name(name), key, None), key)


def make(
    name: str | x509.Name,
    *,
    by: Made | None = None,
    days: int = 30,
    alternatives: tuple[x509.GeneralName, ...] = ALTERNATIVES,
) -> Made:
    """Make a certificate for this subject; it has expired if `days` is negative."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = common_name(name) if isinstance(name, str) else name
    signed = _sign(subject, key, by or authority(), days=days, alternatives=alternatives)
    return Made(signed, key)


def _sign(
    subject: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    by: Made | None,
    *,
    days: int = 30,
    alternatives: tuple[x509.GeneralName, ...] = (),
) -> x509.Certificate:
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if by is None else by.certificate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW - 90 * DAY)
        .not_valid_after(NOW + days * DAY)
        .add_extension(x509.BasicConstraints(ca=by is None, path_length=None), critical=True)
    )
    if alternatives:
        builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
    return builder.sign(key if by is None else by.key, hashes.SHA256())
