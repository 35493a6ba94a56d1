"""The login of one connection: which request may come when, and what it is answered."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.protocol.api import ApiKey
from minikafka.protocol.errors import ErrorCode
from minikafka.security.principal import user
from minikafka.security.sasl.plain import WRONG, PlainServer
from minikafka.security.sasl.replies import Challenge, Refused, Reply, ServerEnd
from minikafka.security.sasl.server import Answered, Offered, ServerLogin, Turn

NOW_MS = 1_000_000
GOOD, BAD = b"\0alice\0pw", b"\0alice\0no"
PASSWORDS = {"alice": "pw", "bob": "pw"}


class TwoSteps:
    """A mechanism of two tokens."""

    def __init__(self) -> None:
        self._steps: Iterator[Callable[[bytes], Reply]] = iter(
            (lambda token: Challenge(b"more"), PlainServer(PASSWORDS).step)
        )

    def step(self, token: bytes) -> Reply:
        return next(self._steps)(token)


def login_of(reauth_ms: int = 0) -> ServerLogin:
    plain: Callable[[], ServerEnd] = lambda: PlainServer(PASSWORDS)  # noqa: E731
    return ServerLogin({"PLAIN": Offered(plain, reauth_ms), "TWO": Offered(TwoSteps, reauth_ms)})


def turn(login: ServerLogin, key: int, now_ms: int = NOW_MS) -> Turn:
    return login.on_request(key, now_ms)


def begin(login: ServerLogin, mechanism: str = "PLAIN", version: int = 1, at: int = NOW_MS) -> None:
    assert turn(login, ApiKey.SASL_HANDSHAKE, at) is Turn.LOGIN
    answered = login.on_handshake(mechanism, version, at)
    assert answered.failed is None
    assert _field(answered, "mechanisms") == ["PLAIN", "TWO"]


def send(login: ServerLogin, token: bytes, at: int = NOW_MS) -> Answered:
    assert turn(login, ApiKey.SASL_AUTHENTICATE, at) is Turn.LOGIN
    return login.on_token(token, at)


def complete(login: ServerLogin, token: bytes = GOOD, at: int = NOW_MS) -> Answered:
    begin(login, at=at)
    answered = send(login, token, at)
    assert login.is_complete
    return answered


def _field(answered: Answered, name: str) -> Any:
    return getattr(answered.answer, name)


def test_a_login_of_two_steps() -> None:
    login = login_of()
    assert turn(login, ApiKey.API_VERSIONS) is Turn.PASS
    begin(login, "TWO")
    assert _field(send(login, b"any"), "auth_bytes") == b"more"
    last = send(login, GOOD)
    assert (last.failed, _field(last, "session_lifetime_ms")) == (None, 0)
    assert login.is_complete
    assert login.principal == user("alice")
    assert not login.has_end
    for key in ApiKey:
        assert turn(login, key) is Turn.PASS


@pytest.mark.parametrize("key", [key for key in ApiKey if key not in (17, 18)])
def test_s_01_nothing_else_is_answered_before_a_login(key: ApiKey) -> None:
    assert turn(login_of(), key) is Turn.CLOSE
    greeted = login_of()
    turn(greeted, ApiKey.API_VERSIONS)
    assert turn(greeted, key) is Turn.CLOSE


def test_versions_are_told_once() -> None:
    login = login_of()
    assert turn(login, ApiKey.API_VERSIONS) is Turn.PASS
    assert turn(login, ApiKey.API_VERSIONS) is Turn.CLOSE


def test_a_mechanism_that_is_not_enabled_ends_the_login() -> None:
    login = login_of()
    answered = login.on_handshake("GSSAPI", 1, NOW_MS)
    assert _field(answered, "error_code") == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert _field(answered, "mechanisms") == ["PLAIN", "TWO"]
    assert answered.failed is not None
    assert turn(login, ApiKey.SASL_HANDSHAKE) is Turn.CLOSE


def test_a_wrong_password_ends_the_login() -> None:
    login = login_of()
    begin(login)
    answered = send(login, BAD)
    assert _field(answered, "error_code") == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert _field(answered, "error_message") == WRONG
    assert answered.failed == f"login by PLAIN failed: {WRONG}"
    assert login.principal is None
    for key in (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE, ApiKey.METADATA):
        assert turn(login, key) is Turn.CLOSE


def test_another_request_in_the_middle_of_a_login_is_illegal() -> None:
    for key in (ApiKey.METADATA, ApiKey.SASL_HANDSHAKE, ApiKey.API_VERSIONS):
        login = login_of()
        begin(login)
        assert turn(login, key) is Turn.ILLEGAL
        assert turn(login, ApiKey.SASL_AUTHENTICATE) is Turn.CLOSE


def test_after_a_handshake_of_version_0_tokens_come_as_they_are() -> None:
    login = login_of()
    begin(login, "TWO", version=0)
    assert login.is_raw
    assert login.on_token(b"any", NOW_MS) == Answered(b"more")
    assert login.on_token(GOOD, NOW_MS) == Answered(b"")
    assert login.is_complete
    bad = login_of()
    begin(bad, version=0)
    assert bad.on_token(BAD, NOW_MS) == Answered(b"", f"login by PLAIN failed: {WRONG}")


class TestASessionWithAnEnd:
    def test_is_told_and_kept(self) -> None:
        login = login_of(reauth_ms=3_000)
        assert _field(complete(login), "session_lifetime_ms") == 3_000
        assert turn(login, ApiKey.PRODUCE, NOW_MS + 2_999) is Turn.PASS
        assert turn(login, ApiKey.PRODUCE, NOW_MS + 3_000) is Turn.CLOSE

    def test_begins_anew_also_after_its_end(self) -> None:
        login = login_of(reauth_ms=3_000)
        complete(login)
        begin(login, at=NOW_MS + 9_000)
        assert turn(login, ApiKey.PRODUCE, NOW_MS + 9_000) is Turn.ILLEGAL
        again = login_of(reauth_ms=3_000)
        complete(again)
        complete(again, at=NOW_MS + 2_000)
        assert turn(again, ApiKey.PRODUCE, NOW_MS + 4_999) is Turn.PASS

    def test_does_not_begin_anew_within_a_second(self) -> None:
        login = login_of(reauth_ms=3_000)
        complete(login)
        assert turn(login, ApiKey.SASL_HANDSHAKE, NOW_MS + 999) is Turn.PASS
        assert turn(login, ApiKey.SASL_HANDSHAKE, NOW_MS + 1_000) is Turn.LOGIN

    def test_s_15_goes_on_by_the_same_mechanism(self) -> None:
        login = login_of(reauth_ms=3_000)
        complete(login)
        begin(login, "TWO", at=NOW_MS + 2_000)
        answered = send(login, b"any", NOW_MS + 2_000)
        assert _field(answered, "error_code") == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert not login.is_complete

    def test_s_15_goes_on_as_the_same_user(self) -> None:
        login = login_of(reauth_ms=3_000)
        complete(login)
        begin(login, at=NOW_MS + 2_000)
        answered = send(login, b"\0bob\0pw", NOW_MS + 2_000)
        assert _field(answered, "error_code") == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert login.principal == user("alice")
        assert not login.is_complete


def test_a_refusal_of_the_mechanism_is_told_as_it_is() -> None:
    class Never:
        def step(self, token: bytes) -> Reply:
            return Refused("no")

    login = ServerLogin({"PLAIN": Offered(Never)})
    turn(login, ApiKey.SASL_HANDSHAKE)
    login.on_handshake("PLAIN", 1, NOW_MS)
    assert _field(send(login, b""), "error_message") == "no"


EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("request"), st.sampled_from([0, 3, 17, 18, 36]), st.integers(0, 5000)),
        st.tuples(st.sampled_from(["PLAIN", "TWO", "GSSAPI"]), st.integers(0, 1), st.just(0)),
        st.tuples(st.sampled_from([BAD, b"", b"\0nobody\0pw"]), st.just(0), st.integers(0, 5000)),
    ),
    max_size=12,
)


@given(EVENTS)
def test_no_order_of_requests_without_a_password_logs_in(
    events: list[tuple[Any, int, int]],
) -> None:
    login, now_ms = login_of(reauth_ms=1_000), NOW_MS
    expected: Turn | None = None
    for what, value, elapsed_ms in events:
        now_ms += elapsed_ms
        if what == "request":
            expected = turn(login, value, now_ms)
            assert expected is not Turn.PASS or value == ApiKey.API_VERSIONS
        elif isinstance(what, bytes):
            if login.is_raw or turn(login, ApiKey.SASL_AUTHENTICATE, now_ms) is Turn.LOGIN:
                login.on_token(what, now_ms)
        elif turn(login, ApiKey.SASL_HANDSHAKE, now_ms) is Turn.LOGIN:
            login.on_handshake(what, value, now_ms)
        assert login.principal is None
        assert not login.is_complete
