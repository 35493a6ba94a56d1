"""The keys of an issuer: the entries that can check signatures, and the one that a token means."""

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.security.sasl.errors import TokenError, UnknownKey
from minikafka.security.sasl.signing_keys import ALGORITHMS, KEYS_MAX, SigningKeys

from .issuer import ec_key, entry, published, rsa_key


def test_a_key_is_found_by_its_name_and_its_kind() -> None:
    keys = SigningKeys.parse(published(entry(rsa_key(), "r"), entry(ec_key(), "e")))
    assert keys.find("r", "PS512").kind == "RSA"
    assert keys.find("e", "ES256").kind == "P-256"
    assert keys.find(None, "ES256").name == "e"
    with pytest.raises(UnknownKey, match="none with kid 'x'"):
        keys.find("x", "RS256")
    with pytest.raises(TokenError, match="not for ES384"):
        keys.find("e", "ES384")
    with pytest.raises(TokenError, match="not for ES256"):
        keys.find("r", "ES256")


def test_a_key_for_one_algorithm_is_for_no_other() -> None:
    keys = SigningKeys.parse(published(entry(rsa_key(), alg="PS256")))
    assert keys.find("one", "PS256").algorithm == "PS256"
    with pytest.raises(TokenError, match="not for RS256"):
        keys.find("one", "RS256")


def test_a_token_that_names_no_key_means_the_only_one_that_fits() -> None:
    keys = SigningKeys.parse(published(entry(rsa_key(), "a"), entry(rsa_key(), "b")))
    with pytest.raises(TokenError, match="2 would fit"):
        keys.find(None, "RS256")


@pytest.mark.parametrize(
    "useless",
    [
        {"kty": "oct", "k": "c2VjcmV0", "kid": "one", "alg": "HS256"},
        entry(rsa_key(), use="enc"),
        entry(rsa_key(), key_ops=["encrypt"]),
        entry(rsa_key(), alg="RSA-OAEP"),
        entry(rsa_key(), alg="none"),
        entry(rsa_key(), alg=["RS256"]),
        {**entry(rsa_key()), "kid": 1},
        entry(rsa_key(1, 1024)),
        entry(rsa_key(), n=7),
        entry(rsa_key(), n="!"),
        entry(ec_key(), crv="secp256k1"),
        entry(ec_key(), x="AA"),
        entry(ec_key(), y=entry(ec_key())["x"]),
        entry(ec_key(), kty="OKP"),
        {},
        "text",
    ],
)
def test_an_entry_that_cannot_check_a_signature_is_left_out(useless: Any) -> None:
    with pytest.raises(TokenError, match="has no key that can check"):
        SigningKeys.parse(published(useless))
    assert len(SigningKeys.parse(published(useless, entry(ec_key())))) == 1


def test_a_private_part_is_not_read() -> None:
    keys = SigningKeys.parse(published(entry(rsa_key(), d="AQ")))
    assert not hasattr(keys.find("one", "RS256").public, "private_numbers")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "no JSON"),
        (b"\xff", "no JSON"),
        (b"[" * 100_000, "no JSON"),
        (b"[]", "no list `keys`"),
        (b'{"keys": {}}', "no list `keys`"),
        (b'{"keys": []}', "no key that can check"),
        (json.dumps({"keys": [1] * (KEYS_MAX + 1)}).encode(), "100 are the most"),
    ],
)
def test_a_set_that_is_none_is_refused(content: bytes, why: str) -> None:
    with pytest.raises(TokenError, match=why):
        SigningKeys.parse(content)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)
MEMBERS = st.sampled_from([*entry(rsa_key()), *entry(ec_key()), "use", "alg", "key_ops"])


@given(
    st.sampled_from(["RSA", "EC"]),
    st.dictionaries(MEMBERS, JSON),
    st.sampled_from(list(ALGORITHMS)),
)
def test_no_entry_raises_anything_else(kty: str, changes: dict[str, Any], algorithm: str) -> None:
    base = entry(rsa_key()) if kty == "RSA" else entry(ec_key())
    with contextlib.suppress(TokenError):
        SigningKeys.parse(published({**base, **changes})).find("one", algorithm)
