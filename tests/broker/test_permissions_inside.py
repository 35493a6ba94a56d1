"""Permissions where handlers check them themselves: Produce, Fetch, Metadata and its kind."""

from typing import Any

import pytest

from minikafka.broker.partition.requests import CONSUMER
from minikafka.protocol.acls import Acl, Operation, Pattern, Permission, Resource
from minikafka.protocol.api import ApiKey
from minikafka.protocol.control import records as r
from minikafka.protocol.control.image import Topic
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from minikafka.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ReplicaState,
)
from minikafka.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from minikafka.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from minikafka.protocol.records.batch_header import TRANSACTIONAL_BIT
from minikafka.protocol.records.records import BatchBuilder
from minikafka.protocol.types import ZERO_UUID

from .conftest import MakeBroker
from .edge_support import TOPIC, TOPIC_ID, Client, FakeBroker, batch, heard_by, settle
from .permission_rows import C, Op, T, X, all_but, right, spoken
from .test_permissions import STANDARD, give

DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
HIDDEN_ID = bytes(reversed(TOPIC_ID))


@pytest.fixture
def broker(make_broker: MakeBroker) -> FakeBroker:
    """A broker with an authorizer and a second topic that nobody has a right to."""
    made = make_broker(**STANDARD)
    made.image.apply(r.TopicRecord("hidden", HIDDEN_ID), made.image.offset + 1)
    give(made)
    return made


# Produce.


def produced(
    topic: str = TOPIC,
    *,
    version: int = 9,
    records: bytes | None = None,
    acks: int = 1,
    **more: Any,
) -> ProduceRequest:
    data = PartitionProduceData(index=0, records=batch(b"v") if records is None else records)
    topic_id = {TOPIC: TOPIC_ID, "hidden": HIDDEN_ID}.get(topic, bytes([9] * 16))
    named = {"topic_id": topic_id} if version >= 13 else {"name": topic}
    topics = [TopicProduceData(**named, partition_data=[data])]
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=topics, **more)


def error_of(client: Client, request: ProduceRequest, version: int) -> int:
    (topic,) = client.ask(request, version).responses
    (partition,) = topic.partition_responses
    return int(partition.error_code)


@pytest.mark.parametrize("version", spoken(ApiKey.PRODUCE))
async def test_s_41_a_batch_is_refused_then_appended_with_the_right_to_write(
    broker: FakeBroker, version: int
) -> None:
    client = broker.connect()
    give(broker, *all_but((Op.WRITE, T)))
    assert error_of(client, produced(version=version), version) == DENIED
    assert not broker.partition.batches
    absent = DENIED if version < 13 else ErrorCode.UNKNOWN_TOPIC_ID
    assert error_of(client, produced("absent", version=version), version) == absent
    give(broker, right(Op.WRITE, T))
    assert error_of(client, produced(version=version), version) == ErrorCode.NONE
    assert len(broker.partition.batches) == 1


async def test_a_repeated_request_is_checked_again(broker: FakeBroker) -> None:
    client = broker.connect()
    give(broker, right(Op.WRITE, T))
    for _ in range(3):
        assert error_of(client, produced(), 9) == ErrorCode.NONE
    give(broker, right(Op.READ, T))
    for _ in range(2):
        assert error_of(client, produced(), 9) == DENIED
    assert len(broker.partition.batches) == 3
    give(broker, right(Op.WRITE, T))
    assert error_of(client, produced(), 9) == ErrorCode.NONE


async def test_without_an_answer_a_refused_batch_ends_the_connection(broker: FakeBroker) -> None:
    client = broker.connect()
    client.send(produced(acks=0), 9)
    assert client.transport.is_closed
    assert not broker.partition.batches


def transactional() -> bytes:
    builder = BatchBuilder(is_transactional=True)
    builder.append(1, None, b"v")
    made = builder.build(producer_id=7, producer_epoch=0)
    assert made[22] & TRANSACTIONAL_BIT
    return bytes(made)


