"""The checks of a token: each of them refuses one that is good but for that."""

import contextlib
from collections.abc import Mapping
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st

from minikafka.security.sasl.bearer_tokens import (
    TOKEN_MAX,
    Proved,
    TokenRules,
    check_claims,
    signed_claims,
    unsecured_claims,
)
from minikafka.security.sasl.errors import TokenError, UnknownKey
from minikafka.security.sasl.signing_keys import ALGORITHMS, SigningKeys

from .issuer import (
    CLAIMS,
    NOW_S,
    ec_key,
    entry,
    jwt,
    published,
    rsa_key,
    segment,
    token,
    unsecured,
)

NOW_MS = NOW_S * 1000
KEYS = SigningKeys.parse(
    published(
        entry(rsa_key()),
        *(entry(ec_key(curve), curve) for curve in ("P-256", "P-384", "P-521")),
    )
)
STRICT = TokenRules(("kafka", "logs"), "https://issuer.example")
GOOD: Mapping[str, Any] = {**CLAIMS, "aud": ["web", "kafka"], "iss": "https://issuer.example"}


@pytest.mark.parametrize(("algorithm", "kind"), list(ALGORITHMS.items()))
def test_a_signature_by_each_algorithm_is_checked(algorithm: str, kind: str) -> None:
    key, kid = (rsa_key(), "one") if kind == "RSA" else (ec_key(kind), kind)
    good = token(CLAIMS, key, algorithm, {"kid": kid})
    assert signed_claims(good, KEYS) == CLAIMS
    head, payload, signature = good.split(".")
    other = segment({**CLAIMS, "sub": "admin"})
    for bad in (f"{head}.{other}.{signature}", f"{head}.{payload}.{signature[::-1]}"):
        with pytest.raises(TokenError, match=r"signature is wrong|no signed JWT"):
            signed_claims(bad, KEYS)
    with pytest.raises(TokenError, match=r"no signed JWT|signature is wrong"):
        signed_claims(f"{head}.{payload}.", KEYS)


def public_pem() -> bytes:
    return rsa_key().public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def signed_with_the_public_key() -> str:
    """HS256 with the public key as its secret, which a careless check would take."""
    signed = f"{segment({'alg': 'HS256', 'kid': 'one'})}.{segment(dict(CLAIMS))}"
    hmac = jwt.get_algorithm_by_name("HS256")
    return f"{signed}.{segment(hmac.sign(signed.encode(), public_pem()))}"


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (unsecured(), "algorithm is 'none'"),
        (unsecured(algorithm="None"), "algorithm is 'None'"),
        (signed_with_the_public_key(), "algorithm is 'HS256'"),
        (unsecured(algorithm="RS256"), "signature is wrong"),
        (f"{segment({})}.{segment(dict(CLAIMS))}.", "algorithm is not given"),
        (f"{segment({'alg': ['RS256']})}.{segment(dict(CLAIMS))}.", "algorithm is"),
        (token(key=rsa_key(2)), "signature is wrong"),
        (token(headers={"kid": "one", "crit": ["exp"], "exp": 1}), "no signed JWT|crit"),
        (token(algorithm="PS256", headers={"kid": "P-256"}), "not for PS256"),
        (token(CLAIMS, ec_key(), "ES256", {"kid": "one"}), "not for ES256"),
        ("", "no signed JWT"),
        ("a.b", "no signed JWT"),
        ("a.b.c.d.e", "no signed JWT"),
        (f"{segment(b'[' * 9000)}.e30.", "no signed JWT"),
        (f"{segment([])}.e30.", "no signed JWT"),
        ("x" * (TOKEN_MAX + 1), "are the most"),
    ],
)
def test_a_token_that_proves_nothing_is_refused(bad: str, why: str) -> None:
    with pytest.raises(TokenError, match=why) as caught:
        signed_claims(bad, KEYS)
    assert not isinstance(caught.value, UnknownKey)


def test_s_11_a_key_that_is_not_in_the_set_may_come_with_a_newer_one() -> None:
    with pytest.raises(UnknownKey, match="none with kid 'two'"):
        signed_claims(token(headers={"kid": "two"}), KEYS)
    newer = SigningKeys.parse(published(entry(rsa_key(), "one"), entry(rsa_key(2), "two")))
    assert signed_claims(token(key=rsa_key(2), headers={"kid": "two"}), newer) == CLAIMS


def test_the_claims_must_be_an_object() -> None:
    for payload in (b"[]", b"no", b"\xff", b"[" * 9000):
        with pytest.raises(TokenError, match="no JSON object"):
            signed_claims(jwt.PyJWS().encode(payload, rsa_key(), "RS256", {"kid": "one"}), KEYS)


def proved(changes: Mapping[str, Any], rules: TokenRules = STRICT, now_ms: int = NOW_MS) -> Proved:
    claims = {key: value for key, value in {**GOOD, **changes}.items() if value is not ...}
    return check_claims(claims, rules, now_ms)


def test_a_good_token_proves_a_name_until_it_expires() -> None:
    assert proved({}) == Proved("alice", 600_000)
    assert proved({"exp": NOW_S + 0.25}) == Proved("alice", 250)


