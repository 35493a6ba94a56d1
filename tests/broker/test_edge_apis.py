"""Each API on its own: what it answers, version by version, from a known image."""

import asyncio
import struct

import pytest

from minikafka.broker.api.metadata import Metadata
from minikafka.broker.api.produce_repeat import Patterns
from minikafka.broker.partition.requests import Appended, OffsetAnswer
from minikafka.protocol.api import ApiKey
from minikafka.protocol.codec import decode, encode_bytes
from minikafka.protocol.control import records as r
from minikafka.protocol.control.messages import VersionRange
from minikafka.protocol.errors import ApiError, ErrorCode
from minikafka.protocol.messages.api_versions import ApiVersionsRequest
from minikafka.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from minikafka.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from minikafka.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from minikafka.protocol.messages.describe_cluster import DescribeClusterRequest
from minikafka.protocol.messages.describe_configs import (
    ConfigSource,
    ConfigType,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    ResourceType,
)
from minikafka.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from minikafka.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from minikafka.protocol.messages.init_producer_id import InitProducerIdRequest
from minikafka.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from minikafka.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from minikafka.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from minikafka.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from minikafka.protocol.records.record_checks import RecordError
from minikafka.security.principal import ANONYMOUS, Origin, user

from .conftest import MakeBroker
from .edge_support import EPOCH, TOPIC, TOPIC_ID, FakeBroker, FakePartition, batch, settle


def names(*topics: str) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in topics])


# ApiVersions.


@pytest.mark.parametrize("version", range(5))
async def test_api_versions_tells_what_a_kafka_broker_of_today_tells(
    make_broker: MakeBroker, version: int
) -> None:
    request = ApiVersionsRequest(client_software_name="c", client_software_version="1.0")
    response = make_broker().connect().ask(request, version)
    spoken = {row.api_key: (row.min_version, row.max_version) for row in response.api_keys}
    assert response.error_code == 0
    assert spoken == {
        ApiKey.PRODUCE: (0, 13),
        ApiKey.FETCH: (4, 18),
        ApiKey.LIST_OFFSETS: (1, 11),
        ApiKey.METADATA: (0, 13),
        ApiKey.TXN_OFFSET_COMMIT: (0, 5),
        ApiKey.API_VERSIONS: (0, 4),
        ApiKey.CREATE_TOPICS: (2, 7),
        ApiKey.DELETE_TOPICS: (1, 6),
        ApiKey.INIT_PRODUCER_ID: (0, 5),
        ApiKey.OFFSET_FOR_LEADER_EPOCH: (2, 4),
        ApiKey.DESCRIBE_CONFIGS: (1, 4),
        ApiKey.CREATE_PARTITIONS: (0, 3),
        ApiKey.ELECT_LEADERS: (0, 2),
        ApiKey.INCREMENTAL_ALTER_CONFIGS: (0, 1),
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: (0, 1),
        ApiKey.LIST_PARTITION_REASSIGNMENTS: (0, 0),
        ApiKey.WRITE_TXN_MARKERS: (1, 2),
        ApiKey.DESCRIBE_PRODUCERS: (0, 0),
        ApiKey.DELETE_RECORDS: (0, 2),
        ApiKey.ALTER_CONFIGS: (0, 2),
        ApiKey.LIST_CONFIG_RESOURCES: (0, 1),
        ApiKey.ALTER_REPLICA_LOG_DIRS: (1, 2),
        ApiKey.DESCRIBE_LOG_DIRS: (1, 5),
        ApiKey.DESCRIBE_QUORUM: (0, 2),
        ApiKey.UPDATE_FEATURES: (0, 2),
        ApiKey.UNREGISTER_BROKER: (0, 0),
        ApiKey.DESCRIBE_ACLS: (1, 3),
        ApiKey.CREATE_ACLS: (1, 3),
        ApiKey.DELETE_ACLS: (1, 3),
        ApiKey.DESCRIBE_CLIENT_QUOTAS: (0, 1),
        ApiKey.ALTER_CLIENT_QUOTAS: (0, 1),
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: (0, 0),
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS: (0, 0),
        ApiKey.CREATE_DELEGATION_TOKEN: (1, 3),
        ApiKey.RENEW_DELEGATION_TOKEN: (1, 2),
        ApiKey.EXPIRE_DELEGATION_TOKEN: (1, 2),
        ApiKey.DESCRIBE_DELEGATION_TOKEN: (1, 3),
        ApiKey.DESCRIBE_CLUSTER: (0, 2),
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: (0, 0),
        ApiKey.SASL_HANDSHAKE: (0, 1),
        ApiKey.SASL_AUTHENTICATE: (0, 2),
        ApiKey.FIND_COORDINATOR: (0, 6),
        ApiKey.JOIN_GROUP: (0, 9),
        ApiKey.SYNC_GROUP: (0, 5),
        ApiKey.HEARTBEAT: (0, 4),
        ApiKey.LEAVE_GROUP: (0, 5),
        ApiKey.OFFSET_COMMIT: (2, 10),
        ApiKey.OFFSET_FETCH: (1, 10),
        ApiKey.OFFSET_DELETE: (0, 0),
        ApiKey.LIST_GROUPS: (0, 5),
        ApiKey.DESCRIBE_GROUPS: (0, 6),
        ApiKey.DELETE_GROUPS: (0, 2),
        ApiKey.ADD_PARTITIONS_TO_TXN: (0, 5),
        ApiKey.ADD_OFFSETS_TO_TXN: (0, 4),
        ApiKey.END_TXN: (0, 5),
        ApiKey.DESCRIBE_TRANSACTIONS: (0, 0),
        ApiKey.LIST_TRANSACTIONS: (0, 2),
        ApiKey.INIT_COMMIT_GROUP: (0, 0),
        ApiKey.COMMIT_GROUP: (0, 0),
        ApiKey.DESCRIBE_REPLICAS: (0, 0),
        ApiKey.DESCRIBE_LAG: (0, 0),
        ApiKey.FORWARD_RECORDS: (0, 0),
        ApiKey.LIST_DELAYED: (0, 0),
        ApiKey.ALTER_DELAYED: (0, 0),
        ApiKey.DESCRIBE_FORWARDING: (0, 0),
        ApiKey.AUDIT_EVENTS: (0, 0),
        ApiKey.WRITE_TRACE: (0, 0),
        ApiKey.REFIRE_FORWARDED: (0, 0),
    }
    at_zero = ["group.version", "kraft.version", "share.version", "streams.version"]
    expected = ["metadata.version"] * (version >= 3) + at_zero * (version >= 4)
    assert [f.name for f in response.supported_features] == expected


