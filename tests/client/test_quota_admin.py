"""The admin of client quotas, against scripted brokers."""

import pytest

from minikafka import QuotaEntity
from minikafka.aio import Admin
from minikafka.client.errors import AdminError
from minikafka.protocol.api import ApiKey
from minikafka.protocol.errors import ApiError, ErrorCode
from minikafka.protocol.messages import alter_client_quotas as acq
from minikafka.protocol.messages import describe_client_quotas as dcq

from . import fake_broker
from .fake_broker import FakeCluster, FakeNode

RATE = "producer_byte_rate"
BOTH = QuotaEntity(user="alice", client_id="")


def test_an_entity_has_parts_and_kafkas_words() -> None:
    assert BOTH.parts == {"user": "alice", "client-id": None}
    assert str(BOTH) == "user-principal 'alice', the default client-id"
    assert str(QuotaEntity(ip="::1")) == "ip '::1'"
    assert QuotaEntity(ip="").parts == {"ip": None}


async def test_quotas_are_described(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dcq.DescribeClientQuotasRequest] = []

    def answer(
        node: FakeNode, request: dcq.DescribeClientQuotasRequest
    ) -> dcq.DescribeClientQuotasResponse:
        asked.append(request)
        if not request.components:
            return dcq.DescribeClientQuotasResponse(
                error_code=ErrorCode.INVALID_REQUEST, error_message="no", entries=None
            )
        parts = [
            dcq.EntityData(entity_type="client-id", entity_name=None),
            dcq.EntityData(entity_type="user", entity_name="alice"),
        ]
        entry = dcq.EntryData(entity=parts, values=[dcq.ValueData(key=RATE, value=5.0)])
        return dcq.DescribeClientQuotasResponse(entries=[entry])

    monkeypatch.setitem(fake_broker.HANDLERS, ApiKey.DESCRIBE_CLIENT_QUOTAS, answer)
    async with FakeCluster(1) as cluster, Admin(cluster.bootstrap) as admin:
        wanted = {"user": "alice", "client-id": ""}
        assert await admin.describe_client_quotas(wanted, strict=True) == {BOTH: {RATE: 5.0}}
        await admin.describe_client_quotas({"ip": None})
        with pytest.raises(ApiError, match="no"):
            await admin.describe_client_quotas()
    made = [
        ([(each.entity_type, each.match_type, each.match) for each in request.components])
        for request in asked
    ]
    assert made[:2] == [[("user", 0, "alice"), ("client-id", 1, None)], [("ip", 2, None)]]
    assert [request.strict for request in asked] == [True, False, False]


async def test_an_entity_that_is_refused_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[acq.AlterClientQuotasRequest] = []

    def answer(
        node: FakeNode, request: acq.AlterClientQuotasRequest
    ) -> acq.AlterClientQuotasResponse:
        asked.append(request)
        results = [acq.EntryResult(entity=each.entity) for each in request.entries]
        results[1].error_code = ErrorCode.INVALID_REQUEST
        results[1].error_message = "no such address"
        return acq.AlterClientQuotasResponse(entries=results)

    monkeypatch.setitem(fake_broker.HANDLERS, ApiKey.ALTER_CLIENT_QUOTAS, answer)
    changes: dict[QuotaEntity, dict[str, float | None]] = {
        BOTH: {RATE: 5.0, "request_percentage": None},
        QuotaEntity(ip="x"): {"c": 1.0},
    }
    async with FakeCluster(1) as cluster, Admin(cluster.bootstrap) as admin:
        with pytest.raises(AdminError, match="ip 'x': INVALID_REQUEST: no such address") as caught:
            await admin.alter_client_quotas(changes, validate_only=True)
    assert list(caught.value.errors) == ["ip 'x'"]
    (request,) = asked
    assert request.validate_only
    ops = [(op.key, op.value, op.remove) for op in request.entries[0].ops]
    assert ops == [(RATE, 5.0, False), ("request_percentage", 0.0, True)]
    parts = [(each.entity_type, each.entity_name) for each in request.entries[0].entity]
    assert parts == [("user", "alice"), ("client-id", None)]
