"""Delegation tokens (KIP-48): the secrets of tokens, and the settings that both daemons share.

A token's secret is the HMAC of its id with delegation.token.secret.key, so that no secret is kept:
each node with that key computes it. A login by a token is one by SCRAM; the user name is the
token's id, the password its secret in Base64.
"""

import base64
import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from ..protocol.scram import ScramCredential
from ..protocol.tokens import DelegationToken
from ..runtime.config import setting
from .sasl.scram import ITERATIONS_MIN, SALT_BYTES, ScramMechanism, credential_of

SECRET_KEY: Final = "delegation.token.secret.key"
SECRETS_KEPT: Final = 16_384
"""The most secrets that are kept; each takes some 2 µs to compute again."""
CREDENTIALS_KEPT: Final = 1024
"""The most SCRAM credentials that are kept; each takes 1 to 5 ms to derive again."""


def token_secret_key() -> Any:
    """Declare delegation.token.secret.key, as a field of type `str | None`."""
    return setting(
        SECRET_KEY,
        None,
        secret=True,
        doc="The secret of which delegation tokens are made, the same on every broker and "
        "controller. Unset, there are no delegation tokens. With another key the tokens that there"
        " are cannot be used any more.",
    )


class TokenKey:
    """Computes the secrets of tokens from delegation.token.secret.key."""

    def __init__(self, key: str) -> None:
        self._key = key.encode()
        self.secret_of: Callable[[str], bytes] = lru_cache(SECRETS_KEPT)(self._secret_of)
        """Returns the 64 secret bytes of the token with this id."""
        self._derived = lru_cache(CREDENTIALS_KEPT)(self._derive)

    @classmethod
    def of(cls, key: str | None) -> "TokenKey | None":
        """Make the key of this setting; None if it is unset, so that there are no tokens."""
        return None if key is None else cls(key)

    def find(self, tokens: Mapping[str, DelegationToken], secret: bytes) -> str | None:
        """Return the id of the token with that secret; None if there is no such token."""
        for token_id in tokens:
            if hmac.compare_digest(self.secret_of(token_id), secret):
                return token_id
        return None

    def credential_of(self, mechanism: ScramMechanism, token_id: str) -> ScramCredential:
        """Return the SCRAM credential of a token, the same one on every broker.

        The first call for a token takes 1 to 5 ms.
        """
        return self._derived(mechanism, token_id)

    def _secret_of(self, token_id: str) -> bytes:
        return hmac.digest(self._key, token_id.encode(), "sha512")

    def _derive(self, mechanism: ScramMechanism, token_id: str) -> ScramCredential:
        # No token id has a colon, so a salt tells nothing of any token's secret.
        salt = self._secret_of(f"salt:{mechanism.sasl_name}:{token_id}")[:SALT_BYTES]
        password = password_of(self.secret_of(token_id))
        salted = mechanism.salted(password, salt, ITERATIONS_MIN)
        return credential_of(mechanism, salted, salt, ITERATIONS_MIN)


def password_of(secret: bytes) -> str:
    """Return the password with which a token of that secret logs in."""
    return base64.b64encode(secret).decode()


@dataclass(frozen=True, slots=True)
class TokenPolicy:
    """The rules by which the active controller makes and renews tokens."""

    key: TokenKey
    lifetime_max_ms: int
    """Milliseconds from its creation on after which a token cannot be renewed."""
    expiry_ms: int
    """Milliseconds from its creation or renewal on after which a token expires."""
