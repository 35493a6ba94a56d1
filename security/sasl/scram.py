"""SCRAM (RFC 5802, RFC 7677): both ends prove that they know a password, and neither sends it.

A server keeps a credential from which the password cannot be read, and with which nobody can log
in without guessing it. Kafka's dialect has no channel binding.
"""

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable
from enum import Enum
from typing import Final, NamedTuple

from ...protocol.scram import ScramCredential
from .errors import SaslError
from .replies import Accepted, Challenge, Refused, Reply

ITERATIONS_MIN: Final = 4096
ITERATIONS_MAX: Final = 16_384
"""The most iterations of a credential, as in Kafka."""
ITERATIONS_ASKED_MAX: Final = 100_000
"""The most iterations that a client computes for a server; they take up to 0.1 s."""
SALT_BYTES: Final = 16
NONCE_BYTES: Final = 18
_MESSAGE_MAX: Final = 4096
"""The most bytes of a token; names, nonces and salts are far shorter."""
_NAME: Final = r"(?:[^,=\0]|=2C|=3D)+"
_FIRST: Final = re.compile(
    rf"(?P<gs2>n,(?:a=(?P<id>{_NAME}))?,)(?P<bare>n=(?P<name>{_NAME}),r=(?P<nonce>[!-+\--~]+)"
    rf"(?P<extensions>(?:,[a-zA-Z]+=[^,\0]*)*))"
)
_BY_TOKEN: Final = "tokenauth=true"
"""Kafka's extension of the first message: the name is that of a delegation token (KIP-48)."""
_FINAL: Final = re.compile(
    r"(?P<without_proof>c=(?P<binding>[A-Za-z0-9+/=]+),r=(?P<nonce>[!-+\--~]+)"
    r"(?:,[a-zA-Z]=[^,\0]*)*),p=(?P<proof>[A-Za-z0-9+/=]+)"
)
_CHALLENGE: Final = re.compile(
    r"r=(?P<nonce>[!-+\--~]+),s=(?P<salt>[A-Za-z0-9+/=]+),i=(?P<iterations>[0-9]{1,9})(?:,.*)?"
)


class ScramMechanism(Enum):
    """The two mechanisms; the value is their number in records and requests."""

    SHA_256 = 1
    SHA_512 = 2

    @property
    def sasl_name(self) -> str:
        """The name of the mechanism in SaslHandshake and in settings."""
        return f"SCRAM-{self.name.replace('_', '-')}"

    @property
    def hash_name(self) -> str:
        """The name of the hash function in `hashlib`."""
        return self.name.replace("_", "").lower()

    def hmac(self, key: bytes, message: bytes) -> bytes:
        """Return the HMAC with the mechanism's hash."""
        return hmac.digest(key, message, self.hash_name)

    def hash(self, message: bytes) -> bytes:
        """Return the mechanism's hash."""
        return hashlib.new(self.hash_name, message).digest()

    def salted(self, password: str, salt: bytes, iterations: int) -> bytes:
        """Return the salted password; 4096 iterations take 1 ms (SHA-256) to 5 ms (SHA-512)."""
        return hashlib.pbkdf2_hmac(self.hash_name, password.encode(), salt, iterations)


BY_NAME: Final = {mechanism.sasl_name: mechanism for mechanism in ScramMechanism}


def credential_of(
    mechanism: ScramMechanism, salted_password: bytes, salt: bytes, iterations: int
) -> ScramCredential:
    """Derive the credential from a salted password."""
    stored = mechanism.hash(mechanism.hmac(salted_password, b"Client Key"))
    server = mechanism.hmac(salted_password, b"Server Key")
    return ScramCredential(salt, stored, server, iterations)


