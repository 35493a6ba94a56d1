"""Issuers of tokens: keys, the set that is published, and tokens that they sign."""

import base64
import functools
import json
from collections.abc import Mapping
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa

jwt: Any = pytest.importorskip("jwt", reason="PyJWT is not installed: it comes with `oauth`")

NOW_S = 1_800_000_000
CLAIMS: Mapping[str, Any] = {"sub": "alice", "iat": NOW_S - 100, "exp": NOW_S + 600}


@functools.cache
def rsa_key(number: int = 0, bits: int = 2048) -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=bits)


@functools.cache
def ec_key(curve: str = "P-256") -> ec.EllipticCurvePrivateKey:
    curves = {"P-256": ec.SECP256R1(), "P-384": ec.SECP384R1(), "P-521": ec.SECP521R1()}
    return ec.generate_private_key(curves[curve])


def entry(key: Any, kid: str | None = "one", **changes: Any) -> dict[str, Any]:
    """The entry of a public key in a set."""
    kinds = jwt.algorithms
    of = kinds.RSAAlgorithm if isinstance(key, rsa.RSAPrivateKey) else kinds.ECAlgorithm
    made: dict[str, Any] = dict(of.to_jwk(key.public_key(), as_dict=True))
    return {**made, **({} if kid is None else {"kid": kid}), **changes}


def published(*entries: Mapping[str, Any]) -> bytes:
    return json.dumps({"keys": entries or [entry(rsa_key())]}).encode()


def token(
    claims: Mapping[str, Any] = CLAIMS,
    key: Any = None,
    algorithm: str = "RS256",
    headers: Mapping[str, Any] | None = None,
) -> str:
    """A signed token; its header names the key `one` unless `headers` says otherwise."""
    named = {"kid": "one"} if headers is None else dict(headers)
    payload = json.dumps(dict(claims)).encode()
    return str(jwt.PyJWS().encode(payload, key or rsa_key(), algorithm, headers=named))


def segment(value: Any) -> str:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def unsecured(claims: Any = CLAIMS, algorithm: str = "none", signature: str = "") -> str:
    return f"{segment({'alg': algorithm})}.{segment(claims)}.{signature}"
