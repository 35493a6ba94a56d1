"""Delegation tokens at a broker: who may ask for them, who sees them, and logins by them."""

from collections.abc import Callable
from typing import Any

import pytest

from minikafka.protocol.acls import Acl, Operation, Pattern, Permission, Resource
from minikafka.protocol.api import ApiKey
from minikafka.protocol.codec import encode_bytes
from minikafka.protocol.control import records as r
from minikafka.protocol.control.image import Delta
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from minikafka.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from minikafka.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from minikafka.protocol.messages.list_groups import ListGroupsRequest
from minikafka.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from minikafka.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from minikafka.protocol.messages.sasl_handshake import SaslHandshakeRequest
from minikafka.security.listener import Listener, SecurityProtocol
from minikafka.security.permissions.table import TABLE
from minikafka.security.principal import Principal, user
from minikafka.security.sasl.client import Credentials
from minikafka.security.tokens import TokenKey, password_of

from .conftest import MakeBroker
from .edge_support import Client, FakeBroker

KEY = TokenKey("a secret for tests")
FAR_MS = 1 << 52
CREATE = CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=-1)
RENEW = RenewDelegationTokenRequest(hmac=b"x", renew_period_ms=-1)
EXPIRE = ExpireDelegationTokenRequest(hmac=b"x", expiry_time_period_ms=-1)
DESCRIBE = DescribeDelegationTokenRequest(owners=None)
ASKED = ((CREATE, 3), (RENEW, 2), (EXPIRE, 2), (DESCRIBE, 3))
SASL = SecurityProtocol.SASL_PLAINTEXT
Locked = Callable[..., FakeBroker]


@pytest.fixture
def locked(make_broker: MakeBroker) -> Locked:
    """Makes a broker with the listener LOCKED, and two tokens: alice's, and bob's by alice."""

    def make(**settings: str) -> FakeBroker:
        broker = make_broker(
            **{
                "listeners": "PLAINTEXT://h:1,LOCKED://h:2",
                "listener_security_protocol_map": "PLAINTEXT:PLAINTEXT,LOCKED:SASL_PLAINTEXT",
                "sasl_enabled_mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
                "connection_failed_authentication_delay_ms": "0",
                "delegation_token_secret_key": "a secret for tests",
                **settings,
            }
        )
        for record in (
            r.DelegationTokenRecord("t1", "User:alice", "User:alice", (), 1, FAR_MS, FAR_MS),
            r.DelegationTokenRecord("t2", "User:bob", "User:eve", ("User:carol",), 1, 2, FAR_MS),
        ):
            broker.image.apply(record, broker.image.offset + 1)
        return broker

    return make


def connect(
    broker: FakeBroker, name: str, protocol: SecurityProtocol = SASL, *, is_by_token: bool = False
) -> Client:
    """Connect a client that has logged in already, or could do without."""
    client = broker.connect()
    client.connection.listener = Listener("LOCKED", protocol)
    client.connection.session.principal = user(name)
    client.connection.session.is_by_token = is_by_token
    return client


@pytest.mark.parametrize(("request_", "version"), ASKED)
@pytest.mark.parametrize(
    ("protocol", "name", "is_by_token", "code"),
    [
        (SecurityProtocol.PLAINTEXT, "ANONYMOUS", False, 64),
        (SecurityProtocol.SSL, "ANONYMOUS", False, 64),
        (SASL, "alice", True, 64),
        (SecurityProtocol.SSL, "CN=alice", False, 0),
        (SASL, "alice", False, 0),
    ],
)
async def test_s_21_tokens_are_for_who_has_proved_to_be_somebody_and_not_by_a_token(
    locked: Locked,
    request_: Any,
    version: int,
    protocol: SecurityProtocol,
    name: str,
    is_by_token: bool,
    code: int,
) -> None:
    broker = locked()
    client = connect(broker, name, protocol, is_by_token=is_by_token)
    client.send(request_, version)
    if code or request_ is DESCRIBE:
        (response,) = client.responses()
        assert response.error_code == code
        assert broker.controller.requests == []
    else:
        # The controller is asked, which is none in this test.
        (response,) = await client.next_responses()
        assert response.error_code == ErrorCode.NOT_CONTROLLER
        assert broker.controller.origin is not None
        assert broker.controller.origin.principal == user(name)