async def test_a_transactional_id_must_be_the_clients(broker: FakeBroker) -> None:
    """As CVE-2018-17196 was: a batch of a transaction in a request that names none."""
    client = broker.connect()
    give(broker, right(Op.WRITE, T))
    error = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    named = produced(records=transactional(), transactional_id="x")
    assert error_of(client, named, 9) == error
    assert error_of(client, produced(), 9) == ErrorCode.NONE
    for _ in range(2):
        assert error_of(client, produced(records=transactional()), 9) == error
    give(broker, right(Op.WRITE, T), right(Op.WRITE, X))
    assert error_of(client, produced(records=transactional()), 9) == error
    assert len(broker.partition.batches) == 1


# Fetch.


def fetched(version: int = 12, replica_id: int = CONSUMER, **more: Any) -> FetchRequest:
    named = {"topic_id": TOPIC_ID} if version >= 13 else {"topic": TOPIC}
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    topics = [FetchTopic(**named, partitions=[partition])]
    if version >= 15:
        more["replica_state"] = ReplicaState(replica_id=replica_id, replica_epoch=0)
    else:
        more["replica_id"] = replica_id
    return FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, topics=topics, **more)


def read(client: Client, request: FetchRequest, version: int) -> tuple[int, int]:
    """Return the error and the number of bytes of the one partition."""
    (topic,) = client.ask(request, version).responses
    (partition,) = topic.partitions
    return partition.error_code, len(partition.records or b"")


@pytest.mark.parametrize("version", spoken(ApiKey.FETCH))
async def test_s_41_a_partition_is_refused_then_read_with_the_right_to_read(
    broker: FakeBroker, version: int
) -> None:
    client = broker.connect()
    give(broker, right(Op.WRITE, T))
    assert error_of(client, produced(), 9) == ErrorCode.NONE
    give(broker, *all_but((Op.READ, T)))
    assert read(client, fetched(version), version) == (DENIED, 0)
    give(broker, right(Op.READ, T))
    error, size = read(client, fetched(version), version)
    assert error == ErrorCode.NONE
    assert size > 0


@pytest.mark.parametrize("version", spoken(ApiKey.FETCH))
async def test_s_31_a_client_that_fetches_as_a_broker_is_refused_and_changes_nothing(
    broker: FakeBroker, version: int
) -> None:
    client = broker.connect()
    give(broker, right(Op.ALL, T))
    assert read(client, fetched(version, 2), version) == (DENIED, 0)
    assert not broker.partition.fetches
    assert not client.connection.is_replica
    assert heard_by(broker) == []
    give(broker, right(Op.CLUSTER_ACTION, C))
    response = client.ask(fetched(version, 2), version)
    # Before version 15 no epoch of the broker is told, and before version 7 no error of the whole.
    is_refused = version < 15
    has_code = is_refused and version >= 7
    assert (response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED) is has_code
    assert (not broker.partition.fetches) is is_refused
    assert heard_by(broker) == ([] if is_refused else [2])


async def test_s_38_a_session_loses_the_right_to_read_with_the_entry(broker: FakeBroker) -> None:
    client = broker.connect()
    give(broker, right(Op.READ, T))
    opened = client.ask(fetched(session_id=0, session_epoch=0), 12)
    assert opened.session_id
    give(broker)
    again = fetched(session_id=opened.session_id, session_epoch=1)
    again.topics = []
    (topic,) = client.ask(again, 12).responses
    assert topic.partitions[0].error_code == DENIED


# Metadata.


def told(client: Client, request: MetadataRequest, version: int) -> list[tuple[Any, ...]]:
    return [
        (each.error_code, each.name, each.topic_id, len(each.partitions))
        for each in client.ask(request, version).topics
    ]