async def test_features_are_told_in_kafkas_levels(make_broker: MakeBroker) -> None:
    """kafka-features shows the release's name for its number, and UNKNOWN for any other."""
    broker = make_broker()
    broker.image.apply(r.FeatureRecord("metadata.version", 1), 70)
    broker.image.brokers[1].features[r.REPLICA_PROOF] = VersionRange(1, 1)
    request = ApiVersionsRequest(client_software_name="c", client_software_version="1")
    response = broker.connect().ask(request, 4)
    assert r.REPLICA_PROOF not in [f.name for f in response.supported_features]
    supported = {f.name: (f.min_version, f.max_version) for f in response.supported_features}
    assert supported["metadata.version"] == (30, 30)
    assert supported["group.version"] == (0, 0)
    finalized = {f.name: f.max_version_level for f in response.finalized_features}
    assert finalized == {"metadata.version": 30}


async def test_api_versions_takes_no_software_name_that_would_spoil_a_log(
    make_broker: MakeBroker,
) -> None:
    bad = ApiVersionsRequest(client_software_name="a\nb", client_software_version="1")
    assert make_broker().connect().ask(bad, 3).error_code == ErrorCode.INVALID_REQUEST


async def test_a_feature_level_0_is_hidden_from_clients_that_fail_on_it(
    make_broker: MakeBroker,
) -> None:
    broker = make_broker()
    broker.image.brokers[1].features["new.version"] = VersionRange(0, 1)
    request = ApiVersionsRequest(client_software_name="c", client_software_version="1")
    client = broker.connect()
    assert len(client.ask(request, 3).supported_features) == 1
    levels = client.ask(request, 4).supported_features
    assert [(f.min_version, f.max_version) for f in levels if f.name == "new.version"] == [(0, 1)]


# Metadata.


@pytest.mark.parametrize("version", range(14))
async def test_metadata_in_every_version(make_broker: MakeBroker, version: int) -> None:
    response = make_broker(FakePartition(0), FakePartition(1)).connect().ask(names(TOPIC), version)
    assert [(b.node_id, b.host, b.port) for b in response.brokers] == [
        (1, "plaintext-1.example", 9001),
        (2, "plaintext-2.example", 9002),
    ]
    (topic,) = response.topics
    assert (topic.name, topic.error_code) == (TOPIC, 0)
    assert [(p.partition_index, p.leader_id) for p in topic.partitions] == [(0, 1), (1, 1)]
    assert topic.partitions[0].replica_nodes == [1, 2, 3]
    assert topic.partitions[0].isr_nodes == [1, 2]
    assert version < 1 or response.controller_id == 1
    assert version < 5 or topic.partitions[0].offline_replicas == [3]
    assert version < 7 or topic.partitions[0].leader_epoch == EPOCH
    assert version < 10 or topic.topic_id == TOPIC_ID


