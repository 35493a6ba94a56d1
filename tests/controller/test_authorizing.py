"""What brokers forward is authorized again by the controller, whatever they let through."""

import asyncio
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from minikafka.controller.api.authorizing import Authorizing
from minikafka.controller.api.forwarded import FORWARDED, QUESTIONS
from minikafka.controller.metadata.decision import Cluster, Decision, Defaults
from minikafka.protocol.acls import Operation, Pattern, Permission, Resource
from minikafka.protocol.api import ApiKey
from minikafka.protocol.codec import decode, encode_bytes, request_class, response_class
from minikafka.protocol.control import messages as m
from minikafka.protocol.control.image import Delta, MetadataImage, Topic
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from minikafka.protocol.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from minikafka.protocol.messages.delete_acls import DeleteAclsRequest
from minikafka.protocol.schema import shape_of
from minikafka.runtime.config import from_mapping
from minikafka.runtime.runtime import SystemRuntime
from minikafka.security.authorizer_config import AuthorizerConfig
from minikafka.security.permissions.refusing import nothing

from ..broker.edge_support import TOPIC, TOPIC_ID
from ..broker.permission_rows import BY_VERSION, OPEN, ROWS, Right, Row, right
from .conftest import WAIT_MS, FakeBroker, Lab
from .test_acls import wanted

ACLS = {"authorizer.class.name": "StandardAuthorizer", "super.users": "User:test"}
TOPIC_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
CLUSTER_DENIED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
CREATE = AclCreation(
    resource_type=Resource.TOPIC,
    resource_name="orders",
    resource_pattern_type=Pattern.PREFIXED,
    principal="User:alice",
    host="10.0.0.7",
    operation=Operation.CREATE,
    permission_type=Permission.ALLOW,
)


def cases() -> Iterator[Any]:
    for api_key, row in (*ROWS, *((api_key, row) for api_key, _, row in BY_VERSION)):
        if api_key in FORWARDED or api_key in QUESTIONS:
            version = shape_of(request_class(api_key)).versions.last
            yield pytest.param(api_key, version, row, id=f"{api_key.name}-{row.needs[0][0].name}")


class Bench:
    """The authorization alone, with entries of the test's choice."""

    def __init__(self) -> None:
        self.image = MetadataImage(topics={TOPIC_ID: Topic(TOPIC, TOPIC_ID, {})})
        self.image.topic_ids[TOPIC] = TOPIC_ID
        self.authorizing = Authorizing(SystemRuntime(), from_mapping(AuthorizerConfig, {}))
        self.seen: list[Any] = []

    def give(self, *rights: Right) -> None:
        acls = [right(*each) for each in rights]
        self.image.acls = {repr(acl).encode(): acl for acl in acls}
        self.authorizing.on_metadata(Delta(is_snapshot=True), self.image)

    def ask(self, api_key: ApiKey, version: int, asked: Any) -> Any:
        forwarded = m.ForwardedRequest(int(api_key), version, b"", "User:ANONYMOUS", 1000)

        def decide(request: Any) -> Decision[Any]:
            self.seen.append(request)
            return Decision(nothing(response_class(api_key)))

        self.seen.clear()
        cluster = Cluster(self.image, Defaults())
        return self.authorizing.decide(forwarded, asked, cluster, decide).answer


@pytest.mark.parametrize(("api_key", "version", "row"), list(cases()))
def test_each_forwarded_api_is_refused_then_allowed_by_exactly_what_it_needs(
    api_key: ApiKey, version: int, row: Row
) -> None:
    bench, asked = Bench(), row.request(api_key, version)
    bench.give()
    bench.ask(api_key, version, asked)
    assert bench.seen == []
    for enough in (row.needs, *row.instead):
        bench.give(*enough)
        bench.ask(api_key, version, asked)
        assert bench.seen == [asked]


def test_all_that_is_forwarded_has_its_row() -> None:
    tested = {api_key for api_key, _ in ROWS} | {api_key for api_key, _, _ in BY_VERSION}
    assert tested | set(OPEN) >= FORWARDED.keys() | QUESTIONS.keys()


def topics(*names: str) -> CreateTopicsRequest:
    return CreateTopicsRequest(
        topics=[CreatableTopic(name=each, num_partitions=1, replication_factor=1) for each in names]
    )


