"""`minikafka delegation-tokens`: flags become calls of the admin, and Kafka's texts."""

import base64
import time
from collections.abc import Iterable, Iterator

import pytest

from minikafka import DelegationToken
from minikafka.protocol.errors import ApiError, ErrorCode

from .conftest import Run
from .fake_admin import FakeAdmin

TOKENS = ("delegation-tokens", "--bootstrap-server", "localhost:1")
SECRET = b"secret"
HMAC = base64.b64encode(SECRET).decode()
CREATE = (*TOKENS, "--create", "--max-life-time-period", "-1")
RENEW = (*TOKENS, "--renew", "--renew-time-period", "5", "--hmac", HMAC)
EXPIRE = (*TOKENS, "--expire", "--expiry-time-period")
TABLE = (
    "\nTOKENID         HMAC                           OWNER           REQUESTER       RENEWERS"
    "                  ISSUEDATE       EXPIRYDATE      MAXDATE        \n"
)
ROW = (
    "\nt1              c2VjcmV0                       User:a          User:b         "
    " [User:c, User:d]          2023-11-14T22:13 2023-11-15T22:13 2023-11-21T22:13\n"
)


class Tokens(FakeAdmin):
    """An admin of a cluster with one token."""

    async def create_delegation_token(
        self, *, owner: str | None, renewers: Iterable[str], max_lifetime_ms: int
    ) -> DelegationToken:
        if "tokens" in self.refused:
            raise self.refused["tokens"]
        self.asked.append(("create", owner, tuple(renewers), max_lifetime_ms))
        at_ms, day_ms = 1_700_000_000_000, 86_400_000
        who = ("User:a", "User:b", ("User:c", "User:d"))
        return DelegationToken("t1", SECRET, *who, at_ms, at_ms + day_ms, at_ms + 7 * day_ms)

    async def renew_delegation_token(self, hmac: bytes, *, period_ms: int) -> int:
        self.asked.append(("renew", hmac, period_ms))
        return 1_700_000_000_000

    async def expire_delegation_token(self, hmac: bytes, *, period_ms: int) -> int:
        self.asked.append(("expire", hmac, period_ms))
        return min(period_ms, 1_700_000_000_000)

    async def describe_delegation_tokens(
        self, owners: Iterable[str] | None = None
    ) -> list[DelegationToken]:
        self.asked.append(("describe", owners))
        return [await self.create_delegation_token(owner=None, renewers=(), max_lifetime_ms=0)] * 2


@pytest.fixture
def tokens() -> Iterator[Tokens]:
    fake = Tokens()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("minikafka.client.admin.admin.Admin", fake)
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield fake
    time.tzset()


def test_a_token_is_made_and_printed_as_by_kafka(run: Run, tokens: Tokens) -> None:
    who = ("--owner-principal", "User:a", "--renewer-principal", "User:c")
    result = run(*CREATE, *who, "--renewer-principal", "User:d")
    assert result == (
        0,
        "Calling create token operation with renewers :[User:c, User:d] ,"
        " max-life-time-period :-1\n"
        f"Created delegation token with tokenId : t1\n{TABLE}{ROW}",
        "",
    )
    assert tokens.asked == [("create", "User:a", ("User:c", "User:d"), -1)]


def test_a_token_is_renewed_and_ended(run: Run, tokens: Tokens) -> None:
    assert run(*RENEW).out == (
        f"Calling renew token operation with hmac :{HMAC} , renew-time-period :5\n"
        "Completed renew operation. New expiry date : 2023-11-14T22:13\n"
    )
    for period_ms, told in (
        ("9" * 18, "New expiry date : 2023-11-14T22:13"),
        ("-1", "The token is removed."),
    ):
        assert run(*EXPIRE, period_ms, "--hmac", HMAC).out == (
            f"Calling expire token operation with hmac :{HMAC} , expiry-time-period :{period_ms}\n"
            f"Completed expire operation. {told}\n"
        )
    assert tokens.asked == [
        ("renew", SECRET, 5),
        ("expire", SECRET, int("9" * 18)),
        ("expire", SECRET, -1),
    ]


def test_tokens_are_listed(run: Run, tokens: Tokens) -> None:
    assert run(*TOKENS, "--describe").out == (
        "Calling describe token operation for current user.\n"
        f"Total number of tokens : 2{TABLE}{ROW}{ROW}"
    )
    assert run(*TOKENS, "--describe", "--owner-principal", "User:a").out.startswith(
        "Calling describe token operation for owners: [User:a]\nTotal number of tokens : 2\n"
    )
    assert [what for what in tokens.asked if what[0] == "describe"] == [
        ("describe", None),
        ("describe", ("User:a",)),
    ]


def test_a_cluster_without_tokens_says_so(run: Run, tokens: Tokens) -> None:
    tokens.refused["tokens"] = ApiError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    code, _, err = run(*CREATE)
    assert code == 1
    assert err == (
        "Error while executing delegation token command: DELEGATION_TOKEN_AUTH_DISABLED:"
        " Delegation tokens are switched off.\n"
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (TOKENS, "exactly one action"),
        ((*CREATE, "--describe"), "exactly one action"),
        ((*TOKENS, "--create"), "Missing required argument --max-life-time-period"),
        ((*TOKENS, "--renew", "--hmac", HMAC), "Missing required argument --renew-time-period"),
        ((*EXPIRE, "1"), "Missing required argument --hmac"),
        ((*CREATE, "--hmac", HMAC), "--hmac can't be used with option --create"),
        ((*RENEW, "--owner-principal", "User:a"), "--owner-principal can't be used"),
        ((*CREATE, "--owner-principal", "alice"), "expected a string in format"),
        ((*CREATE, "--renewer-principal", "User:"), "expected a string in format"),
        ((*CREATE, *("--owner-principal", "User:a") * 2), "one owner"),
        ((*EXPIRE, "1", "--hmac", "not base64"), "--hmac must be Base64"),
        ((*EXPIRE, 2**63, "--hmac", HMAC), "is not in the range"),
    ],
)
def test_flags_that_do_not_fit_are_refused(
    run: Run, tokens: Tokens, arguments: tuple[object, ...], words: str
) -> None:
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert words in err
    assert tokens.asked == []