async def test_metadata_of_all_topics_and_of_none(make_broker: MakeBroker) -> None:
    client = make_broker().connect()
    assert [t.name for t in client.ask(MetadataRequest(topics=None), 9).topics] == [TOPIC]
    assert client.ask(MetadataRequest(topics=[]), 9).topics == []
    assert [t.name for t in client.ask(MetadataRequest(topics=[]), 0).topics] == [TOPIC]


async def test_metadata_by_topic_id(make_broker: MakeBroker) -> None:
    client = make_broker().connect()
    wanted = [MetadataRequestTopic(topic_id=TOPIC_ID), MetadataRequestTopic(topic_id=b"?" * 16)]
    known, unknown = client.ask(MetadataRequest(topics=wanted), 12).topics
    assert (known.name, known.error_code) == (TOPIC, 0)
    assert (unknown.name, unknown.error_code) == (None, ErrorCode.UNKNOWN_TOPIC_ID)


async def test_metadata_is_seen_from_the_listener_the_client_came_in_on(
    make_broker: MakeBroker,
) -> None:
    response = make_broker().connect("OUTSIDE").ask(names(TOPIC), 9)
    assert [(b.node_id, b.host) for b in response.brokers] == [(1, "outside-1.example")]


async def test_a_leader_without_the_clients_listener_is_said_so(make_broker: MakeBroker) -> None:
    broker = make_broker()
    broker.image.apply(r.PartitionChangeRecord(TOPIC_ID, 0, leader=2), 50)
    outside = broker.connect("OUTSIDE")
    (part,) = outside.ask(names(TOPIC), 9).topics[0].partitions
    assert (part.error_code, part.leader_id) == (ErrorCode.LISTENER_NOT_FOUND, -1)
    (part,) = outside.ask(names(TOPIC), 5).topics[0].partitions
    assert part.error_code == ErrorCode.LEADER_NOT_AVAILABLE


async def test_metadata_follows_the_image(make_broker: MakeBroker) -> None:
    broker = make_broker()
    client = broker.connect()
    first = client.ask(names(TOPIC), 9).topics[0].partitions[0]
    assert client.ask(names(TOPIC), 9).topics[0].partitions[0] == first
    broker.image.apply(r.PartitionChangeRecord(TOPIC_ID, 0, leader=2), 50)
    changed = client.ask(names(TOPIC), 9).topics[0].partitions[0]
    assert (changed.leader_id, changed.leader_epoch) == (2, EPOCH + 1)
    broker.image.apply(r.PartitionChangeRecord(TOPIC_ID, 0, leader=-1), 51)
    gone = client.ask(names(TOPIC), 9).topics[0].partitions[0]
    assert (gone.error_code, gone.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)


async def test_a_missing_topic_is_created_once_and_told_as_unknown(
    make_broker: MakeBroker,
) -> None:
    broker = make_broker(num_partitions="4")
    broker.controller.gate.clear()
    clients = [broker.connect() for _ in range(3)]
    for client in clients:
        (topic,) = client.ask(names("fresh"), 9).topics
        assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    await settle()
    ((key, version, body),) = broker.controller.requests
    assert key == ApiKey.CREATE_TOPICS
    (asked,) = decode(CreateTopicsRequest, version, body).topics
    assert (asked.name, asked.num_partitions, asked.replication_factor) == ("fresh", 4, -1)
    broker.controller.gate.set()
    await settle()


@pytest.mark.parametrize(
    "request_", [names("../etc"), names(""), names("a" * 250), names("."), names("sp ace")]
)
async def test_an_illegal_topic_name_is_refused_not_created(
    make_broker: MakeBroker, request_: MetadataRequest
) -> None:
    broker = make_broker()
    (topic,) = broker.connect().ask(request_, 9).topics
    assert topic.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    await settle()
    assert broker.controller.requests == []


async def test_nothing_is_created_where_client_or_broker_say_no(make_broker: MakeBroker) -> None:
    unwanted = names("fresh")
    unwanted.allow_auto_topic_creation = False
    broker = make_broker()
    broker.connect().ask(unwanted, 9)
    off = make_broker(auto_create_topics_enable="false")
    off.connect().ask(names("fresh"), 9)
    await settle()
    assert broker.controller.requests == off.controller.requests == []


