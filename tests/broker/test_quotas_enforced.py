"""What clients over their quota meet: answers at once, then a connection that is not read."""

import dataclasses
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from minikafka.broker.metrics.quotas import QuotaMetrics
from minikafka.controller.metadata.mutations import REFUSED_SINCE
from minikafka.protocol.codec import encode_bytes, request_class, response_class
from minikafka.protocol.control import records as r
from minikafka.protocol.control.image import Delta
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.api_versions import ApiVersionsRequest
from minikafka.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from minikafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from minikafka.protocol.messages.metadata import MetadataRequest
from minikafka.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from minikafka.protocol.messages.write_txn_markers import WriteTxnMarkersRequest
from minikafka.protocol.schema import shape_of
from minikafka.security.permissions.refusing import nothing
from minikafka.security.principal import user
from minikafka.security.quotas import FETCH, MUTATION, PRODUCE, REQUEST

from ..support.scrape import Scrape
from .conftest import MakeBroker
from .edge_support import (
    TOPIC,
    TOPIC_ID,
    Client,
    FakeBroker,
    FakePartition,
    batch,
    connections_of,
    settle,
)

KIB = 1 << 10
VERSION = 9
MINE = {"client-id": "test"}
"""The client id with which `Client` sends."""


class Stage:
    """A broker whose clock and timers the test moves."""

    def __init__(self, broker: FakeBroker) -> None:
        self.broker = broker
        self.now_us = 1_000_000_000
        self.step_us = 0
        """The time that passes whenever the clock is read, as if the broker had worked."""
        runtime: Any = broker.runtime
        runtime.monotonic_us = self._read
        runtime.monotonic_ms = lambda: self.now_us // 1000

    def _read(self) -> int:
        self.now_us += self.step_us
        return self.now_us

    def set(self, key: str, value: float | None, entity: Mapping[str, str | None]) -> None:
        image, delta = self.broker.image, Delta()
        image.apply(r.ClientQuotaRecord(dict(entity), key, value), image.offset + 1, delta)
        self.broker.edge.quotas.on_metadata(delta, image)

    async def pass_ms(self, ms: int) -> None:
        self.now_us += ms * 1000
        self.broker.deadlines._turn()
        await settle()


@pytest.fixture
async def stage(make_broker: MakeBroker) -> Stage:
    return Stage(make_broker())


def produce(size: int, *, acks: int = 1, value: bytes = b"x") -> ProduceRequest:
    data = PartitionProduceData(index=0, records=batch(value * size))
    topic = TopicProduceData(name=TOPIC, partition_data=[data])
    return ProduceRequest(acks=acks, timeout_ms=30_000, topic_data=[topic])


def fetch(
    offset: int = 0, *, max_wait_ms: int = 0, session_id: int = 0, epoch: int = -1
) -> FetchRequest:
    asked = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        session_id=session_id,
        session_epoch=epoch,
        topics=[FetchTopic(topic=TOPIC, partitions=[asked])],
    )


def fill(partition: FakePartition, count: int, size: int = KIB) -> None:
    for _ in range(count):
        partition.append_as_leader(memoryview(batch(b"x" * size)), acks=1, wall_ms=0)
    partition.write()


def is_mute(client: Client) -> bool:
    charging = client.connection.charging
    return charging is not None and charging.is_muted and client.transport.is_paused


def taken(broker: FakeBroker) -> int:
    return len(broker.partition.batches)


def records(response: Any) -> bytes:
    return bytes(response.responses[0].partitions[0].records or b"")


async def test_without_quotas_a_connection_keeps_nothing(stage: Stage) -> None:
    client = stage.broker.connect()
    assert client.ask(produce(10), VERSION).throttle_time_ms == 0
    assert client.connection.charging is None


async def test_a_produce_over_its_quota_is_answered_at_once_and_then_nothing_is_read(
    stage: Stage,
) -> None:
    stage.set(PRODUCE.key, KIB, MINE)
    client = stage.broker.connect()
    answer = client.ask(produce(3 * KIB), VERSION)
    assert answer.responses[0].partition_responses[0].base_offset == 0
    throttle_ms = answer.throttle_time_ms
    assert 2_000 <= throttle_ms <= 2_200
    assert is_mute(client)
    await stage.pass_ms(throttle_ms - 20)
    assert is_mute(client)
    await stage.pass_ms(40)
    assert not is_mute(client)
    assert not client.transport.is_paused


