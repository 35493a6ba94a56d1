"""Delegation tokens at the controller: who gets one, who may renew it, and when it is gone."""

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minikafka.controller.metadata import tokens
from minikafka.controller.metadata.decision import Occasion
from minikafka.controller.metadata.tokens import (
    RENEWERS_MAX,
    TOKENS_MAX,
    create_token,
    expire_token,
    remove_expired,
    renew_token,
)
from minikafka.protocol.api import ApiKey
from minikafka.protocol.control.image import MetadataImage
from minikafka.protocol.control.records import decode_record, encode_record
from minikafka.protocol.errors import ApiError, ErrorCode
from minikafka.protocol.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from minikafka.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from minikafka.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from minikafka.protocol.tokens import DelegationToken
from minikafka.security.tokens import TokenKey, TokenPolicy

from .conftest import Lab
from .machine import Machine

DAY_MS = 86_400_000
NOW_MS = 1_700_000_000_000
ALICE, BOB, CAROL = "User:alice", "User:bob", "User:carol"
KEY = TokenKey("a secret for tests")


def machine() -> Machine:
    made = Machine()
    made.cluster.tokens = TokenPolicy(KEY, 7 * DAY_MS, DAY_MS)
    return made


def occasion(principal: str = ALICE, now_ms: int = NOW_MS, seed: int = 1) -> Occasion:
    return Occasion(principal, now_ms, lambda text: text.encode().ljust(16, bytes([seed])))


def creation(
    owner: str | None = None, renewers: Sequence[str] = (), lifetime_ms: int = -1
) -> CreateDelegationTokenRequest:
    kind, _, name = (owner or "").partition(":")
    return CreateDelegationTokenRequest(
        owner_principal_type=kind or None,
        owner_principal_name=name or None,
        renewers=[
            CreatableRenewers(principal_type=one.partition(":")[0], principal_name=one[5:])
            for one in renewers
        ],
        max_lifetime_ms=lifetime_ms,
    )


def create(
    on: Machine, request: CreateDelegationTokenRequest | None = None, **by: Any
) -> CreateDelegationTokenResponse:
    return on.carry_out(create_token(on.cluster, request or creation(), occasion(**by)))


def renew(on: Machine, hmac: bytes, period_ms: int = -1, **by: Any) -> int:
    request = RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms)
    return on.carry_out(renew_token(on.cluster, request, occasion(**by))).expiry_timestamp_ms


def expire(on: Machine, hmac: bytes, period_ms: int = -1, **by: Any) -> int:
    request = ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms)
    return on.carry_out(expire_token(on.cluster, request, occasion(**by))).expiry_timestamp_ms


def refused(code: ErrorCode) -> Any:
    return pytest.raises(ApiError, match=code.name)


def test_a_token_is_the_clients_own_and_its_secret_is_not_kept() -> None:
    on = machine()
    made = create(on, creation(renewers=[BOB, CAROL, BOB]))
    assert (made.principal_type, made.principal_name) == ("User", "alice")
    assert made.token_requester_principal_name == "alice"
    assert made.expiry_timestamp_ms - made.issue_timestamp_ms == DAY_MS
    assert made.max_timestamp_ms - made.issue_timestamp_ms == 7 * DAY_MS
    assert on.image.tokens == {
        made.token_id: DelegationToken(
            ALICE, ALICE, (BOB, CAROL), NOW_MS, NOW_MS + DAY_MS, NOW_MS + 7 * DAY_MS
        )
    }
    assert made.hmac == KEY.secret_of(made.token_id)
    assert len(made.hmac) == 64
    for shown in (made, *on.log, on.image):
        assert repr(made.hmac) not in repr(shown)
    assert not any(made.hmac in encode_record(record) for record in on.log)


def test_a_token_of_somebody_else_knows_who_asked_for_it() -> None:
    on = machine()
    made = create(on, creation(owner=BOB))
    assert (made.principal_name, made.token_requester_principal_name) == ("bob", "alice")
    (token,) = on.image.tokens.values()
    assert (token.owner, token.requester) == (BOB, ALICE)