@pytest.mark.parametrize(("request_", "version"), ASKED)
async def test_a_broker_without_the_key_has_no_tokens(
    locked: Locked, request_: Any, version: int
) -> None:
    client = connect(locked(delegation_token_secret_key=""), "alice")
    response = client.ask(request_, version)
    assert response.error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED


async def test_the_answer_of_the_controller_is_passed_on(locked: Locked) -> None:
    broker = locked()
    told = CreateDelegationTokenResponse(
        principal_type="User",
        principal_name="alice",
        issue_timestamp_ms=1,
        expiry_timestamp_ms=2,
        max_timestamp_ms=3,
        token_id="t",
        hmac=b"secret",
    )
    broker.controller.answer = encode_bytes(told, 3)
    client = connect(broker, "alice")
    client.send(CREATE, 3)
    assert await client.next_responses() == [told]


async def test_a_renewer_must_be_a_user(locked: Locked) -> None:
    renewers = [CreatableRenewers(principal_type="Group", principal_name="g")]
    asked = CreateDelegationTokenRequest(renewers=renewers, max_lifetime_ms=-1)
    response = connect(locked(), "alice").ask(asked, 3)
    assert response.error_code == ErrorCode.INVALID_PRINCIPAL_TYPE
    assert (response.principal_name, response.hmac) == ("alice", b"")


def described(client: Client, *owners: str) -> list[str]:
    named = [DescribeDelegationTokenOwner(principal_type="User", principal_name=o) for o in owners]
    request = DescribeDelegationTokenRequest(owners=named if owners else None)
    response = client.ask(request, 3)
    assert response.error_code == 0
    for token in response.tokens:
        assert token.hmac == KEY.secret_of(token.token_id)
        assert repr(token.hmac) not in repr(response)
    return [token.token_id for token in response.tokens]


async def test_tokens_are_described_by_owner_requester_and_renewer(locked: Locked) -> None:
    client = connect(locked(), "anybody")
    assert described(client) == ["t1", "t2"]
    assert client.ask(DescribeDelegationTokenRequest(owners=[]), 3).tokens == []
    for owner, expected in (("alice", ["t1"]), ("bob", ["t2"]), ("eve", ["t2"]), ("zoe", [])):
        assert described(client, owner) == expected
    assert described(client, "carol", "alice") == ["t1", "t2"]
    (token,) = client.ask(
        DescribeDelegationTokenRequest(
            owners=[DescribeDelegationTokenOwner(principal_type="User", principal_name="bob")]
        ),
        3,
    ).tokens
    assert (token.principal_name, token.token_requester_principal_name) == ("bob", "eve")
    assert [each.principal_name for each in token.renewers] == ["carol"]
    assert (token.issue_timestamp, token.expiry_timestamp, token.max_timestamp) == (1, 2, FAR_MS)


def allow(broker: FakeBroker, operation: Operation, kind: Resource, name: str) -> None:
    acl = Acl(kind, name, Pattern.LITERAL, "User:zoe", "*", operation, Permission.ALLOW)
    broker.image.acls = {b"1": acl}
    assert broker.edge.authorizer is not None
    broker.edge.authorizer.on_metadata(Delta(is_snapshot=True), broker.image)


async def test_with_an_authorizer_only_own_tokens_are_seen_or_those_allowed(
    locked: Locked,
) -> None:
    broker = locked(authorizer_class_name="StandardAuthorizer")
    for name, expected in (("alice", ["t1"]), ("eve", ["t2"]), ("carol", ["t2"]), ("zoe", [])):
        assert described(connect(broker, name)) == expected
    zoe = connect(broker, "zoe")
    allow(broker, Operation.DESCRIBE, Resource.DELEGATION_TOKEN, "t1")
    assert described(zoe) == ["t1"]
    allow(broker, Operation.DESCRIBE_TOKENS, Resource.USER, "User:bob")
    assert described(zoe) == ["t2"]
    assert described(zoe, "alice") == []
    assert not TABLE[ApiKey.RENEW_DELEGATION_TOKEN]