async def test_requests_that_came_with_it_wait_for_the_end_of_the_mute(stage: Stage) -> None:
    """Those of the same read event are in memory already."""
    stage.set(PRODUCE.key, KIB, MINE)
    client = stage.broker.connect()
    client.feed(b"".join(client.frame(produce(2 * KIB), VERSION) for _ in range(3)))
    assert taken(stage.broker) == 1
    assert len(client.responses()) == 1
    await stage.pass_ms(1_500)
    assert taken(stage.broker) == 2
    await stage.pass_ms(2_500)
    assert taken(stage.broker) == 3
    assert all(answer.throttle_time_ms for answer in client.responses())


async def test_a_repeated_produce_is_charged_as_the_first(stage: Stage) -> None:
    """It is recognised without being decoded."""
    client = stage.broker.connect()
    client.ask(produce(KIB), VERSION)
    stage.set(PRODUCE.key, KIB, MINE)
    assert client.connection._repeats is not None
    answer = client.ask(produce(3 * KIB, value=b"y"), VERSION)
    assert 2_000 <= answer.throttle_time_ms <= 2_200
    assert is_mute(client)


async def test_a_produce_that_nobody_answers_mutes_too(stage: Stage) -> None:
    stage.set(PRODUCE.key, KIB, MINE)
    client = stage.broker.connect()
    client.send(produce(3 * KIB, acks=0), VERSION)
    assert client.responses() == []
    assert is_mute(client)


async def test_an_answer_that_comes_late_tells_only_what_is_left(stage: Stage) -> None:
    stage.broker.partition.commits = False
    stage.set(PRODUCE.key, KIB, MINE)
    client = stage.broker.connect()
    client.send(produce(3 * KIB, acks=-1), VERSION)
    await stage.pass_ms(1_500)
    assert client.responses() == []
    stage.broker.partition.commit(1)
    await settle()
    (answer,) = client.responses()
    assert 500 <= answer.throttle_time_ms <= 700