def pretended(secret: bytes, model: ScramCredential | None, name: str) -> ScramCredential:
    """Return the credential of an unknown user, always the same one for the same name.

    Its salt is made of `secret`, which no client knows. Its size and its iterations are those of
    `model`, a true credential if there is any.
    """
    digest = hmac.digest(secret, name.encode(), "sha512")
    if model is None:
        return ScramCredential(digest[:SALT_BYTES], digest, digest, ITERATIONS_MIN)
    return ScramCredential(digest[: len(model.salt)], digest, digest, model.iterations)


class ScramUsers(NamedTuple):
    """The credentials for one mechanism, as a login needs them."""

    mechanism: ScramMechanism
    credential_of: Callable[[str], ScramCredential | None]
    """Returns a user's credential, or None if the user is unknown."""
    pretended_for: Callable[[str], ScramCredential]
    """Returns a credential for an unknown user, always the same one for the same name."""


class TokenLogin(NamedTuple):
    """A delegation token by which somebody logs in."""

    owner: str
    """The name of the user that the client becomes."""
    credential: ScramCredential
    left_ms: Callable[[], int]
    """Returns the milliseconds until the token expires; none are left if it is not positive."""


TokenOf = Callable[[str], TokenLogin]
"""Returns the delegation token with that id; if there is none, one that counts as expired."""


class ScramServer:
    """Checks the proof of one user, or of one delegation token.

    An unknown user gets a challenge as any other does, and is refused at its proof. So nobody
    learns which users exist.
    """

    def __init__(self, users: ScramUsers, nonce: str, token_of: TokenOf | None = None) -> None:
        """`nonce` is printable, without a comma, and never used twice.

        Without `token_of` no token is known.
        """
        self._users = users
        self._nonce = nonce
        self._token_of = token_of
        self._token: TokenLogin | None = None
        self._failed = Refused(
            "Authentication failed during authentication due to invalid credentials with SASL "
            f"mechanism {users.mechanism.sasl_name}"
        )
        self._is_known = False
        self._name = self._gs2 = self._transcript = ""
        self._credential: ScramCredential | None = None

    def step(self, token: bytes) -> Reply:
        """Take the client's first or final message, and return the reply."""
        text = _text(token)
        if text is None:
            return self._failed
        return self._on_first(text) if self._credential is None else self._on_final(text)

    def _on_first(self, text: str) -> Reply:
        found = _FIRST.fullmatch(text)
        if found is None:
            return self._failed
        name = _unescaped(found["name"])
        if found["id"] is not None and _unescaped(found["id"]) != name:
            return self._failed
        credential = self._credential_of(name, found["extensions"])
        self._is_known = credential is not None
        credential = credential or self._users.pretended_for(name)
        self._name, self._gs2, self._credential = name, found["gs2"], credential
        self._nonce = found["nonce"] + self._nonce
        salt = base64.b64encode(credential.salt).decode()
        challenge = f"r={self._nonce},s={salt},i={credential.iterations}"
        self._transcript = f"{found['bare']},{challenge}"
        return Challenge(challenge.encode())

    def _credential_of(self, name: str, extensions: str) -> ScramCredential | None:
        if _BY_TOKEN not in extensions.lower().split(","):
            return self._users.credential_of(name)
        if self._token_of is None:
            return None
        self._token = self._token_of(name)
        return self._token.credential

    def _on_final(self, text: str) -> Reply:
        credential, mechanism = self._credential, self._users.mechanism
        assert credential is not None
        found = _FINAL.fullmatch(text)
        if found is None:
            return self._failed
        # All of the nonce must come back: a part would allow a recorded proof (CVE-2024-56128).
        if not hmac.compare_digest(found["nonce"], self._nonce):
            return self._failed
        if _decoded(found["binding"]) != self._gs2.encode():
            return self._failed
        message = f"{self._transcript},{found['without_proof']}".encode()
        proof = _decoded(found["proof"])
        signature = mechanism.hmac(credential.stored_key, message)
        if proof is None or len(proof) != len(signature):
            return self._failed
        key = mechanism.hash(_xor(proof, signature))
        is_proved = hmac.compare_digest(key, credential.stored_key)
        if not (is_proved and self._is_known):
            return self._failed
        verifier = b"v=" + base64.b64encode(mechanism.hmac(credential.server_key, message))
        if self._token is None:
            return Accepted(self._name, verifier)
        left_ms = self._token.left_ms()
        if left_ms <= 0:
            return self._failed
        return Accepted(self._token.owner, verifier, left_ms, is_by_token=True)