async def test_a_refused_creation_is_logged_and_not_repeated_at_once(
    make_broker: MakeBroker, caplog: pytest.LogCaptureFixture
) -> None:
    broker = make_broker()
    refusal = CreatableTopicResult(
        name="fresh", error_code=ErrorCode.INVALID_REPLICATION_FACTOR, error_message="3 > 1"
    )
    broker.controller.answer = encode_bytes(CreateTopicsResponse(topics=[refusal]), 7)
    for _ in range(3):
        broker.connect().ask(names("fresh"), 9)
        await settle()
    assert len(broker.controller.requests) == 1
    assert "fresh could not be created: 3 > 1" in caplog.text


# Produce.


async def test_produce_by_topic_id_and_to_unknown_places(make_broker: MakeBroker) -> None:
    broker = make_broker()
    data = [PartitionProduceData(index=index, records=batch(b"v")) for index in (0, 9)]
    by_id = [
        TopicProduceData(topic_id=TOPIC_ID, partition_data=data),
        TopicProduceData(topic_id=b"?" * 16, partition_data=data[:1]),
    ]
    response = broker.connect().ask(ProduceRequest(acks=1, timeout_ms=1, topic_data=by_id), 13)
    errors = [p.error_code for topic in response.responses for p in topic.partition_responses]
    assert errors == [
        0,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
    ]


