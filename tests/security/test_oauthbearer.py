"""OAUTHBEARER: the message with the token, the two steps of a refusal, and the session's length."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.protocol.api import ApiKey
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.sasl_authenticate import SaslAuthenticateResponse
from minikafka.security.principal import user
from minikafka.security.sasl.bearer_tokens import Proved
from minikafka.security.sasl.errors import TokenError
from minikafka.security.sasl.oauthbearer import (
    INVALID,
    MALFORMED,
    OTHER_NAME,
    OAuthBearerServer,
)
from minikafka.security.sasl.replies import Accepted, Challenge, Refused
from minikafka.security.sasl.server import Answered, Offered, ServerLogin

NAMES = {"a.b.c": "alice", "d.e.f": "b,o=b"}
NOW_MS = 1_000_000


def check(token: str) -> Proved:
    if token not in NAMES:
        raise TokenError("it expired 31 s ago (exp)")
    return Proved(NAMES[token], 60_000)


def message(token: str = "a.b.c", authorization: str = "", extensions: str = "") -> bytes:
    return f"n,{authorization},\x01auth=Bearer {token}\x01{extensions}\x01".encode()


@pytest.mark.parametrize(
    ("first", "name"),
    [
        (message(), "alice"),
        (message(authorization="a=alice"), "alice"),
        (message("d.e.f", "a=b=2Co=3Db"), "b,o=b"),
        (message(extensions="traceId=123\x01logicalCluster=lkc-1\x01"), "alice"),
        (b"n,,\x01traceId=1\x01auth=bearer   a.b.c\x01\x01", "alice"),
    ],
)
def test_a_good_token_is_a_login(first: bytes, name: str) -> None:
    assert OAuthBearerServer(check).step(first) == Accepted(name, b"", 60_000)


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"\x01",
        b"\xff",
        b"n,,",
        b"n,,\x01\x01",
        b"n,,\x01auth=Bearer a.b.c\x01",
        b"n,,\x01auth=Bearer \x01\x01",
        b"n,,\x01auth=Basic a.b.c\x01\x01",
        b"n,,\x01auth=Bearer a.b.c\x01auth=Bearer a.b.c\x01\x01",
        b"n,,\x01auth=Bearer a.b.c\x01other\x01\x01",
        b"y,,\x01auth=Bearer a.b.c\x01\x01",
        b"n,alice,\x01auth=Bearer a.b.c\x01\x01",
        b"n,a=,\x01auth=Bearer a.b.c\x01\x01",
        message("x" * (33 << 10)),
    ],
)
def test_a_malformed_message_is_refused_at_once(first: bytes) -> None:
    reply = OAuthBearerServer(check).step(first)
    assert isinstance(reply, Refused)
    assert reply.message == MALFORMED


def test_a_name_that_the_token_does_not_prove_is_refused() -> None:
    assert OAuthBearerServer(check).step(message(authorization="a=bob")) == Refused(OTHER_NAME)


@pytest.mark.parametrize("answer", [b"\x01", b"", message()])
def test_a_refusal_has_two_steps_and_does_not_say_why(answer: bytes) -> None:
    """Whatever the client answers ends the login, even a better token."""
    end = OAuthBearerServer(check)
    assert end.step(message("bad")) == Challenge(INVALID.encode())
    reply = end.step(answer)
    assert reply == Refused(INVALID, "it expired 31 s ago (exp)")


def stepped(login: ServerLogin, token: bytes, at: int = NOW_MS) -> Answered:
    login.on_request(ApiKey.SASL_HANDSHAKE, at)
    login.on_handshake("OAUTHBEARER", 1, at)
    login.on_request(ApiKey.SASL_AUTHENTICATE, at)
    return login.on_token(token, at)


def login_of(reauth_ms: int = 0) -> ServerLogin:
    return ServerLogin({"OAUTHBEARER": Offered(lambda: OAuthBearerServer(check), reauth_ms)})


@pytest.mark.parametrize(("reauth_ms", "told_ms"), [(0, 60_000), (1_000, 1_000), (90_000, 60_000)])
def test_a_session_ends_with_its_token_or_before(reauth_ms: int, told_ms: int) -> None:
    login = login_of(reauth_ms)
    answer = stepped(login, message()).answer
    assert isinstance(answer, SaslAuthenticateResponse)
    assert (answer.error_code, answer.session_lifetime_ms) == (0, told_ms)
    assert login.has_end
    assert login.on_request(ApiKey.PRODUCE, NOW_MS + told_ms - 1).name == "PASS"
    assert login.on_request(ApiKey.PRODUCE, NOW_MS + told_ms).name == "CLOSE"


def test_s_15_a_session_goes_on_with_a_new_token_of_the_same_principal() -> None:
    login = login_of()
    stepped(login, message())
    again = stepped(login, message(), NOW_MS + 50_000)
    assert again.failed is None
    assert login.on_request(ApiKey.PRODUCE, NOW_MS + 100_000).name == "PASS"
    assert login.principal == user("alice")
    other = stepped(login, message("d.e.f"), NOW_MS + 105_000)
    assert other.failed is not None
    assert "must stay so" in other.failed


def test_the_log_has_the_reason_and_the_client_has_not() -> None:
    login = login_of()
    assert stepped(login, message("bad")).failed is None
    login.on_request(ApiKey.SASL_AUTHENTICATE, NOW_MS)
    last = login.on_token(b"\x01", NOW_MS)
    assert last.failed == "login by OAUTHBEARER failed: it expired 31 s ago (exp)"
    assert isinstance(last.answer, SaslAuthenticateResponse)
    assert last.answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert last.answer.error_message == INVALID


@given(
    st.binary(max_size=60) | st.text(alphabet="n,a=\x01uthBer .\x00", max_size=60).map(str.encode)
)
def test_no_message_logs_a_stranger_in(first: bytes) -> None:
    end = OAuthBearerServer(check)
    for _ in range(2):
        assert not isinstance(end.step(first), Accepted)
