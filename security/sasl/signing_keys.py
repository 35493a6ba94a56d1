"""The public keys of an issuer of tokens, as a JSON Web Key Set (RFC 7517).

PyJWT makes a key of each entry. An entry that cannot check a signature is left out: a secret that
two share, a key for encryption, a weak one, or one of a kind that is not known. Nothing is fetched
here.
"""

import json
from typing import Any, Final, NamedTuple, Self

from .errors import TokenError, UnknownKey

RSA: Final = "RSA"
ALGORITHMS: Final = {
    "RS256": RSA,
    "RS384": RSA,
    "RS512": RSA,
    "PS256": RSA,
    "PS384": RSA,
    "PS512": RSA,
    "ES256": "P-256",
    "ES384": "P-384",
    "ES512": "P-521",
}
"""The algorithms of signatures that are accepted, with the kind of key that each needs.

`none` is not among them, and no algorithm with a shared secret (HS256): whoever has the public key
could sign with it as such a secret.
"""
KEYS_MAX: Final = 100
"""The most entries of a set."""
RSA_BITS_MIN: Final = 2048
RSA_BITS_MAX: Final = 8192
"""The largest RSA key: to check a signature with a larger one takes milliseconds."""
_EC: Final = "EC"
_PUBLIC: Final = ("kty", "crv", "n", "e", "x", "y")
"""The members of an entry that are read; a private part is not."""


class SigningKey(NamedTuple):
    """One public key."""

    name: str | None
    """Its `kid`, by which tokens name it; None if it has none."""
    kind: str
    """RSA, or the curve."""
    algorithm: str | None
    """The only algorithm that it is for; None if it is for all of its kind."""
    public: Any
    """The key as `cryptography` has it."""

    def fits(self, algorithm: str) -> bool:
        """True if signatures by that algorithm can be checked with it."""
        is_kind = ALGORITHMS[algorithm] == self.kind
        return is_kind and self.algorithm in (None, algorithm)


class SigningKeys:
    """The keys of an issuer."""

    def __init__(self, keys: tuple[SigningKey, ...]) -> None:
        self._keys = keys

    def __len__(self) -> int:
        return len(self._keys)

    @classmethod
    def parse(cls, content: bytes) -> Self:
        """Read a set of keys.

        Raise TokenError if it is malformed, has too many keys, or none to check with.
        """
        try:
            found = json.loads(content)
        except (ValueError, RecursionError):
            raise TokenError("is no JSON") from None
        entries = found.get("keys") if isinstance(found, dict) else None
        if not isinstance(entries, list):
            raise TokenError("is no JSON Web Key Set: it has no list `keys`")
        if len(entries) > KEYS_MAX:
            raise TokenError(f"has {len(entries)} keys, and {KEYS_MAX} are the most")
        keys = tuple(key for key in map(_key_of, entries) if key is not None)
        if not keys:
            known = ", ".join(ALGORITHMS)
            raise TokenError(f"has no key that can check a signature by {known}")
        return cls(keys)

    def find(self, name: str | None, algorithm: str) -> SigningKey:
        """Return the key that a token names; for a token that names none, the only key that fits.

        Raise UnknownKey if there is none of that name, TokenError if no key fits.
        """
        named = [key for key in self._keys if name is None or key.name == name]
        if not named:
            raise UnknownKey(f"the issuer's keys have none with kid {_shown(name)}")
        fitting = [key for key in named if key.fits(algorithm)]
        if not fitting:
            raise TokenError(f"the key with kid {_shown(name)} is not for {algorithm}")
        if name is None and len(fitting) > 1:
            raise TokenError(f"the token names no key, and {len(fitting)} would fit")
        return fitting[0]


def _key_of(entry: object) -> SigningKey | None:
    """Return the key of an entry, or None if it cannot check the signature of a token."""
    from jwt import PyJWTError
    from jwt.algorithms import ECAlgorithm, RSAAlgorithm

    if not isinstance(entry, dict) or not _may_verify(entry):
        return None
    name, algorithm = entry.get("kid"), entry.get("alg")
    if name is not None and not isinstance(name, str):
        return None
    if algorithm is not None and algorithm not in tuple(ALGORITHMS):
        return None
    members: dict[str, Any] = {key: entry[key] for key in _PUBLIC if key in entry}
    public: Any
    try:
        if members.get("kty") == RSA:
            public, kind = RSAAlgorithm.from_jwk(members), RSA
        elif members.get("kty") == _EC:
            public, kind = ECAlgorithm.from_jwk(members), str(members.get("crv"))
        else:
            return None
    except (PyJWTError, ValueError, TypeError, AttributeError):
        return None
    if kind == RSA and not RSA_BITS_MIN <= public.key_size <= RSA_BITS_MAX:
        return None
    return SigningKey(name, kind, algorithm, public) if kind in ALGORITHMS.values() else None


def _may_verify(entry: dict[str, Any]) -> bool:
    operations = entry.get("key_ops")
    is_for_it = not isinstance(operations, list) or "verify" in operations
    return is_for_it and entry.get("use") in (None, "sig")


def _shown(name: str | None) -> str:
    return "that is not named" if name is None else repr(name[:100])
