"""The checks of a bearer token (JWT, RFC 7519): its signature, its times, and who it is for.

A signature is checked by PyJWT with a key that is passed in; what the token says is checked here
against the rules of the listener and the time. Nothing is fetched, and no clock is read.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from .errors import TokenError
from .signing_keys import ALGORITHMS, SigningKeys

Claims = Mapping[str, Any]
TOKEN_MAX: Final = 16 << 10
"""The most characters of a token."""
TIME_MAX_S: Final = 1 << 40
"""The latest time that is understood, in seconds: 34,000 years."""


class TokenRules(NamedTuple):
    """The rules of a listener for what a token says."""

    audiences: tuple[str, ...] = ()
    """The audiences of which a token must name one. If empty, a token must name none."""
    issuer: str | None = None
    """The issuer that a token must name; None if any will do."""
    skew_ms: int = 30_000
    """The milliseconds by which the issuer's clock may differ."""
    scope_claim: str = "scope"
    sub_claim: str = "sub"
    """The claim with the name of the principal."""


class Proved(NamedTuple):
    """The facts that a good token proves."""

    name: str
    rest_ms: int
    """Milliseconds until the token expires, at least 1."""


def signed_claims(token: str, keys: SigningKeys) -> Claims:
    """Return the claims of a token whose signature is right.

    Raise UnknownKey if it names a key that is not in the set, TokenError for every other fault.
    """
    from jwt import PyJWTError
    from jwt.api_jws import PyJWS

    header, _, _ = _opened(token)
    algorithm, name = header.get("alg"), header.get("kid")
    if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
        allowed = ", ".join(ALGORITHMS)
        raise TokenError(f"its algorithm is {_shown(algorithm)}, and only {allowed} are accepted")
    if name is not None and not isinstance(name, str):
        raise TokenError("its kid is no text")
    key = keys.find(name, algorithm)
    try:
        found = PyJWS(algorithms=[algorithm]).decode_complete(
            token, key.public, algorithms=[algorithm]
        )
    except (PyJWTError, ValueError, RecursionError):
        raise TokenError("its signature is wrong") from None
    return _claims(found["payload"])


def unsecured_claims(token: str) -> Claims:
    """Return the claims of a token that has no signature, and that anybody could have made.

    Raise TokenError if it is malformed or has a signature.
    """
    header, payload, signature = _opened(token)
    if header.get("alg") != "none" or signature:
        raise TokenError("it has a signature, and this listener takes tokens without one only")
    return _claims(payload)


def check_claims(claims: Claims, rules: TokenRules, now_ms: int) -> Proved:
    """Check what a token says at a time, in ms since the epoch.

    Raise TokenError, which names the first claim that breaks a rule.
    """
    rest_ms = _check_times(claims, rules.skew_ms, now_ms)
    if rules.issuer is not None and claims.get("iss") != rules.issuer:
        raise TokenError(f"iss is {_shown(claims.get('iss'))}, not {rules.issuer}")
    _check_audience(claims, rules.audiences)
    _check_scope(claims, rules.scope_claim)
    name = claims.get(rules.sub_claim)
    if not isinstance(name, str) or not name.strip() or not name.isprintable():
        raise TokenError(f"{rules.sub_claim} names nobody in printable characters")
    return Proved(name, rest_ms)


def check_of(
    claims_of: Callable[[str], Claims], rules: TokenRules, wall_ms: Callable[[], int]
) -> Callable[[str], Proved]:
    """Return a function that makes all checks of a token, at the time of `wall_ms`."""
    return lambda token: check_claims(claims_of(token), rules, wall_ms())


def _opened(token: str) -> tuple[Mapping[str, Any], bytes, bytes]:
    """Return header, payload and signature; the signature is not checked here."""
    from jwt import PyJWTError
    from jwt.api_jws import PyJWS

    if len(token) > TOKEN_MAX:
        raise TokenError(f"it has {len(token)} characters, and {TOKEN_MAX} are the most")
    try:
        found = PyJWS().decode_complete(token, options={"verify_signature": False})
    except (PyJWTError, ValueError, RecursionError) as error:
        raise TokenError(f"it is no signed JWT: {str(error)[:100]!r}") from None
    header: Mapping[str, Any] = found["header"]
    if "crit" in header:
        raise TokenError("its header asks for an extension (crit)")
    return header, found["payload"], found["signature"]


def object_in(text: bytes) -> dict[str, Any] | None:
    """Return the JSON object that a text is; None if it is no JSON object."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _claims(payload: bytes) -> Claims:
    claims = object_in(payload)
    if claims is None:
        raise TokenError("its payload is no JSON object")
    return claims


def _check_times(claims: Claims, skew_ms: int, now_ms: int) -> int:
    """Return the ms until the token expires; if it has expired, those left of the clock skew."""
    expires_ms, issued_ms = _time_ms(claims, "exp"), _time_ms(claims, "iat")
    if expires_ms is None or issued_ms is None:
        raise TokenError(f"{'exp' if expires_ms is None else 'iat'} is missing")
    begins_ms = issued_ms
    if "nbf" in claims:
        begins_ms = max(issued_ms, _time_ms(claims, "nbf") or 0)
    if begins_ms - skew_ms > now_ms:
        raise TokenError(f"it begins {(begins_ms - now_ms) / 1000:.0f} s from now (iat, nbf)")
    if expires_ms + skew_ms <= now_ms:
        raise TokenError(f"it expired {(now_ms - expires_ms) / 1000:.0f} s ago (exp)")
    if expires_ms < begins_ms:
        raise TokenError("it expires before it begins (exp, iat, nbf)")
    end_ms = expires_ms if expires_ms > now_ms else expires_ms + skew_ms
    return max(end_ms - now_ms, 1)


def _time_ms(claims: Claims, name: str) -> int | None:
    seconds = claims.get(name)
    if seconds is None:
        return None
    is_number = isinstance(seconds, (int, float)) and not isinstance(seconds, bool)
    if not is_number or not 0 <= seconds <= TIME_MAX_S:
        raise TokenError(f"{name} is no time")
    return int(seconds * 1000)


def _check_audience(claims: Claims, expected: tuple[str, ...]) -> None:
    given = claims.get("aud", [])
    named = [given] if isinstance(given, str) else given
    if not isinstance(named, list) or not all(isinstance(each, str) for each in named):
        raise TokenError("aud is neither text nor a list of texts")
    if expected and not any(each in expected for each in named):
        raise TokenError(f"aud is {_shown(given)}, which has none of {', '.join(expected)}")
    if named and not expected:
        why = "and sasl.oauthbearer.expected.audience expects none"
        raise TokenError(f"aud is {_shown(given)}, {why}")


def _check_scope(claims: Claims, name: str) -> None:
    given = claims.get(name, [])
    scopes = given.split() if isinstance(given, str) else given
    if not isinstance(scopes, list) or not all(isinstance(each, str) for each in scopes):
        raise TokenError(f"{name} is neither text nor a list of texts")
    if not all(each.strip() for each in scopes) or len(dict.fromkeys(scopes)) < len(scopes):
        raise TokenError(f"{name} has an empty scope, or one twice")


def _shown(value: object) -> str:
    return repr(value)[:200] if isinstance(value, (str, list)) else "not given"
