"""Signatures of the requests that workers send to each other (KIP-507).

The body is authenticated with a key that all workers read in the config topic. Pure. The leader
makes a new key from time to time; the one before it is accepted for PREVIOUS_MS more, so that a
request that was on its way is not refused.
"""

import hashlib
import hmac
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from .config_log import SessionKey
from .herding import BadRequest, HerderError, Unavailable

AUTHORIZATION: Final = "X-Connect-Authorization"
ALGORITHM: Final = "X-Connect-Request-Signature-Algorithm"
DEFAULT: Final = "HmacSHA256"
PREVIOUS_MS: Final = 30_000
"""Milliseconds for which the key before the newest one is still accepted; Kafka has none."""
KEY_BYTES: Final = 32
HASHES: Final = {
    "HmacSHA1": hashlib.sha1,
    "HmacSHA224": hashlib.sha224,
    "HmacSHA256": hashlib.sha256,
    "HmacSHA384": hashlib.sha384,
    "HmacSHA512": hashlib.sha512,
}
"""The hash of each algorithm, by its name in Java."""


class Forbidden(HerderError):
    """A request of another worker has a wrong signature."""

    status = 403


@dataclass(slots=True)
class SessionKeys:
    """The newest key, and the one before it while it counts."""

    newest: SessionKey | None = None
    _previous: SessionKey | None = None
    _replaced_ms: int = 0

    def replace(self, key: SessionKey, now_ms: int) -> None:
        """Take the key that the config topic has now; `now_ms` is monotonic."""
        if key != self.newest:
            self._previous, self._replaced_ms = self.newest, now_ms
            self.newest = key

    def check(self, body: bytes, headers: Mapping[str, str], now_ms: int) -> None:
        """Raise BadRequest without a signature, Unavailable without a key, Forbidden if wrong."""
        found = {name.lower(): value for name, value in headers.items()}
        signature, algorithm = (found.get(each.lower()) for each in (AUTHORIZATION, ALGORITHM))
        if signature is None or algorithm is None:
            raise BadRequest("Internal request missing required signature")
        if algorithm not in HASHES:
            raise BadRequest(f"This worker does not accept signatures by {algorithm[:40]!r}")
        if self.newest is None:
            raise Unavailable("This worker has not read a session key from the config topic yet")
        try:
            given = b64decode(signature, validate=True)
        except ValueError:
            raise BadRequest("The signature of the internal request is no base64") from None
        keys = [self.newest]
        if self._previous is not None and now_ms - self._replaced_ms <= PREVIOUS_MS:
            keys.append(self._previous)
        if not any(hmac.compare_digest(_mac(key, algorithm, body), given) for key in keys):
            raise Forbidden("Internal request contained invalid signature.")


def sign(key: SessionKey, body: bytes) -> dict[str, str]:
    """Return the headers that sign a body."""
    algorithm = key.algorithm if key.algorithm in HASHES else DEFAULT
    return {AUTHORIZATION: b64encode(_mac(key, algorithm, body)).decode(), ALGORITHM: algorithm}


def _mac(key: SessionKey, algorithm: str, body: bytes) -> bytes:
    return hmac.new(key.key, body, HASHES[algorithm]).digest()