@pytest.mark.parametrize("version", [7, 8, 13])
async def test_the_records_to_blame_are_named_to_those_who_can_read_it(
    make_broker: MakeBroker, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    broker = make_broker()
    refused = Appended(
        error=ErrorCode.INVALID_RECORD,
        message="no key",
        record_errors=(RecordError(3, "it has no key"), RecordError(7, "nor has it")),
    )
    monkeypatch.setattr(broker.partition, "append_as_leader", lambda *_, **__: refused)
    topic = TopicProduceData(
        name=TOPIC,
        topic_id=TOPIC_ID,
        partition_data=[PartitionProduceData(index=0, records=batch(b"v"))],
    )
    request = ProduceRequest(acks=1, timeout_ms=1, topic_data=[topic])
    (answered,) = broker.connect().ask(request, version).responses[0].partition_responses
    assert answered.error_code == ErrorCode.INVALID_RECORD
    named = [(each.batch_index, each.batch_index_error_message) for each in answered.record_errors]
    assert named == ([(3, "it has no key"), (7, "nor has it")] if version >= 8 else [])


@pytest.mark.parametrize(
    ("acks", "transactional_id", "error"),
    [
        (2, None, ErrorCode.INVALID_REQUIRED_ACKS),
        (-2, None, ErrorCode.INVALID_REQUIRED_ACKS),
        (2, "t", ErrorCode.INVALID_REQUIRED_ACKS),
    ],
)
async def test_a_produce_that_is_wrong_as_a_whole_appends_nothing(
    make_broker: MakeBroker, acks: int, transactional_id: str | None, error: ErrorCode
) -> None:
    broker = make_broker()
    data = [PartitionProduceData(index=0, records=batch(b"v"))]
    topic = TopicProduceData(name=TOPIC, partition_data=data)
    request = ProduceRequest(
        transactional_id=transactional_id, acks=acks, timeout_ms=1, topic_data=[topic]
    )
    (answered,) = broker.connect().ask(request, 9).responses[0].partition_responses
    assert answered.error_code == error
    assert broker.partition.batches == []


async def test_a_moved_leader_is_named_in_the_refusal(make_broker: MakeBroker) -> None:
    broker = make_broker()
    broker.partition.error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    broker.image.apply(r.PartitionChangeRecord(TOPIC_ID, 0, leader=2), 50)
    data = [PartitionProduceData(index=0, records=batch(b"v"))]
    topic = TopicProduceData(name=TOPIC, partition_data=data)
    request = ProduceRequest(acks=1, timeout_ms=1, topic_data=[topic])
    response = broker.connect().ask(request, 10)
    (answered,) = response.responses[0].partition_responses
    assert answered.current_leader is not None
    assert (answered.current_leader.leader_id, answered.current_leader.leader_epoch) == (2, 4)
    assert [(n.node_id, n.port) for n in response.node_endpoints] == [(2, 9002)]


async def test_repeated_requests_are_answered_like_the_first(make_broker: MakeBroker) -> None:
    """The short way for repeats gives the bytes of the long way, errors included."""
    for version in range(3, 14):
        short, long = make_broker(), make_broker()
        one, per_request = short.connect(), []
        values = [b"a", b"b" * 300, b"", b"c" * 20_000]
        for value in values:
            data = [PartitionProduceData(index=0, records=batch(value))]
            topic = TopicProduceData(name=TOPIC, topic_id=TOPIC_ID, partition_data=data)
            request = ProduceRequest(acks=-1, timeout_ms=1, topic_data=[topic])
            one.send(request, version)
            fresh = long.connect()
            per_request.append(fresh)
            fresh.send(request, version)
        blank = struct.pack(">i", 0)
        whole = bytes(one.transport.sent)
        parts: list[bytes] = []
        while whole:
            size = 4 + struct.unpack_from(">i", whole)[0]
            parts.append(whole[:4] + blank + whole[8:size])
            whole = whole[size:]
        long_way = [
            bytes(c.transport.sent[:4]) + blank + bytes(c.transport.sent[8:]) for c in per_request
        ]
        assert parts == long_way, version
        assert short.partition.batches == long.partition.batches
        short.partition.error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        one.responses()
        failed = one.ask(request, version).responses[0].partition_responses[0]
        assert failed.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_bytes_behind_a_request_are_ignored_as_kafka_does(make_broker: MakeBroker) -> None:
    """librdkafka 2.16 sends Metadata v13 for all topics with three stray bytes."""
    client = make_broker().connect()
    client.asked[3] = (ApiKey.METADATA, 13)
    client.feed(bytes.fromhex("000000190003000d00000003000772646b61666b610000000000010000"))
    (response,) = client.responses()
    assert [topic.name for topic in response.topics] == [TOPIC]


async def test_answers_about_topics_that_are_not_there_are_not_kept(
    make_broker: MakeBroker,
) -> None:
    broker = make_broker()
    client, long = broker.connect(), "x" * 32_000
    for topic, version, error in (
        (MetadataRequestTopic(name=long), 9, ErrorCode.INVALID_TOPIC_EXCEPTION),
        (MetadataRequestTopic(topic_id=TOPIC_ID, name=long), 12, ErrorCode.NONE),
        (MetadataRequestTopic(name=TOPIC), 9, ErrorCode.NONE),
    ):
        assert client.ask(MetadataRequest(topics=[topic]), version).topics[0].error_code == error
    metadata = getattr(broker.apis[ApiKey.METADATA].handle, "__self__", None)
    assert isinstance(metadata, Metadata)
    assert len(metadata._kept) == 2
    assert long not in repr(metadata._kept)


async def test_what_takes_much_memory_is_not_remembered_as_a_repeat(
    make_broker: MakeBroker,
) -> None:
    client = make_broker().connect()
    for name in ("x" * 32_000, TOPIC):
        topic = TopicProduceData(
            name=name, partition_data=[PartitionProduceData(index=0, records=batch(b"v"))]
        )
        client.ask(ProduceRequest(acks=1, timeout_ms=1, topic_data=[topic]), 9)
    patterns = client.connection._repeats
    assert isinstance(patterns, Patterns)
    assert [pattern.topic.name for pattern in patterns._known.values()] == [TOPIC]


async def test_a_repeat_that_is_not_exactly_one_is_decoded_in_full(
    make_broker: MakeBroker,
) -> None:
    broker = make_broker()
    client = broker.connect()
    data = [PartitionProduceData(index=0, records=batch(b"v"))]
    topic = TopicProduceData(name=TOPIC, partition_data=data)
    request = ProduceRequest(acks=1, timeout_ms=1, topic_data=[topic])
    for _ in range(2):
        assert client.ask(request, 9).responses[0].partition_responses[0].error_code == 0
    frame = bytearray(client.frame(request, 9))
    frame += b"\0"
    struct.pack_into(">i", frame, 0, len(frame) - 4)
    client.feed(bytes(frame))
    (answered,) = client.responses()
    assert answered.responses[0].partition_responses[0].base_offset == 2
    broken = bytearray(client.frame(request, 9))
    broken[len(broken) - len(data[0].records or b"") - 4] = 0x7F
    client.feed(bytes(broken))
    assert client.transport.is_closed
    assert len(broker.partition.batches) == 3


# Offsets.


def offsets(timestamp: int, *indexes: int) -> ListOffsetsRequest:
    asked = [ListOffsetsPartition(partition_index=i, timestamp=timestamp) for i in indexes]
    return ListOffsetsRequest(topics=[ListOffsetsTopic(name=TOPIC, partitions=asked)])


@pytest.mark.parametrize("version", range(1, 12))
async def test_list_offsets_in_every_version(make_broker: MakeBroker, version: int) -> None:
    broker = make_broker()
    broker.partition.append_as_leader(memoryview(batch(b"v")), acks=1, wall_ms=0)
    broker.partitions.write_staged()
    client = broker.connect()
    latest = client.ask(offsets(-1, 0), version).topics[0].partitions[0]
    earliest = client.ask(offsets(-2, 0), version).topics[0].partitions[0]
    assert (latest.offset, earliest.offset) == (1, 0)
    for timestamp, first_version in ((-3, 7), (-4, 8), (-5, 9), (-6, 11), (-7, 99)):
        found = client.ask(offsets(timestamp, 0), version).topics[0].partitions[0]
        is_spoken = version >= first_version
        assert found.error_code == (0 if is_spoken else ErrorCode.UNSUPPORTED_VERSION)


async def test_a_partition_asked_for_twice_is_an_error_for_it_alone(
    make_broker: MakeBroker,
) -> None:
    client = make_broker(FakePartition(0), FakePartition(1)).connect()
    found = client.ask(offsets(-1, 0, 1, 0, 7), 6).topics[0].partitions
    assert [each.error_code for each in found] == [
        ErrorCode.INVALID_REQUEST,
        0,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]


async def test_a_search_by_time_waits_off_the_loop(
    make_broker: MakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = make_broker()
    gate = asyncio.Event()

    async def search() -> OffsetAnswer:
        await gate.wait()
        return OffsetAnswer(offset=42, timestamp_ms=99, leader_epoch=1)

    monkeypatch.setattr(
        broker.partition, "list_offset", lambda *_, **__: OffsetAnswer(later=search)
    )
    client = broker.connect()
    client.send(offsets(1000, 0), 6)
    await settle()
    assert client.responses() == []
    gate.set()
    await settle()
    (found,) = client.responses()[0].topics[0].partitions
    assert (found.offset, found.timestamp, found.leader_epoch) == (42, 99, 1)


@pytest.mark.parametrize("version", [2, 3, 4])
async def test_offset_for_leader_epoch(make_broker: MakeBroker, version: int) -> None:
    asked = [OffsetForLeaderPartition(partition=index, leader_epoch=EPOCH) for index in (0, 5)]
    request = OffsetForLeaderEpochRequest(
        replica_id=-1, topics=[OffsetForLeaderTopic(topic=TOPIC, partitions=asked)]
    )
    good, bad = make_broker().connect().ask(request, version).topics[0].partitions
    assert (good.error_code, good.leader_epoch, good.end_offset) == (0, EPOCH, 0)
    assert (bad.error_code, bad.end_offset) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)


# Producer ids.


@pytest.mark.parametrize("version", range(6))
async def test_producer_ids_come_from_blocks_of_the_controller(
    make_broker: MakeBroker, version: int
) -> None:
    broker = make_broker()
    client = broker.connect()
    request = InitProducerIdRequest(transaction_timeout_ms=1)
    given: list[int] = []
    for _ in range(5):
        client.send(request, version)
        await settle()
        (response,) = client.responses()
        assert (response.error_code, response.producer_epoch) == (0, 0)
        given.append(response.producer_id)
    assert given == [5000, 5001, 7000, 7001, 9000]


async def test_without_a_controller_a_producer_is_told_to_try_again(
    make_broker: MakeBroker,
) -> None:
    broker = make_broker()
    broker.controller.block = ApiError(ErrorCode.REQUEST_TIMED_OUT)
    client = broker.connect()
    client.send(InitProducerIdRequest(transaction_timeout_ms=1), 4)
    await settle()
    (response,) = client.responses()
    assert ErrorCode(response.error_code).retriable
    assert response.producer_id == -1


async def test_a_transactional_id_is_for_its_coordinator(make_broker: MakeBroker) -> None:
    request = InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=1)
    response = make_broker().connect().ask(request, 4)
    assert response.error_code == ErrorCode.NOT_COORDINATOR
    assert (response.producer_id, response.producer_epoch) == (-1, -1)