async def test_s_43_a_producer_at_ten_times_its_quota_gets_its_quota_and_harms_nobody(
    stage: Stage,
) -> None:
    rate = 64 * KIB
    stage.set(PRODUCE.key, rate, {"user": "ANONYMOUS", "client-id": "test"})
    greedy, other = stage.broker.connect(), stage.broker.connect()
    frame = greedy.frame(produce(64_000), VERSION)
    for _ in range(60_000 // 100):
        if not greedy.transport.is_paused:
            greedy.feed(frame)
        assert other.ask(MetadataRequest(), 7).throttle_time_ms == 0
        await stage.pass_ms(100)
    assert 0.95 <= taken(stage.broker) * len(frame) / (60 * rate) <= 1.1


async def test_clients_of_one_entity_share_its_bucket(stage: Stage) -> None:
    stage.set(PRODUCE.key, KIB, {"user": None})
    first, second = stage.broker.connect(), stage.broker.connect()
    first.send(produce(3 * KIB), VERSION)
    answer = second.ask(produce(10), VERSION)
    assert answer.throttle_time_ms > 2_000
    assert is_mute(second)


async def test_a_quota_that_goes_frees_the_next_request(stage: Stage) -> None:
    stage.set(PRODUCE.key, KIB, MINE)
    client = stage.broker.connect()
    client.send(produce(2 * KIB), VERSION)
    stage.set(PRODUCE.key, None, MINE)
    await stage.pass_ms(2_000)
    client.responses()
    assert client.ask(produce(100 * KIB), VERSION).throttle_time_ms == 0


async def test_a_fetch_reads_no_more_than_the_bucket_holds_and_is_muted_for_it(
    stage: Stage,
) -> None:
    stage.set(FETCH.key, KIB, MINE)
    fill(stage.broker.partition, 40)
    client = stage.broker.connect()
    answer = client.ask(fetch(), 11)
    assert 8 * KIB <= len(records(answer)) <= 10 * KIB
    assert answer.throttle_time_ms >= 7_000
    assert is_mute(client)


async def test_s_44_a_fetch_over_its_quota_is_empty_keeps_its_session_and_loses_nothing(
    stage: Stage,
) -> None:
    stage.set(FETCH.key, KIB, {"user": "ANONYMOUS"})
    fill(stage.broker.partition, 5, 2 * KIB)
    mine, greedy = stage.broker.connect(), stage.broker.connect()
    session_id = mine.ask(fetch(5, epoch=0), 11).session_id
    assert records(greedy.ask(fetch(), 11))
    again = dataclasses.replace(fetch(), session_epoch=1, session_id=session_id)
    empty = mine.ask(again, 11)
    assert (empty.error_code, empty.session_id) == (0, session_id)
    assert not any(each.records for topic in empty.responses for each in topic.partitions)
    assert empty.throttle_time_ms > 0
    assert is_mute(mine)
    await stage.pass_ms(empty.throttle_time_ms + 10)
    unchanged = dataclasses.replace(again, session_epoch=2, topics=[])
    assert records(mine.ask(unchanged, 11)).startswith(stage.broker.partition.batches[0][2])


async def test_a_fetch_that_waited_is_empty_if_another_has_used_the_quota(stage: Stage) -> None:
    stage.set(FETCH.key, KIB, {"user": "ANONYMOUS"})
    first, second = stage.broker.connect(), stage.broker.connect()
    for client in (first, second):
        client.send(fetch(max_wait_ms=60_000), 11)
        assert client.responses() == []
    fill(stage.broker.partition, 1, 5 * KIB)
    await settle()
    answers = [client.responses()[0] for client in (first, second)]
    assert [bool(records(answer)) for answer in answers] == [True, False]
    assert all(answer.throttle_time_ms for answer in answers)


async def test_followers_are_exempt(stage: Stage) -> None:
    stage.set(FETCH.key, 1, {"user": None})
    stage.set(REQUEST.key, 0.01, {"user": None})
    fill(stage.broker.partition, 40)
    follower = stage.broker.connect()
    stage.step_us = 50_000
    state = ReplicaState(replica_id=2, replica_epoch=8)
    topic = FetchTopic(topic_id=TOPIC_ID, partitions=fetch().topics[0].partitions)
    asked = dataclasses.replace(fetch(), replica_state=state, topics=[topic])
    for _ in range(3):
        answer = follower.ask(asked, 16)
        assert records(answer)
        assert answer.throttle_time_ms == 0
        assert not is_mute(follower)


async def test_markers_of_brokers_cost_no_time_of_a_client(stage: Stage) -> None:
    stage.set(REQUEST.key, 0.01, {"user": None})
    peer = stage.broker.connect()
    stage.step_us = 50_000
    peer.ask(WriteTxnMarkersRequest(markers=[]), 1)
    assert not is_mute(peer)
    peer.ask(MetadataRequest(), 7)
    assert is_mute(peer)


async def test_what_came_with_a_marker_costs_its_time(stage: Stage) -> None:
    """Else a request that costs nothing would make free what a client sends beside it."""
    stage.set(REQUEST.key, 1, {"user": None})
    client = stage.broker.connect()
    stage.step_us = 50_000
    marker = client.frame(WriteTxnMarkersRequest(markers=[]), 1)
    client.feed(marker + client.frame(MetadataRequest(), 7))
    assert is_mute(client)


async def test_request_time_over_its_quota_mutes_and_is_told(stage: Stage) -> None:
    stage.set(REQUEST.key, 1, MINE)
    client = stage.broker.connect()
    stage.step_us = 15_000
    answer = client.ask(MetadataRequest(), 7)
    assert 400 <= answer.throttle_time_ms <= 1_000
    assert is_mute(client)
    await stage.pass_ms(1_000)
    assert not is_mute(client)


async def test_request_time_throttles_for_a_second_at_most(stage: Stage) -> None:
    stage.set(REQUEST.key, 0.01, MINE)
    client = stage.broker.connect()
    stage.step_us = 15_000
    assert client.ask(ApiVersionsRequest(), 3).throttle_time_ms <= 1_000
    stage.step_us = 0
    await stage.pass_ms(1_000)
    assert not is_mute(client)


async def test_waiting_for_the_controller_costs_no_time(stage: Stage) -> None:
    """A task builds the answer, outside of any event of the connection."""
    stage.set(REQUEST.key, 1, MINE)
    controller, client = stage.broker.controller, stage.broker.connect()
    controller.gate.clear()
    client.send(CreateTopicsRequest(topics=[CreatableTopic(name="t")]), 7)
    await stage.pass_ms(30_000)
    controller.gate.set()
    await settle()
    (answer,) = client.responses()
    assert answer.throttle_time_ms == 0
    assert not is_mute(client)


@pytest.mark.parametrize("key", REFUSED_SINCE)
def test_the_throttle_time_comes_first_where_the_broker_looks_for_it(key: int) -> None:
    versions = shape_of(request_class(key)).versions
    for version in range(versions.first, versions.last + 1):
        answer = nothing(response_class(key))
        answer.throttle_time_ms = 77
        assert encode_bytes(answer, version)[:4] == b"\0\0\0\x4d"


async def test_the_controller_has_a_client_muted_that_changes_too_much(stage: Stage) -> None:
    """It has the buckets of KIP-599; a broker has no quota of its own then."""
    controller, client = stage.broker.controller, stage.broker.connect()
    over = CreatableTopicResult(name="t", error_code=ErrorCode.THROTTLING_QUOTA_EXCEEDED)
    told = CreateTopicsResponse(throttle_time_ms=5_000, topics=[over])
    controller.answer = encode_bytes(told, 7)
    client.send(CreateTopicsRequest(topics=[CreatableTopic(name="t")]), 7)
    await settle()
    assert client.responses() == [told]
    assert controller.origin is not None
    assert controller.origin.client_id == "test"
    assert is_mute(client)
    assert stage.broker.edge.quotas.throttled[MUTATION.key] == 1
    await stage.pass_ms(5_000)
    assert not is_mute(client)
    controller.answer = encode_bytes(CreateTopicsResponse(topics=[]), 7)
    client.send(CreateTopicsRequest(topics=[CreatableTopic(name="t")]), 7)
    await settle()
    assert client.responses()[0].throttle_time_ms == 0
    assert not is_mute(client)


async def test_who_has_not_logged_in_uses_up_no_budget(stage: Stage) -> None:
    """Else strangers could hold up the logins of everybody."""
    stage.set(REQUEST.key, 1, {"user": None})
    client = stage.broker.connect()
    guard: Any = SimpleNamespace(passes=lambda frame: True)
    client.connection.guard = guard
    stage.step_us = 50_000
    assert client.ask(ApiVersionsRequest(), 3).throttle_time_ms == 0
    assert not is_mute(client)
    client.connection.session.principal = user("alice")
    assert client.ask(ApiVersionsRequest(), 3).throttle_time_ms > 0
    assert is_mute(client)


async def test_a_mute_that_lasts_longer_than_a_client_may_idle_ends_the_connection(
    stage: Stage,
) -> None:
    """Nothing says whether the client is still there, because it is not read."""
    stage.set(PRODUCE.key, KIB, MINE)
    client = stage.broker.connect()
    client.feed(b"".join(client.frame(produce(2048 * KIB), VERSION) for _ in range(2)))
    (answer,) = client.responses()
    assert answer.throttle_time_ms > 2_000_000
    for _ in range(2):
        await stage.pass_ms(600_000)
    assert client.transport.is_closed
    assert taken(stage.broker) == 1


async def test_a_version_without_a_throttle_time_is_answered_as_always(stage: Stage) -> None:
    stage.set(REQUEST.key, 1, MINE)
    client = stage.broker.connect()
    stage.step_us = 15_000
    client.send(MetadataRequest(topics=[]), 1)
    assert len(client.responses()) == 1
    assert is_mute(client)


async def test_a_client_that_leaves_while_it_is_muted_leaves_nothing(stage: Stage) -> None:
    stage.set(PRODUCE.key, KIB, MINE)
    client = stage.broker.connect()
    client.send(produce(3 * KIB), VERSION)
    client.transport.abort()
    await settle()
    await stage.pass_ms(10_000)
    assert connections_of(stage.broker.edge) == []


@pytest.mark.moves("kafka_server_fetch_throttle_time")
@pytest.mark.moves("kafka_server_produce_throttle_time")
@pytest.mark.moves("kafka_server_request_throttle_time")
@pytest.mark.moves("minikafka_quota_throttles_total")
async def test_who_is_over_a_quota_is_shown(stage: Stage) -> None:
    edge = stage.broker.edge
    collectors = [QuotaMetrics(edge.quotas, edge.runtime.monotonic_ms)]
    stage.set(PRODUCE.key, KIB, MINE)
    stage.set(FETCH.key, KIB, {"user": "ANONYMOUS"})
    stage.set(REQUEST.key, 1, {"user": "ANONYMOUS", "client-id": "test"})
    name = "kafka_server_{}_throttle_time"
    kinds = ("produce", "fetch", "request")
    assert [Scrape(collectors).every(name.format(kind)) for kind in kinds] == [[], [], []]
    stage.broker.connect().send(produce(3 * KIB), VERSION)
    stage.broker.connect().send(fetch(), 11)
    stage.step_us = 7_000
    stage.broker.connect().send(MetadataRequest(), 7)
    found = Scrape(collectors)
    assert found(name.format("produce"), user="", client_id="test") > 0
    assert found(name.format("fetch"), user="ANONYMOUS", client_id="") > 0
    assert found(name.format("request"), user="ANONYMOUS", client_id="test") > 0
    for kind in (PRODUCE, FETCH):
        assert found("minikafka_quota_throttles_total", quota=kind.key) == 1
    stage.step_us = 0
    await stage.pass_ms(200)
    assert Scrape(collectors)(name.format("produce"), user="", client_id="test") > 0
    await stage.pass_ms(60_000)
    assert [Scrape(collectors).every(name.format(kind)) for kind in kinds] == [[], [], []]