async def test_a_token_of_somebody_else_needs_create_tokens(locked: Locked) -> None:
    broker = locked(authorizer_class_name="StandardAuthorizer")
    client = connect(broker, "zoe")
    asked = {
        name: CreateDelegationTokenRequest(
            owner_principal_type="User",
            owner_principal_name=name,
            renewers=[],
            max_lifetime_ms=-1,
        )
        for name in ("bob", "zoe")
    }
    refused = client.ask(asked["bob"], 3)
    assert refused.error_code == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    allow(broker, Operation.CREATE_TOKENS, Resource.USER, "User:bob")
    for request in asked.values():
        client.send(request, 3)
        (response,) = await client.next_responses()
        assert response.error_code == ErrorCode.NOT_CONTROLLER


def log_in(client: Client, credentials: Credentials) -> Any:
    """Log in over a listener with SASL; return the last response."""
    asked = SaslHandshakeRequest(mechanism=credentials.mechanism)
    assert client.ask(asked, 1).error_code == 0
    end = credentials.begin(lambda size: bytes(size))
    token: bytes | None = end.first()
    while token is not None:
        client.send(SaslAuthenticateRequest(auth_bytes=token), 2)
        responses = client.responses()
        if not responses or responses[0].error_code:
            return responses[0] if responses else None
        token = end.step(responses[0].auth_bytes)
    return responses[0]


def by_token(token_id: str, mechanism: str = "SCRAM-SHA-256") -> Credentials:
    return Credentials(mechanism, token_id, password_of(KEY.secret_of(token_id)), is_token=True)


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
async def test_s_21_a_login_by_a_token_makes_the_client_its_owner(
    locked: Locked, mechanism: str
) -> None:
    broker = locked()
    client = broker.connect("LOCKED")
    told = log_in(client, by_token("t1", mechanism))
    assert told.error_code == 0
    # The session ends with the token.
    assert 0 < told.session_lifetime_ms <= FAR_MS
    session = client.connection.session
    assert (session.principal, session.is_by_token) == (Principal("User", "alice"), True)
    assert client.connection.guard is not None
    assert client.ask(ListGroupsRequest(), 5).error_code == 0
    client.connection.listener = Listener("LOCKED", SASL)
    refused = client.ask(CREATE, 3)
    assert refused.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


async def test_the_session_ends_with_what_ends_first(locked: Locked) -> None:
    client = locked(connections_max_reauth_ms="60000").connect("LOCKED")
    assert log_in(client, by_token("t1")).session_lifetime_ms == 60_000


@pytest.mark.parametrize(
    ("credentials", "settings"),
    [
        (by_token("t2"), {}),  # It has expired.
        (by_token("t3"), {}),
        (Credentials("SCRAM-SHA-256", "t1", "wrong", is_token=True), {}),
        (Credentials("SCRAM-SHA-256", "alice", "pw", is_token=True), {}),
        (Credentials("SCRAM-SHA-256", "t1", password_of(KEY.secret_of("t1"))), {}),
        (by_token("t1"), {"delegation_token_secret_key": ""}),
        (by_token("t1"), {"delegation_token_secret_key": "another"}),
    ],
    ids=["expired", "unknown", "wrong", "user", "no-extension", "off", "other-key"],
)
async def test_s_21_no_other_token_gets_in(
    locked: Locked, credentials: Credentials, settings: dict[str, str]
) -> None:
    client = locked(**settings).connect("LOCKED")
    told = log_in(client, credentials)
    if told is None:
        # The refusal is held back.
        (told,) = await client.next_responses()
    assert told.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert "invalid credentials with SASL mechanism" in told.error_message
    assert not client.connection.session.is_by_token


async def test_a_token_that_is_removed_lets_nobody_in_any_more(locked: Locked) -> None:
    broker = locked()
    assert log_in(broker.connect("LOCKED"), by_token("t1")).error_code == 0
    broker.image.apply(r.RemoveDelegationTokenRecord("t1"), broker.image.offset + 1)
    client = broker.connect("LOCKED")
    assert log_in(client, by_token("t1")) is None
    (told,) = await client.next_responses()
    assert told.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