# Descriptions.


@pytest.mark.parametrize("version", range(3))
async def test_describe_cluster(make_broker: MakeBroker, version: int) -> None:
    client = make_broker().connect()
    response = client.ask(DescribeClusterRequest(), version)
    assert (response.cluster_id, response.controller_id) == ("c1uster", 1)
    assert [b.broker_id for b in response.brokers] == [1, 2]
    if version == 2:
        full = client.ask(DescribeClusterRequest(include_fenced_brokers=True), version)
        assert [(b.broker_id, b.is_fenced) for b in full.brokers][-1] == (3, True)
    if version >= 1:
        controllers = client.ask(DescribeClusterRequest(endpoint_type=2), version)
        assert controllers.error_code == ErrorCode.MISMATCHED_ENDPOINT_TYPE


async def test_describe_topic_partitions_pages_through_everything(
    make_broker: MakeBroker,
) -> None:
    broker = make_broker(*(FakePartition(index) for index in range(5)))
    other = b"o" * 16
    broker.image.apply(r.TopicRecord("airlines", other), 60)
    for index in range(3):
        broker.image.apply(r.PartitionRecord(other, index, (2,), (2,), 2, elr=(3,)), 61 + index)
    client = broker.connect()
    seen: list[tuple[str | None, int]] = []
    cursor: Cursor | None = None
    for _ in range(10):
        request = DescribeTopicPartitionsRequest(
            topics=[], response_partition_limit=3, cursor=cursor
        )
        page = client.ask(request, 0)
        found = [(t.name, p.partition_index) for t in page.topics for p in t.partitions]
        assert len(found) <= 3
        seen += found
        cursor = page.next_cursor
        if cursor is None:
            break
    assert seen == [("airlines", i) for i in range(3)] + [(TOPIC, i) for i in range(5)]


