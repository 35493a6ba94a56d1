"""DescribeClientQuotas and AlterClientQuotas at a broker."""

from collections.abc import Mapping

import pytest

from minikafka.protocol.api import ApiKey
from minikafka.protocol.codec import decode, encode_bytes
from minikafka.protocol.control.records import ClientQuotaRecord
from minikafka.protocol.errors import ApiError, ErrorCode
from minikafka.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntryData,
    EntryResult,
    OpData,
)
from minikafka.protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    EntityData,
)
from minikafka.protocol.quotas import Match

from .conftest import MakeBroker
from .edge_support import FakeBroker

RATE = "producer_byte_rate"
USER_A, USER_DEFAULT, CLIENT = {"user": "a"}, {"user": None}, {"client-id": "c"}
BOTH, ADDRESS = {"client-id": "c", "user": "a"}, {"ip": "::1"}
Condition = tuple[str, int, str | None]


def with_quotas(broker: FakeBroker) -> None:
    for entity in (USER_A, USER_DEFAULT, CLIENT, BOTH, ADDRESS):
        record = ClientQuotaRecord(dict[str, str | None](entity), RATE, float(len(entity)))
        broker.image.apply(record, broker.image.offset + 1)


def described(*conditions: Condition, strict: bool = False) -> DescribeClientQuotasRequest:
    components = [
        ComponentData(entity_type=kind, match_type=match, match=name)
        for kind, match, name in conditions
    ]
    return DescribeClientQuotasRequest(components=components, strict=strict)


@pytest.mark.parametrize(
    ("conditions", "strict", "found"),
    [
        ([], False, [USER_A, USER_DEFAULT, CLIENT, BOTH, ADDRESS]),
        ([], True, []),
        ([("user", Match.EXACT, "a")], False, [USER_A, BOTH]),
        ([("user", Match.EXACT, "a")], True, [USER_A]),
        ([("user", Match.DEFAULT, None)], False, [USER_DEFAULT]),
        ([("user", Match.ANY, None)], False, [USER_A, USER_DEFAULT, BOTH]),
        ([("user", Match.ANY, None)], True, [USER_A, USER_DEFAULT]),
        ([("user", Match.ANY, None), ("client-id", Match.EXACT, "c")], True, [BOTH]),
        ([("user", Match.DEFAULT, None), ("client-id", Match.ANY, None)], False, []),
        ([("ip", Match.EXACT, "0:0:0:0:0:0:0:1")], True, [ADDRESS]),
        ([("ip", Match.EXACT, "localhost")], False, []),
        ([("ip", Match.ANY, None)], False, [ADDRESS]),
    ],
)
async def test_entities_are_described_by_conditions_on_their_parts(
    make_broker: MakeBroker,
    conditions: list[Condition],
    strict: bool,
    found: list[Mapping[str, str | None]],
) -> None:
    broker = make_broker()
    with_quotas(broker)
    client = broker.connect()
    for version in (0, 1):
        response = client.ask(described(*conditions, strict=strict), version)
        assert (response.error_code, response.error_message) == (ErrorCode.NONE, None)
        shown = [
            {part.entity_type: part.entity_name for part in each.entity}
            for each in response.entries
        ]
        assert shown == found
        for each in response.entries:
            assert [(one.key, one.value) for one in each.values] == [(RATE, len(each.entity))]


@pytest.mark.parametrize(
    ("conditions", "error", "why"),
    [
        ([("", 0, "a")], ErrorCode.INVALID_REQUEST, "Invalid empty entity type."),
        ([("group", 0, "a")], ErrorCode.UNSUPPORTED_VERSION, "Unsupported entity type group"),
        (
            [("user", 0, "a"), ("user", 2, None)],
            ErrorCode.INVALID_REQUEST,
            "Entity type user cannot appear more than once in the filter.",
        ),
        ([("user", 0, None)], ErrorCode.INVALID_REQUEST, "EXACT, but set match string to null."),
        ([("user", 1, "a")], ErrorCode.INVALID_REQUEST, "DEFAULT, but also specified a match"),
        ([("user", 2, "a")], ErrorCode.INVALID_REQUEST, "SPECIFIED, but also specified a match"),
        ([("user", 3, "a")], ErrorCode.INVALID_REQUEST, "Unknown match type 3"),
        (
            [("user", 0, "a"), ("ip", 2, None)],
            ErrorCode.INVALID_REQUEST,
            "Invalid entity filter component combination",
        ),
    ],
)
async def test_conditions_that_make_no_sense_are_refused(
    make_broker: MakeBroker, conditions: list[Condition], error: ErrorCode, why: str
) -> None:
    client = make_broker().connect()
    for version in (0, 1):
        response = client.ask(described(*conditions), version)
        assert (response.error_code, response.entries) == (error, None)
        assert why in response.error_message


async def test_changes_are_forwarded_to_the_controller(make_broker: MakeBroker) -> None:
    broker = make_broker()
    client = broker.connect()
    entity = [EntityData(entity_type="user", entity_name="a")]
    entries = [EntryData(entity=entity, ops=[OpData(key=RATE, value=1.0, remove=False)])]
    request = AlterClientQuotasRequest(entries=entries, validate_only=True)
    answer = AlterClientQuotasResponse(entries=[EntryResult(entity=entity)])
    for version in (0, 1):
        broker.controller.answer = encode_bytes(answer, version)
        client.send(request, version)
        assert await client.next_responses() == [answer]
        api_key, asked_version, body = broker.controller.requests[-1]
        assert (api_key, asked_version) == (ApiKey.ALTER_CLIENT_QUOTAS, version)
        assert decode(AlterClientQuotasRequest, version, body) == request
    broker.controller.answer = ApiError(ErrorCode.REQUEST_TIMED_OUT)
    client.send(request, 1)
    (response,) = await client.next_responses()
    assert [(each.error_code, each.entity) for each in response.entries] == [
        (ErrorCode.REQUEST_TIMED_OUT, entity)
    ]