@pytest.mark.parametrize("version", spoken(ApiKey.METADATA))
async def test_s_32_a_hidden_topic_is_answered_like_an_absent_one(
    broker: FakeBroker, version: int
) -> None:
    client = broker.connect()
    give(broker, right(Op.DESCRIBE, T))
    names = ("hidden", "absent", TOPIC)
    topics = [MetadataRequestTopic(name=each) for each in names]
    hidden, absent, shown = told(client, MetadataRequest(topics=topics), version)
    assert hidden == (DENIED, "hidden", ZERO_UUID, 0)
    assert absent == (DENIED, "absent", ZERO_UUID, 0)
    assert shown[:2] == (ErrorCode.NONE, TOPIC)
    every = MetadataRequest(topics=None if version else [])
    assert [name for _, name, _, _ in told(client, every, version)] == [TOPIC]
    if version >= 10:
        by_id = MetadataRequest(topics=[MetadataRequestTopic(name=None, topic_id=HIDDEN_ID)])
        ((error, name, topic_id, _),) = told(client, by_id, version)
        assert (error, name or None, topic_id) == (DENIED, None, HIDDEN_ID)


async def test_answers_that_are_kept_are_not_those_of_another_principal(
    broker: FakeBroker,
) -> None:
    give(broker, right(Op.DESCRIBE, T, who="User:alice"))
    every = MetadataRequest(topics=None)
    alice, other = broker.connect(), broker.connect()
    alice.connection.session.principal = alice.connection.session.principal._replace(name="alice")
    for _ in range(2):
        assert [name for _, name, _, _ in told(alice, every, 12)] == [TOPIC]
        assert told(other, every, 12) == []


async def test_a_missing_topic_is_created_for_who_may_create_it(broker: FakeBroker) -> None:
    client = broker.connect()
    prefix = Acl(Resource.TOPIC, "n", Pattern.PREFIXED, "User:*", "*", Op.ALL, Permission.ALLOW)
    sees_all = Acl(T, "*", Pattern.LITERAL, "User:*", "*", Op.DESCRIBE, Permission.ALLOW)
    names = MetadataRequest(topics=[MetadataRequestTopic(name=each) for each in ("new", "absent")])
    for acls, errors in (
        ((sees_all,), [DENIED, DENIED]),
        ((sees_all, prefix), [UNKNOWN, DENIED]),
        ((sees_all, right(Op.CREATE, C)), [UNKNOWN, UNKNOWN]),
    ):
        give(broker, *acls)
        assert [error for error, *_ in told(client, names, 9)] == errors
        await settle()
    assert len(broker.controller.requests) == 2


async def test_operations_on_a_topic_are_those_that_are_allowed(broker: FakeBroker) -> None:
    client = broker.connect()
    give(broker, right(Op.WRITE, T))
    asked = MetadataRequest(
        topics=None,
        include_topic_authorized_operations=True,
        include_cluster_authorized_operations=True,
    )
    response = client.ask(asked, 9)
    expected = 1 << Operation.WRITE | 1 << Operation.DESCRIBE
    assert response.topics[0].topic_authorized_operations == expected
    assert response.cluster_authorized_operations == 0


async def test_pages_of_topics_have_those_that_may_be_described(broker: FakeBroker) -> None:
    client = broker.connect()
    give(broker, right(Op.DESCRIBE, T))
    assert isinstance(broker.image.topic("hidden"), Topic)
    page = client.ask(DescribeTopicPartitionsRequest(topics=[]), 0)
    assert [each.name for each in page.topics] == [TOPIC]
    assert page.topics[0].topic_authorized_operations == 1 << Op.DESCRIBE
    names = [TopicRequest(name=each) for each in ("hidden", "absent", TOPIC)]
    page = client.ask(DescribeTopicPartitionsRequest(topics=names), 0)
    assert {each.name: each.error_code for each in page.topics} == {
        "hidden": DENIED,
        "absent": DENIED,
        TOPIC: ErrorCode.NONE,
    }


async def test_super_users_and_brokers_with_no_authorizer_are_not_asked_for_anything(
    make_broker: MakeBroker,
) -> None:
    every = MetadataRequest(topics=None)
    for settings in ({}, {**STANDARD, "super_users": "User:ANONYMOUS"}):
        client = make_broker(**settings).connect()
        assert error_of(client, produced(), 9) == ErrorCode.NONE
        assert read(client, fetched(), 12)[0] == ErrorCode.NONE
        assert [name for _, name, _, _ in told(client, every, 9)] == [TOPIC]