async def test_describe_topic_partitions_of_named_topics(make_broker: MakeBroker) -> None:
    request = DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name="zzz"), TopicRequest(name=TOPIC)]
    )
    known, unknown = make_broker().connect().ask(request, 0).topics
    assert (known.name, known.topic_id) == (TOPIC, TOPIC_ID)
    assert known.partitions[0].offline_replicas == [3]
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def describe(
    broker: FakeBroker, resource_type: int, name: str, *keys: str, version: int = 4
) -> DescribeConfigsResponse:
    resource = DescribeConfigsResource(
        resource_type=resource_type, resource_name=name, configuration_keys=list(keys) or None
    )
    request = DescribeConfigsRequest(
        resources=[resource], include_synonyms=True, include_documentation=True
    )
    response = broker.connect().ask(request, version)
    assert isinstance(response, DescribeConfigsResponse)
    return response


async def test_describe_configs_tells_every_place_a_topics_setting_comes_from(
    make_broker: MakeBroker,
) -> None:
    broker = make_broker(log_retention_hours="2")
    key = "retention.ms"

    def retention() -> tuple[str | None, list[tuple[int, str, str | None]]]:
        (result,) = describe(broker, ResourceType.TOPIC, TOPIC, key).results
        (config,) = result.configs
        assert config.documentation
        assert config.config_type == ConfigType.LONG
        return config.value, [(s.source, s.name, s.value) for s in config.synonyms]

    week, hours = str(7 * 86_400_000), str(2 * 3_600_000)
    in_file = (ConfigSource.STATIC_BROKER_CONFIG, "log.retention.ms", hours)
    built_in = (ConfigSource.DEFAULT_CONFIG, "log.retention.ms", week)
    assert retention() == (hours, [in_file, built_in])
    broker.image.apply(r.ConfigRecord(4, "", "log.retention.ms", "77"), 70)
    for_all = (ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG, "log.retention.ms", "77")
    assert retention() == ("77", [for_all, in_file, built_in])
    broker.image.apply(r.ConfigRecord(2, TOPIC, key, "5"), 71)
    own = (ConfigSource.TOPIC_CONFIG, key, "5")
    assert retention() == ("5", [own, for_all, in_file, built_in])


@pytest.mark.parametrize("version", range(1, 5))
async def test_describe_configs_of_a_broker(make_broker: MakeBroker, version: int) -> None:
    broker = make_broker(num_partitions="6")
    (result,) = describe(broker, ResourceType.BROKER, "1", version=version).results
    configs = {config.name: config for config in result.configs}
    assert (configs["num.partitions"].value, configs["num.partitions"].config_source) == (
        "6",
        ConfigSource.STATIC_BROKER_CONFIG,
    )
    assert configs["log.retention.hours"].config_source == ConfigSource.DEFAULT_CONFIG
    assert configs["node.id"].read_only


