"""PLAIN: who is let in, and what the others are told."""

import tracemalloc
from hmac import compare_digest

import pytest

from minikafka.security.sasl.errors import SaslError
from minikafka.security.sasl.plain import OTHER_NAME, WRONG, PlainClient, PlainServer
from minikafka.security.sasl.replies import Accepted, Refused

USERS = {"alice": "pw-1", "böb": "geheim"}


def answer(token: bytes) -> object:
    return PlainServer(USERS).step(token)


def test_both_ends_agree() -> None:
    for name, password in USERS.items():
        client = PlainClient(name, password)
        assert answer(client.first()) == Accepted(name)
        client.step(b"")


def test_a_client_may_name_itself_as_authorization_id() -> None:
    assert answer(b"alice\0alice\0pw-1") == Accepted("alice")


def test_s_07_another_authorization_id_is_refused() -> None:
    assert answer("böb\0alice\0pw-1".encode()) == Refused(OTHER_NAME)


def test_s_04_an_unknown_user_is_told_the_same_as_a_wrong_password() -> None:
    assert answer(b"\0alice\0no") == answer(b"\0nobody\0no") == Refused(WRONG)
    assert answer("böb\0nobody\0no".encode()) == Refused(WRONG)


@pytest.mark.parametrize("token", [b"\0alice\0pw-1", b"\0alice\0no", b"\0nobody\0pw-1"])
def test_whoever_logs_in_costs_one_comparison_in_constant_time(
    token: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As CVE-2021-38153 was: how long a comparison took told how much of a password was right."""
    compared: list[bytes] = []

    def compare(one: bytes, other: bytes) -> bool:
        compared.append(other)
        return compare_digest(one, other)

    monkeypatch.setattr("minikafka.security.sasl.plain.hmac.compare_digest", compare)
    answer(token)
    assert compared == [token.rpartition(b"\0")[2]]


@pytest.mark.parametrize(
    ("token", "message"),
    [
        (b"", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (b"alice\0pw-1", "Invalid SASL/PLAIN response: expected 3 tokens, got 2"),
        (b"\0alice\0pw-1\0", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"\0alice\0\xff", "Invalid SASL/PLAIN response: it is not UTF-8"),
        (b"\0\0pw-1", "Authentication failed: username not specified"),
        (b"\0alice\0", "Authentication failed: password not specified"),
    ],
)
def test_a_malformed_token_is_refused(token: bytes, message: str) -> None:
    assert answer(token) == Refused(message)


def test_a_token_of_many_parts_takes_no_memory() -> None:
    tracemalloc.start()
    try:
        assert answer(bytes(1 << 20)) == Refused(
            "Invalid SASL/PLAIN response: expected 3 tokens, got 1048577"
        )
        assert tracemalloc.get_traced_memory()[1] < 3 << 20
    finally:
        tracemalloc.stop()


def test_a_client_refuses_a_challenge() -> None:
    with pytest.raises(SaslError, match="challenge"):
        PlainClient("alice", "pw-1").step(b"more")
