"""Requests that name thousands of things: no turn of the loop bears all of them."""

import asyncio
import itertools
from typing import Any

import pytest

from minikafka.broker.api.slices import ITEMS_AT_ONCE
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    ResourceType,
)
from minikafka.protocol.messages.describe_groups import DescribeGroupsRequest
from minikafka.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

from .conftest import MakeBroker
from .edge_support import TOPIC, FakeBroker, settle


def names(*topics: str) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in topics])


async def turns_until_answered(broker: FakeBroker, request: object, version: int) -> Any:
    """Ask, with a clock on which everything takes long; the response and the turns it took."""
    client = broker.connect()
    clock = itertools.count(0, 10)
    broker.runtime.monotonic_ms = lambda: next(clock)  # type: ignore[method-assign]
    client.send(request, version)
    turns = 0
    while not (found := client.responses()):
        await asyncio.sleep(0)
        turns += 1
    return found[0], turns


async def test_m_12_many_names_are_told_in_slices(make_broker: MakeBroker) -> None:
    many = names(TOPIC, *(f"n{n}" for n in range(4_999)))
    response, turns = await turns_until_answered(make_broker(), many, 9)
    assert turns == 5_000 // ITEMS_AT_ONCE - 1, "others have their turns in between"
    assert [t.name for t in response.topics] == [t.name for t in many.topics or ()]
    errors = {topic.error_code for topic in response.topics[1:]}
    assert (response.topics[0].error_code, errors) == (0, {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})


async def test_m_12_settings_of_many_topics_are_told_in_slices(make_broker: MakeBroker) -> None:
    asked = [
        DescribeConfigsResource(resource_type=ResourceType.TOPIC, resource_name=f"n{n}")
        for n in range(1_000)
    ]
    request = DescribeConfigsRequest(resources=asked)
    response, turns = await turns_until_answered(make_broker(), request, 4)
    assert turns == 1_000 // ITEMS_AT_ONCE - 1
    assert [r.resource_name for r in response.results] == [r.resource_name for r in asked]


async def test_m_12_what_is_named_over_and_over_is_told_once(make_broker: MakeBroker) -> None:
    client = make_broker().connect()
    assert [t.name for t in client.ask(names(*[TOPIC] * 9, "x", TOPIC), 9).topics] == [TOPIC, "x"]
    resource = DescribeConfigsResource(resource_type=ResourceType.TOPIC, resource_name=TOPIC)
    told = client.ask(DescribeConfigsRequest(resources=[resource] * 5_000), 4)
    assert len(told.results) == 1
    groups = client.ask(DescribeGroupsRequest(groups=["g"] * 5_000), 5).groups
    assert [group.group_id for group in groups] == ["g"]


async def test_a_failure_in_a_slice_ends_its_client_alone(
    make_broker: MakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr("minikafka.broker.api.describe_configs._result", fails)
    broker = make_broker()
    resources = [
        DescribeConfigsResource(resource_type=ResourceType.TOPIC, resource_name=f"n{n}")
        for n in range(ITEMS_AT_ONCE + 1)
    ]
    client, other = broker.connect(), broker.connect()
    client.send(DescribeConfigsRequest(resources=resources), 4)
    await settle()
    assert client.transport.is_aborted
    assert len(other.ask(names(TOPIC), 9).topics) == 1


async def test_a_client_that_leaves_ends_its_long_answer(make_broker: MakeBroker) -> None:
    broker = make_broker()
    clock = itertools.count(0, 10)
    broker.runtime.monotonic_ms = lambda: next(clock)  # type: ignore[method-assign]
    client = broker.connect()
    client.send(names(*(f"n{n}" for n in range(5_000))), 9)
    client.transport.close()
    await settle()
    before = next(clock)
    await settle()
    assert next(clock) == before + 10, "nobody goes on with it"
    assert client.responses() == []