def test_a_repeated_request_gets_the_same_token() -> None:
    on = machine()
    first = create(on)
    assert create(on, now_ms=NOW_MS + 5) == first
    assert create(on, seed=2).token_id != first.token_id
    assert len(on.image.tokens) == 2


def test_a_short_life_bounds_the_first_expiry() -> None:
    made = create(machine(), creation(lifetime_ms=1000))
    assert made.expiry_timestamp_ms == made.max_timestamp_ms == NOW_MS + 1000
    long = create(machine(), creation(lifetime_ms=2**62))
    assert long.max_timestamp_ms == NOW_MS + 7 * DAY_MS


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (creation(owner="Group:bob"), ErrorCode.INVALID_PRINCIPAL_TYPE),
        (creation(renewers=["Role:bob"]), ErrorCode.INVALID_PRINCIPAL_TYPE),
        (creation(owner="User:a\0b"), ErrorCode.INVALID_REQUEST),
        (creation(owner="User:" + "a" * 1025), ErrorCode.INVALID_REQUEST),
        (creation(renewers=["User:"]), ErrorCode.INVALID_REQUEST),
        (creation(renewers=[BOB] * (RENEWERS_MAX + 1)), ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_cannot_be_is_refused(request_: CreateDelegationTokenRequest, code: ErrorCode) -> None:
    on = machine()
    with refused(code):
        create(on, request_)
    assert not on.image.tokens


def test_a_principal_may_have_asked_for_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    assert TOKENS_MAX == 1000
    monkeypatch.setattr(tokens, "TOKENS_MAX", 2)
    on = machine()
    for seed in (1, 2):
        create(on, creation(owner=BOB), seed=seed)
    with refused(ErrorCode.POLICY_VIOLATION):
        create(on, seed=3)
    create(on, principal=BOB, seed=4)


def test_without_a_key_there_are_no_tokens() -> None:
    on = Machine()
    for call in (create, lambda on: renew(on, b""), lambda on: expire(on, b"")):
        with refused(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED):
            call(on)


def test_a_token_is_renewed_up_to_its_latest_time() -> None:
    on = machine()
    hmac = create(on, creation(renewers=[BOB])).hmac
    assert renew(on, hmac, now_ms=NOW_MS + 10) == NOW_MS + 10 + DAY_MS
    assert renew(on, hmac, 500, principal=BOB) == NOW_MS + 500
    assert renew(on, hmac, 9 * DAY_MS) == NOW_MS + DAY_MS
    for day in range(1, 7):
        last = renew(on, hmac, now_ms=NOW_MS + day * (DAY_MS - 1))
    assert last == NOW_MS + 7 * DAY_MS - 6
    assert renew(on, hmac, now_ms=last - 1) == NOW_MS + 7 * DAY_MS
    (token,) = on.image.tokens.values()
    assert token.renewers == (BOB,)


def test_a_token_is_ended_at_once_or_later() -> None:
    on = machine()
    hmac = create(on).hmac
    assert expire(on, hmac, 500) == NOW_MS + 500
    assert expire(on, hmac, 2**62) == NOW_MS + 7 * DAY_MS
    assert expire(on, hmac, -7) == -7
    assert not on.image.tokens
    with refused(ErrorCode.DELEGATION_TOKEN_NOT_FOUND):
        expire(on, hmac)


@pytest.mark.parametrize("change", [renew, expire])
def test_only_owner_and_renewers_change_a_token_that_is_good(change: Any) -> None:
    on = machine()
    hmac = create(on, creation(owner=BOB, renewers=[CAROL])).hmac
    with refused(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH):
        change(on, hmac, 5)
    for unknown in (b"", hmac[:-1], hmac + b"x"):
        with refused(ErrorCode.DELEGATION_TOKEN_NOT_FOUND):
            change(on, unknown, 5, principal=BOB)
    with refused(ErrorCode.DELEGATION_TOKEN_EXPIRED):
        change(on, hmac, 5, principal=BOB, now_ms=NOW_MS + DAY_MS)
    assert change(on, hmac, 5, principal=BOB) == change(on, hmac, 5, principal=CAROL)


def test_expired_tokens_are_removed_and_no_others() -> None:
    on = machine()
    create(on, creation(lifetime_ms=1000))
    long = create(on, seed=2)
    assert remove_expired(on.cluster, NOW_MS + 999).answer == 0
    assert on.carry_out(remove_expired(on.cluster, NOW_MS + 1000)) == 1
    assert list(on.image.tokens) == [long.token_id]
    expire(on, long.hmac, 0)
    assert on.carry_out(remove_expired(on.cluster, NOW_MS)) == 1
    assert not on.image.tokens


STEPS = st.lists(
    st.tuples(
        st.sampled_from(("create", "renew", "expire", "remove")),
        st.sampled_from((ALICE, BOB, CAROL)),
        st.integers(0, 5),
        st.sampled_from((-1, 0, 1, DAY_MS, 8 * DAY_MS)),
        st.integers(0, 3 * DAY_MS),
    ),
    max_size=25,
)


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_whatever_is_done_tokens_keep_their_bounds_and_a_snapshot_keeps_them(
    steps: list[tuple[str, str, int, int, int]],
) -> None:
    on, now_ms, known = machine(), NOW_MS, [b"none"]
    for seed, (what, who, which, period_ms, later_ms) in enumerate(steps):
        now_ms += later_ms
        by: dict[str, Any] = {"principal": who, "now_ms": now_ms, "seed": seed}
        hmac = known[which % len(known)]
        with contextlib.suppress(ApiError):
            if what == "create":
                request = creation(renewers=[CAROL], lifetime_ms=period_ms)
                known.append(create(on, request, **by).hmac)
            elif what == "remove":
                on.carry_out(remove_expired(on.cluster, now_ms))
                assert not any(each.has_expired(now_ms) for each in on.image.tokens.values())
            else:
                (renew if what == "renew" else expire)(on, hmac, period_ms, **by)
        for token in on.image.tokens.values():
            assert token.issued_ms <= token.expires_ms <= token.latest_ms
            assert token.latest_ms <= token.issued_ms + 7 * DAY_MS
    replayed, loaded = MetadataImage(), MetadataImage()
    for offset, record in enumerate(on.log):
        replayed.apply(decode_record(encode_record(record)), offset)
    for offset, record in enumerate(on.image.to_records()):
        loaded.apply(decode_record(encode_record(record)), offset)
    assert loaded.tokens == replayed.tokens == on.image.tokens


async def test_the_active_controller_removes_expired_tokens_by_itself(tmp_path: Path) -> None:
    lab = Lab(tmp_path / "controller")
    key = {"delegation.token.secret.key": "secret"}
    often = {**key, "delegation.token.expiry.check.interval.ms": "20"}
    await lab.start(key)
    before = await lab.broker(1)
    await before.come_up()
    request = creation(lifetime_ms=1)
    made = await before.forward(ApiKey.CREATE_DELEGATION_TOKEN, 3, request)
    assert (made.principal_name, len(made.hmac)) == ("test", 64)
    await before.follow_until(lambda image: bool(image.tokens))
    await lab.server.stop()
    # The timer begins when a controller becomes active, if there are tokens.
    await lab.start(often)
    broker = await lab.broker(1, incarnation=2)
    await broker.come_up()
    await broker.follow_until(lambda image: not image.tokens)
    # It begins with the first token too.
    created = broker.image.offset + 1
    await broker.forward(ApiKey.CREATE_DELEGATION_TOKEN, 3, request)
    await broker.follow_until(lambda image: image.offset > created and not image.tokens)
    await lab.close()