@pytest.mark.parametrize(
    "changes",
    [
        {"exp": NOW_S - 29},
        {"iat": NOW_S + 30, "exp": NOW_S + 60},
        {"nbf": NOW_S + 30},
        {"nbf": None},
        {"aud": "logs"},
        {"scope": "read write"},
        {"scope": ["read", "write"]},
        {"scope": ""},
        {"sub": "böb"},
    ],
)
def test_s_11_what_is_good_enough(changes: dict[str, Any]) -> None:
    assert proved(changes).rest_ms > 0


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"exp": ...}, "exp is missing"),
        ({"exp": None}, "exp is missing"),
        ({"iat": ...}, "iat is missing"),
        ({"exp": str(NOW_S + 60)}, "exp is no time"),
        ({"exp": True}, "exp is no time"),
        ({"exp": float("nan")}, "exp is no time"),
        ({"exp": float("inf")}, "exp is no time"),
        ({"exp": 1 << 62}, "exp is no time"),
        ({"exp": 10**400}, "exp is no time"),
        ({"iat": -1}, "iat is no time"),
        ({"nbf": "soon"}, "nbf is no time"),
        ({"exp": NOW_S - 30}, "expired 30 s ago"),
        ({"exp": NOW_S - 31}, "expired 31 s ago"),
        ({"iat": NOW_S + 31, "exp": NOW_S + 60}, "begins 31 s from now"),
        ({"nbf": NOW_S + 31}, "begins 31 s from now"),
        ({"iat": NOW_S + 20, "exp": NOW_S + 10}, "expires before it begins"),
        ({"nbf": NOW_S + 20, "exp": NOW_S + 10}, "expires before it begins"),
        ({"iss": "https://other.example"}, "iss is 'https://other.example', not"),
        ({"iss": ...}, "iss is not given"),
        ({"iss": ["https://issuer.example"]}, "iss is"),
        ({"aud": "web"}, "aud is 'web', which has none of kafka, logs"),
        ({"aud": ...}, "aud is not given|has none"),
        ({"aud": []}, "has none"),
        ({"aud": {"kafka": 1}}, "aud is neither"),
        ({"aud": ["kafka", 1]}, "aud is neither"),
        ({"scope": 1}, "scope is neither"),
        ({"scope": [1]}, "scope is neither"),
        ({"scope": "read read"}, "scope has an empty scope, or one twice"),
        ({"scope": ["read", " "]}, "scope has an empty scope, or one twice"),
        ({"sub": ...}, "sub names nobody"),
        ({"sub": ""}, "sub names nobody"),
        ({"sub": " "}, "sub names nobody"),
        ({"sub": 7}, "sub names nobody"),
        ({"sub": "\ud800"}, "sub names nobody"),
        ({"sub": "alice\nINFO User:admin was here"}, "sub names nobody"),
    ],
)
def test_s_11_what_is_not(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(TokenError, match=why):
        proved(changes)


def test_a_token_for_somebody_is_refused_where_nobody_is_expected() -> None:
    assert check_claims(CLAIMS, TokenRules(), NOW_MS).name == "alice"
    with pytest.raises(TokenError, match=r"sasl\.oauthbearer\.expected\.audience expects none"):
        check_claims({**CLAIMS, "aud": "kafka"}, TokenRules(), NOW_MS)


def test_the_claims_may_have_other_names() -> None:
    rules = TokenRules(scope_claim="roles", sub_claim="client_id")
    claims = {**CLAIMS, "scope": 1, "roles": ["a"], "client_id": "reports"}
    assert check_claims(claims, rules, NOW_MS).name == "reports"


def test_a_token_without_a_signature_must_have_none() -> None:
    assert unsecured_claims(unsecured()) == CLAIMS
    for bad in (token(), unsecured(signature="AAAA"), unsecured(algorithm="NONE"), "a.b."):
        with pytest.raises(TokenError):
            unsecured_claims(bad)


@given(st.text(alphabet="abeyJ.=-_ \x00é", max_size=60) | st.binary(max_size=40).map(segment))
def test_no_text_raises_anything_else(text: str) -> None:
    for read in (unsecured_claims, lambda each: signed_claims(each, KEYS)):
        with contextlib.suppress(TokenError):
            read(text)


TIMES = st.integers(-90, 90).map(lambda seconds: NOW_S + seconds)


@given(TIMES, TIMES, st.none() | TIMES, st.integers(0, 60))
def test_a_session_never_outlives_its_token_and_the_grace(
    exp: int, iat: int, nbf: int | None, skew_s: int
) -> None:
    rules = TokenRules(skew_ms=skew_s * 1000)
    claims = {"sub": "alice", "exp": exp, "iat": iat, "nbf": nbf}
    begins = max(iat, nbf or 0)
    is_good = begins - skew_s <= NOW_S < exp + skew_s and exp >= begins
    try:
        rest_ms = check_claims(claims, rules, NOW_MS).rest_ms
    except TokenError:
        assert not is_good
    else:
        assert is_good
        assert 0 < rest_ms <= max(exp - NOW_S, exp + skew_s - NOW_S) * 1000
        assert exp <= NOW_S or rest_ms == (exp - NOW_S) * 1000