class ScramPassword:
    """A user's password, and the keys that were derived from it.

    All brokers have the same salt for a user, so the derivation is paid once per client.
    """

    def __init__(
        self, mechanism: ScramMechanism, name: str, password: str, *, is_token: bool = False
    ) -> None:
        """If `is_token`, name and password are the id and the secret of a delegation token."""
        self.mechanism = mechanism
        self.name = name
        self.is_token = is_token
        self._password = password
        self._salted: dict[tuple[bytes, int], bytes] = {}

    def salted(self, salt: bytes, iterations: int) -> bytes:
        """Return the salted password; the first call for a salt takes a millisecond or more."""
        key = (salt, iterations)
        salted = self._salted.get(key)
        if salted is None:
            salted = self.mechanism.salted(self._password, salt, iterations)
            self._salted = {key: salted}
        return salted


class ScramClient:
    """Proves one password, and checks that the server knows it too."""

    def __init__(self, password: ScramPassword, nonce: str) -> None:
        """`nonce` is printable, without a comma, and never used twice."""
        self._mechanism = password.mechanism
        self._password = password
        self._nonce = nonce
        escaped = password.name.replace("=", "=3D").replace(",", "=2C")
        extension = f",{_BY_TOKEN}" if password.is_token else ""
        self._bare = f"n={escaped},r={nonce}{extension}"
        self._verifier: bytes | None = None

    def first(self) -> bytes:
        """Return the first message, with the name and the nonce."""
        return f"n,,{self._bare}".encode()

    def step(self, token: bytes) -> bytes | None:
        """Take the challenge and return the proof; then take the server's proof and return None.

        Raise SaslError if either is wrong.
        """
        text = _text(token) or ""
        if self._verifier is None:
            return self._on_challenge(text)
        found = _decoded(text[2:]) if text.startswith("v=") else None
        if found is None or not hmac.compare_digest(found, self._verifier):
            raise SaslError("SCRAM: the server could not prove that it knows the password")
        return None

    def _on_challenge(self, text: str) -> bytes:
        mechanism = self._mechanism
        found = _CHALLENGE.fullmatch(text)
        salt = None if found is None else _decoded(found["salt"])
        if found is None or salt is None:
            raise SaslError("SCRAM: the server's first message is malformed")
        nonce, iterations = found["nonce"], int(found["iterations"])
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise SaslError("SCRAM: the server's nonce does not begin with the client's")
        if not ITERATIONS_MIN <= iterations <= ITERATIONS_ASKED_MAX:
            raise SaslError(f"SCRAM: the server asks for {iterations} iterations")
        salted = self._password.salted(salt, iterations)
        credential = credential_of(mechanism, salted, salt, iterations)
        without_proof = f"c=biws,r={nonce}"
        message = f"{self._bare},{text},{without_proof}".encode()
        key = mechanism.hmac(salted, b"Client Key")
        proof = _xor(key, mechanism.hmac(credential.stored_key, message))
        self._verifier = mechanism.hmac(credential.server_key, message)
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()


def nonce_of(random_bytes: bytes) -> str:
    """Return random bytes as a nonce, which is printable and has no comma."""
    return base64.b64encode(random_bytes).decode()


def _text(token: bytes) -> str | None:
    if len(token) > _MESSAGE_MAX:
        return None
    try:
        return token.decode()
    except UnicodeDecodeError:
        return None


def _unescaped(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")


def _decoded(text: str) -> bytes | None:
    """Return the bytes of a base64 text, or None if it is no base64."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None


def _xor(left: bytes, right: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(left, right, strict=True))
