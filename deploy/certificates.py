"""The certificates of a cluster's control plane: an authority, and a key for each node or operator.

They are made by `cryptography`, of the extra `tls` (docs/security.md).
"""

import datetime
import ipaddress
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..protocol.control.messages import ROLE_BROKER, ROLE_CONTROLLER
from ..runtime.errors import ConfigError
from ..security.control_identity import is_node, name_of_node

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

AUTHORITY: Final = "control-ca"
AUTHORITY_DAYS: Final = 3650
BACKDATED: Final = datetime.timedelta(minutes=5)
"""A certificate is valid from this long before it was made, because hosts' clocks differ."""
_ID: Final = re.compile(r"\d{1,10}", re.ASCII)
_CONTROLLER: Final = re.compile(r"(\d{1,10})=(\S+)", re.ASCII)
_OPERATOR: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")


def parse_controllers(text: str) -> dict[str, list[str]]:
    """Parse ID=HOST,... into hosts by node name; an id that is named again gets one more host.

    Raise ConfigError if it is malformed.
    """
    hosts: dict[str, list[str]] = {}
    for part in _parts(text):
        found = _CONTROLLER.fullmatch(part)
        if found is None:
            raise ConfigError("controllers", part, "must be ID=HOST, as in 101=10.0.0.1")
        hosts.setdefault(name_of_node(ROLE_CONTROLLER, int(found[1])), []).append(found[2])
    return hosts


def parse_brokers(text: str) -> list[str]:
    """Parse ID,... into node names; raise ConfigError if the text is malformed."""
    names = []
    for part in _parts(text):
        if not _ID.fullmatch(part):
            raise ConfigError("brokers", part, "must be the id of a broker, as in 1,2,3")
        names.append(name_of_node(ROLE_BROKER, int(part)))
    return names


def parse_operators(text: str) -> list[str]:
    """Parse names, separated by commas; raise ConfigError if one cannot be that of an operator."""
    names = _parts(text)
    for name in names:
        if not _OPERATOR.fullmatch(name) or is_node(name) or name == AUTHORITY:
            why = "must be letters, digits and . _ -, and not the name of a node or the authority"
            raise ConfigError("operators", name, why)
    return names


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def make_certificates(directory: Path, hosts: Mapping[str, list[str]], days: int) -> list[Path]:
    """Write NAME.pem for each name in `hosts`, and return the paths of all.

    The directory's authority signs them; if it has none, a new one is made. Files that exist are
    replaced by renaming, so that a running node reads the old or the new one. Raise ConfigError if
    the authority's files cannot be used, or if the library is missing.
    """
    try:
        import cryptography  # noqa: F401
    except ImportError:
        why = "needs a library: pip install 'minikafka[tls]'"
        raise ConfigError("generate certificates", None, why) from None
    directory.mkdir(parents=True, exist_ok=True)
    authority = _Authority(directory)
    paths = [authority.path]
    for name, own in hosts.items():
        path = directory / f"{name}.pem"
        _write(path, authority.signed(name, own, days), 0o600)
        paths.append(path)
    return paths


class _Authority:
    """The authority of a directory: NAME.key, which signs, and NAME.pem, which nodes trust."""

    def __init__(self, directory: Path) -> None:
        from cryptography import x509
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        self.path = directory / f"{AUTHORITY}.pem"
        key_path = directory / f"{AUTHORITY}.key"
        if not key_path.exists():
            self._key = _new_key()
            self._certificate = _signed(AUTHORITY, [], self._key, None, AUTHORITY_DAYS)
            _write(key_path, _pem_of(self._key), 0o600)
            _write(self.path, _text_of(self._certificate), 0o644)
            return
        try:
            self._key = load_pem_private_key(key_path.read_bytes(), None)  # type: ignore[assignment]
            self._certificate = x509.load_pem_x509_certificate(self.path.read_bytes())
        except (OSError, ValueError, TypeError) as error:
            raise ConfigError("output", str(key_path), f"is no authority: {error}") from None

    def signed(self, name: str, hosts: list[str], days: int) -> str:
        """Return a new private key and its certificate, as PEM."""
        key = _new_key()
        certificate = _signed(name, hosts, key, (self._certificate, self._key), days)
        return _text_of(certificate) + _pem_of(key)


def _new_key() -> "ec.EllipticCurvePrivateKey":
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1())


def _signed(
    name: str,
    hosts: list[str],
    key: "ec.EllipticCurvePrivateKey",
    by: "tuple[x509.Certificate, ec.EllipticCurvePrivateKey] | None",
    days: int,
) -> "x509.Certificate":
    """Return a certificate of `key`, signed by `by`; if `by` is None, an authority's own."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.x509.oid import NameOID

    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if by is None else by[0].subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATED)
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=by is None, path_length=None), critical=True)
    )
    if hosts:
        names = x509.SubjectAlternativeName([_alternative(host) for host in hosts])
        builder = builder.add_extension(names, critical=False)
    return builder.sign(key if by is None else by[1], hashes.SHA256())


def _alternative(host: str) -> "x509.GeneralName":
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(host.strip("[]")))
    except ValueError:
        pass
    try:
        return x509.DNSName(host)
    except ValueError as error:
        raise ConfigError("controllers", host, f"is no host: {error}") from None


def _pem_of(key: "ec.EllipticCurvePrivateKey") -> str:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def _text_of(certificate: "x509.Certificate") -> str:
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificate.public_bytes(Encoding.PEM).decode()


def _write(path: Path, text: str, mode: int) -> None:
    unfinished = path.with_name(f".{path.name}.new")
    unfinished.unlink(missing_ok=True)
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with open(descriptor, "w") as file:
        file.write(text)
    unfinished.rename(path)