async def test_what_has_no_configuration_is_an_error_for_it_alone(
    make_broker: MakeBroker,
) -> None:
    broker = make_broker()
    for resource_type, name, error in (
        (ResourceType.TOPIC, "nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (ResourceType.BROKER, "2", ErrorCode.INVALID_REQUEST),
        (64, "1", ErrorCode.INVALID_REQUEST),
    ):
        (result,) = describe(broker, resource_type, name).results
        assert result.error_code == error
        assert result.configs == []


# Forwarded requests.


async def test_an_admin_request_goes_to_the_controller_and_its_answer_comes_back(
    make_broker: MakeBroker,
) -> None:
    broker = make_broker()
    done = CreateTopicsResponse(topics=[CreatableTopicResult(name="t", num_partitions=3)])
    for version in range(2, 8):
        broker.controller.answer = encode_bytes(done, version)
        client = broker.connect()
        client.send(CreateTopicsRequest(topics=[CreatableTopic(name="t")]), version)
        await settle()
        (response,) = client.responses()
        assert response.topics[0].name == "t"
        key, sent_version, body = broker.controller.requests[-1]
        assert (key, sent_version) == (ApiKey.CREATE_TOPICS, version)
        assert decode(CreateTopicsRequest, version, body).topics[0].name == "t"


async def test_without_a_controller_each_resource_gets_the_error(make_broker: MakeBroker) -> None:
    broker = make_broker()
    broker.controller.answer = ApiError(ErrorCode.REQUEST_TIMED_OUT, "no controller")
    client = broker.connect()
    alter = IncrementalAlterConfigsRequest(
        resources=[
            AlterConfigsResource(
                resource_type=2,
                resource_name=TOPIC,
                configs=[AlterableConfig(name="retention.ms", value="1")],
            )
        ]
    )
    wider = [CreatePartitionsTopic(name="t", count=2)]
    requests: list[tuple[object, int, str]] = [
        (CreateTopicsRequest(topics=[CreatableTopic(name="t")]), 7, "topics"),
        (DeleteTopicsRequest(topic_names=["t"], timeout_ms=1), 5, "responses"),
        (DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=1), 6, "responses"),
        (CreatePartitionsRequest(topics=wider, timeout_ms=1), 3, "results"),
        (alter, 1, "responses"),
    ]
    for request, version, field in requests:
        client.send(request, version)
        await settle()
        (response,) = client.responses()
        (result,) = getattr(response, field)
        assert result.error_code == ErrorCode.REQUEST_TIMED_OUT
        assert result.error_message == "no controller"


async def test_a_forwarded_request_names_its_client_and_the_way_it_came(
    make_broker: MakeBroker,
) -> None:
    broker = make_broker()
    client = broker.connect()
    request = CreateTopicsRequest(topics=[CreatableTopic(name="t")])
    client.send(request, 7)
    await settle()
    listener, host = client.connection.listener.name, client.connection.host
    assert broker.controller.origin == Origin(ANONYMOUS, host, listener, "test")
    client.responses()
    client.connection.session.principal = user("alice")
    client.send(request, 7)
    await settle()
    assert broker.controller.origin == Origin(user("alice"), host, listener, "test")
    client.responses()


async def test_a_client_that_left_leaves_no_task_behind(make_broker: MakeBroker) -> None:
    broker = make_broker()
    broker.controller.gate.clear()
    client = broker.connect()
    client.send(CreateTopicsRequest(topics=[CreatableTopic(name="t")]), 7)
    client.send(InitProducerIdRequest(transaction_timeout_ms=1), 4)
    await settle()
    client.connection.connection_lost(None)
    await settle()
    tasks = [task.get_name() for task in asyncio.all_tasks() if "forwarded" in task.get_name()]
    assert tasks == []
    broker.controller.gate.set()
    await settle()


async def test_topics_are_not_deleted_where_that_is_off(make_broker: MakeBroker) -> None:
    broker = make_broker(delete_topic_enable="false")
    response = broker.connect().ask(DeleteTopicsRequest(topic_names=["t"], timeout_ms=1), 5)
    assert response.responses[0].error_code == ErrorCode.TOPIC_DELETION_DISABLED
    assert broker.controller.requests == []


@pytest.mark.parametrize(
    ("key", "value"),
    [("no.such.key", "1"), ("node.id", "5"), ("log.retention.ms", "soon")],
)
async def test_a_brokers_setting_is_checked_against_its_table_before_it_is_forwarded(
    make_broker: MakeBroker, key: str, value: str
) -> None:
    broker = make_broker()
    resource = AlterConfigsResource(
        resource_type=4, resource_name="1", configs=[AlterableConfig(name=key, value=value)]
    )
    request = IncrementalAlterConfigsRequest(resources=[resource])
    (result,) = broker.connect().ask(request, 1).responses
    assert result.error_code == ErrorCode.INVALID_CONFIG
    assert key in result.error_message
    assert broker.controller.requests == []