async def forward(
    broker: FakeBroker, request: Any, principal: str = "User:alice", host: str = "10.0.0.7"
) -> m.ForwardedAnswer:
    """Forward as a broker that checks nothing."""
    shape = shape_of(type(request))
    version = min(7, shape.versions.last)
    body = encode_bytes(request, version)
    answer: m.ForwardedAnswer = await broker.call(
        m.ForwardedRequest(
            int(shape.api_key), version, body, principal, WAIT_MS, b"", host, "CLIENTS"
        )
    )
    return answer


def created(answer: m.ForwardedAnswer) -> dict[str, int]:
    assert not answer.error, answer
    response = decode(CreateTopicsResponse, 7, answer.body)
    return {topic.name: topic.error_code for topic in response.topics}


@pytest.fixture
async def broker(lab: Lab) -> FakeBroker:
    """A broker that lets everything through, of a controller with an authorizer."""
    await lab.server.stop()
    await lab.start(ACLS)
    made = await lab.broker(1)
    await made.come_up()
    return made


async def test_what_a_broker_lets_through_is_denied_here_and_told_in_the_log(
    broker: FakeBroker, lab: Lab, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    before = lab.server.controller.cluster.image.offset
    assert created(await forward(broker, topics("orders"))) == {"orders": TOPIC_DENIED}
    assert lab.server.controller.cluster.image.offset == before
    assert "Principal = User:alice is Denied operation = CREATE from host = 10.0.0.7" in caplog.text


async def test_a_part_of_a_request_is_carried_out_and_the_host_counts(broker: FakeBroker) -> None:
    answer = await forward(broker, CreateAclsRequest(creations=[CREATE]), "User:test")
    assert not answer.error
    elsewhere = await forward(broker, topics("orders"), host="10.0.0.8")
    assert created(elsewhere) == {"orders": TOPIC_DENIED}
    some = created(await forward(broker, topics("secret", "orders-1")))
    assert some == {"orders-1": 0, "secret": TOPIC_DENIED}
    await broker.follow()
    assert list(broker.image.topic_ids) == ["orders-1"]


async def test_an_entry_that_is_being_deleted_allows_nothing_more(broker: FakeBroker) -> None:
    """A broker lets a request through before it has replayed the deletion."""
    await forward(broker, CreateAclsRequest(creations=[CREATE]), "User:test")
    assert created(await forward(broker, topics("orders-1"))) == {"orders-1": 0}
    deletion = DeleteAclsRequest(filters=[wanted("orders")])
    deleted, refused = await asyncio.gather(
        forward(broker, deletion, "User:test"), forward(broker, topics("orders-2"))
    )
    assert not deleted.error
    assert created(refused) == {"orders-2": TOPIC_DENIED}


async def test_entries_hold_after_a_restart(broker: FakeBroker, lab: Lab) -> None:
    await forward(broker, CreateAclsRequest(creations=[CREATE]), "User:test")
    await lab.server.stop()
    await lab.start(ACLS)
    again = await lab.broker(1, incarnation=2)
    await again.come_up()
    some = created(await forward(again, topics("orders-1", "secret")))
    assert some == {"orders-1": 0, "secret": TOPIC_DENIED}


async def test_in_its_own_name_a_broker_gets_internal_topics_only(broker: FakeBroker) -> None:
    for request in (topics("orders"), topics("__consumer_offsets", "orders"), topics()):
        refused = await forward(broker, request, principal="")
        assert refused.error == CLUSTER_DENIED
        assert "internal topics only" in refused.message
    acls = await forward(broker, CreateAclsRequest(creations=[CREATE]), principal="")
    assert acls.error == CLUSTER_DENIED
    made = await forward(broker, topics("__consumer_offsets"), principal="")
    assert created(made) == {"__consumer_offsets": 0}


async def test_a_text_that_is_no_principal_is_refused(broker: FakeBroker) -> None:
    refused = await forward(broker, topics("orders"), principal="alice")
    assert refused.error == ErrorCode.INVALID_REQUEST
    assert "'alice' is no principal" in refused.message


async def test_a_controller_without_an_authorizer_says_that_it_checks_nothing(
    broker: FakeBroker, lab: Lab, caplog: pytest.LogCaptureFixture
) -> None:
    await forward(broker, CreateAclsRequest(creations=[CREATE]), "User:test")
    await lab.server.stop()
    await lab.start()
    assert "no authorizer.class.name on this controller" in caplog.text
    again = await lab.broker(1, incarnation=2)
    await again.come_up()
    assert created(await forward(again, topics("orders"))) == {"orders": 0}
