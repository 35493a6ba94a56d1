"""The admin of delegation tokens, against scripted brokers."""

from typing import Any

import pytest

from minikafka import DelegationToken
from minikafka.aio import Admin
from minikafka.client.config import AdminConfig, configured
from minikafka.client.login_settings import credentials_of
from minikafka.protocol.api import ApiKey
from minikafka.protocol.errors import ApiError, ErrorCode
from minikafka.protocol.messages import create_delegation_token as cdt
from minikafka.protocol.messages import describe_delegation_token as ddt
from minikafka.protocol.messages import expire_delegation_token as edt
from minikafka.protocol.messages import renew_delegation_token as rdt
from minikafka.security.sasl.jaas import parse_jaas

from . import fake_broker
from .fake_broker import FakeCluster, FakeNode

SECRET = bytes(range(64))
TOKEN = DelegationToken("t", SECRET, "User:a", "User:b", ("User:c",), 1, 2, 3)


async def test_a_token_is_made_and_described(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def create(
        node: FakeNode, request: cdt.CreateDelegationTokenRequest
    ) -> cdt.CreateDelegationTokenResponse:
        asked.append(request)
        return cdt.CreateDelegationTokenResponse(
            principal_type="User",
            principal_name="a",
            token_requester_principal_type="User",
            token_requester_principal_name="b",
            issue_timestamp_ms=1,
            expiry_timestamp_ms=2,
            max_timestamp_ms=3,
            token_id="t",
            hmac=SECRET,
        )

    def describe(
        node: FakeNode, request: ddt.DescribeDelegationTokenRequest
    ) -> ddt.DescribeDelegationTokenResponse:
        asked.append(request)
        renewer = ddt.DescribedDelegationTokenRenewer(principal_type="User", principal_name="c")
        token = ddt.DescribedDelegationToken(
            principal_type="User",
            principal_name="a",
            token_requester_principal_type="User",
            token_requester_principal_name="b",
            issue_timestamp=1,
            expiry_timestamp=2,
            max_timestamp=3,
            token_id="t",
            hmac=SECRET,
            renewers=[renewer],
        )
        return ddt.DescribeDelegationTokenResponse(tokens=[token])

    monkeypatch.setitem(fake_broker.HANDLERS, ApiKey.CREATE_DELEGATION_TOKEN, create)
    monkeypatch.setitem(fake_broker.HANDLERS, ApiKey.DESCRIBE_DELEGATION_TOKEN, describe)
    async with FakeCluster(1) as cluster, Admin(cluster.bootstrap) as admin:
        made = await admin.create_delegation_token(
            owner="User:a", renewers=iter(["User:c", "User:c"]), max_lifetime_ms=7
        )
        assert made == TOKEN
        await admin.create_delegation_token()
        assert await admin.describe_delegation_tokens() == [TOKEN]
        await admin.describe_delegation_tokens(["User:CN=x:y", "Group:g"])
        for wrong in ("a", "User:", ":a"):
            with pytest.raises(ValueError, match="TYPE:NAME"):
                await admin.create_delegation_token(owner=wrong)
    other, own, every, some = asked
    assert (other.owner_principal_type, other.owner_principal_name) == ("User", "a")
    assert [each.principal_name for each in other.renewers] == ["c"]
    assert other.max_lifetime_ms == 7
    assert (own.owner_principal_name, own.max_lifetime_ms) == (None, -1)
    assert every.owners is None
    assert [(each.principal_type, each.principal_name) for each in some.owners] == [
        ("User", "CN=x:y"),
        ("Group", "g"),
    ]


async def test_a_token_is_renewed_and_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    def renew(
        node: FakeNode, request: rdt.RenewDelegationTokenRequest
    ) -> rdt.RenewDelegationTokenResponse:
        assert (request.hmac, request.renew_period_ms) == (SECRET, -1)
        return rdt.RenewDelegationTokenResponse(expiry_timestamp_ms=77)

    def expire(
        node: FakeNode, request: edt.ExpireDelegationTokenRequest
    ) -> edt.ExpireDelegationTokenResponse:
        if request.hmac != SECRET:
            error = ErrorCode.DELEGATION_TOKEN_NOT_FOUND
            return edt.ExpireDelegationTokenResponse(error_code=error, expiry_timestamp_ms=0)
        return edt.ExpireDelegationTokenResponse(expiry_timestamp_ms=request.expiry_time_period_ms)

    monkeypatch.setitem(fake_broker.HANDLERS, ApiKey.RENEW_DELEGATION_TOKEN, renew)
    monkeypatch.setitem(fake_broker.HANDLERS, ApiKey.EXPIRE_DELEGATION_TOKEN, expire)
    async with FakeCluster(1) as cluster, Admin(cluster.bootstrap) as admin:
        assert await admin.renew_delegation_token(SECRET) == 77
        assert await admin.expire_delegation_token(SECRET) == -1
        assert await admin.expire_delegation_token(SECRET, period_ms=5) == 5
        with pytest.raises(ApiError, match="DELEGATION_TOKEN_NOT_FOUND"):
            await admin.expire_delegation_token(b"")


def test_s_55_a_token_is_printed_without_its_secret_and_says_how_to_log_in() -> None:
    assert TOKEN.password not in repr(TOKEN)
    assert repr(SECRET) not in repr(TOKEN)
    login = parse_jaas("sasl.jaas.config", TOKEN.jaas_config, "SCRAM-SHA-256")
    assert (login.username, login.password, login.is_token) == ("t", TOKEN.password, True)
    settings = {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-256"}
    config = configured(AdminConfig, "a:1", {**settings, "sasl.jaas.config": TOKEN.jaas_config})
    begun = credentials_of(config.security).begin(lambda size: bytes(size)).first()
    assert begun == b"n,,n=t,r=AAAAAAAAAAAAAAAAAAAAAAAA,tokenauth=true"
