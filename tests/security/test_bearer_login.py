"""The client's end of OAUTHBEARER: what a token endpoint is asked and says, and the message."""

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.security.sasl.bearer_login import (
    UNSECURED_MS,
    ClientCredentials,
    Issued,
    read_answer,
    read_refusal,
    rest_of,
    unsecured_token,
)
from minikafka.security.sasl.bearer_tokens import Proved, TokenRules, check_claims, unsecured_claims
from minikafka.security.sasl.errors import SaslError
from minikafka.security.sasl.oauthbearer import OAuthBearerClient, OAuthBearerServer, is_extension
from minikafka.security.sasl.replies import Accepted, Challenge, Refused

from .issuer import CLAIMS, NOW_S, token, unsecured

NOW_MS = NOW_S * 1000


def nothing() -> None:
    """Do nothing."""


def check(bearer: str) -> Proved:
    return check_claims(unsecured_claims(bearer), TokenRules(), NOW_MS)


def test_both_ends_agree_on_a_good_token() -> None:
    client = OAuthBearerClient(
        unsecured_token({"sub": "alice"}, NOW_MS), (("trace", "7"),), nothing
    )
    reply = OAuthBearerServer(check).step(client.first())
    assert reply == Accepted("alice", b"", UNSECURED_MS)
    assert client.step(b"") is None


def test_a_refusal_is_acknowledged_and_told_to_the_owner_of_the_token() -> None:
    refused: list[int] = []
    expired = unsecured({**CLAIMS, "exp": NOW_S - 60})
    client = OAuthBearerClient(expired, (), lambda: refused.append(1))
    server = OAuthBearerServer(check)
    reply = server.step(client.first())
    assert isinstance(reply, Challenge)
    answer = client.step(reply.token)
    assert (answer, refused) == (b"\x01", [1])
    assert isinstance(server.step(b"\x01"), Refused)


@pytest.mark.parametrize("bad", ["", "a b", "a\x01auth=Bearer b", "\x00", "é", "a=b", "{}"])
def test_no_token_gets_into_the_message_with_more_than_itself(bad: str) -> None:
    with pytest.raises(SaslError, match="characters that a token cannot have"):
        OAuthBearerClient(bad, (), nothing)


def test_extensions_are_names_of_letters_with_printable_values() -> None:
    assert is_extension("traceId", "a b=c")
    for key, value in (("auth", "x"), ("a-b", "x"), ("", "x"), ("a", ""), ("a", "x\x01b=y")):
        assert not is_extension(key, value)


@pytest.mark.parametrize(
    ("is_encoded", "given"), [(False, "a b:s+/&%"), (True, "a+b:s%2B%2F%26%25")]
)
def test_a_client_proves_itself_to_the_endpoint(is_encoded: bool, given: str) -> None:
    credentials = ClientCredentials("a b", "s+/&%", "read write", is_encoded)
    scheme, _, text = credentials.headers()["Authorization"].partition(" ")
    assert (scheme, base64.b64decode(text).decode()) == ("Basic", given)
    assert credentials.form() == b"grant_type=client_credentials&scope=read+write"
    assert ClientCredentials("a", "b").form() == b"grant_type=client_credentials"
    assert "s+/&%" not in repr(credentials)


@pytest.mark.parametrize(
    ("answer", "rest_ms"),
    [
        ({"access_token": "x"}, None),
        ({"access_token": "x", "expires_in": 60}, 60_000),
        ({"access_token": "x", "expires_in": "60"}, None),
        ({"access_token": token(), "expires_in": 60}, 600_000),
        ({"id_token": unsecured()}, 600_000),
    ],
)
def test_the_answer_of_an_endpoint(answer: dict[str, Any], rest_ms: int | None) -> None:
    issued = read_answer(json.dumps(answer).encode(), NOW_MS)
    assert issued == Issued(answer.get("access_token") or answer["id_token"], rest_ms)


@pytest.mark.parametrize("answer", [b"", b"[]", b"{}", b'{"access_token": 1}', b"[" * 9000])
def test_an_answer_without_a_token_is_refused(answer: bytes) -> None:
    with pytest.raises(SaslError, match="has no access_token"):
        read_answer(answer, NOW_MS)


def test_an_endpoint_that_refuses_is_quoted() -> None:
    body = b'{"error": "invalid_client", "error_description": "no\\nsuch client"}'
    assert read_refusal(401, body).endswith(
        r"answered 401 and gave 'invalid_client: no\nsuch client'"
    )
    assert read_refusal(400, b"<html>").endswith("answered 400 and gave no reason")


@pytest.mark.parametrize("exp", [None, "1", 10**400, 1e308, float("inf"), float("nan"), -1])
def test_an_end_that_is_no_time_is_not_known(exp: object) -> None:
    assert rest_of(unsecured({"exp": exp}), NOW_MS) is None


@given(st.text(max_size=30) | st.binary(max_size=40).map(lambda each: f"e.{each.hex()}."))
def test_what_is_no_jwt_has_no_end_that_is_known(text: str) -> None:
    assert rest_of(text, NOW_MS) is None
