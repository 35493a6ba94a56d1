"""Metrics of requests: counts, errors, sizes and times, and those that wait, each by its cause."""

import math
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from minikafka.broker.net import timing
from minikafka.protocol.messages.delete_groups import DeleteGroupsRequest
from minikafka.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ReplicaState,
)
from minikafka.protocol.messages.metadata import MetadataRequest
from minikafka.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)

from .edge_support import Client, settle
from .group_support import join_request
from .metrics_support import Told
from .node_support import ME, ORDERS, WALL_MS, B, C, batch, state

REQUESTS = "kafka_network_requestmetrics_"
LED = state(ME, isr=(ME, B, C))


@pytest.fixture
async def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Told]:
    """Every event is timed, but for those that come while another one's requests wait."""
    monkeypatch.setattr(timing, "SAMPLE_MS", 0)
    made = await Told(tmp_path).begin()
    yield made
    await made.end()


def produce(*values: bytes, acks: int = 1, index: int = 0) -> ProduceRequest:
    data = PartitionProduceData(index=index, records=memoryview(batch(*values)))
    topics = [TopicProduceData(name="orders", partition_data=[data])]
    return ProduceRequest(acks=acks, timeout_ms=60_000, topic_data=topics)


def fetch(told: Told, offset: int, follower: int = -1, wait_ms: int = 0) -> FetchRequest:
    asked = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    topics = [FetchTopic(topic_id=ORDERS, partitions=[asked])]
    request = FetchRequest(max_wait_ms=wait_ms, min_bytes=1, topics=topics)
    if follower > 0:
        epoch = told.epoch(follower)
        request.replica_state = ReplicaState(replica_id=follower, replica_epoch=epoch)
    return request


def times(told: Told, phase: str, request: str) -> tuple[float, float]:
    """How many were timed, and their milliseconds in all."""
    found, name = told.scrape(), REQUESTS + phase
    counts, sums = (found.every(name + end, request=request) for end in ("_count", "_sum"))
    return (counts[0], sums[0]) if counts else (0, 0)


def waiting(told: Told) -> dict[str, float]:
    name = "kafka_server_delayedoperationpurgatory_purgatorysize"
    samples = told.scrape().samples
    return {s.labels["delayedOperation"]: s.value for s in samples if s.name == name}


@pytest.mark.moves(
    "kafka_network_requestmetrics_requestbytes",
    "kafka_network_requestmetrics_requests_total",
)
async def test_requests_are_counted_by_version_with_their_bytes(told: Told) -> None:
    client = told.connect()
    sizes = []
    for version in (12, 12, 9):
        frame = client.frame(MetadataRequest(topics=[]), version)
        sizes.append(len(frame) - 4)
        client.feed(frame)
    found = told.scrape()
    assert found(REQUESTS + "requests_total", request="Metadata", version=12) == 2
    assert found(REQUESTS + "requests_total", request="Metadata", version=9) == 1
    assert found(REQUESTS + "requestbytes_count", request="Metadata") == 3
    assert found(REQUESTS + "requestbytes_sum", request="Metadata") == sum(sizes)
    client.send(MetadataRequest(topics=[]), 9)
    after = told.scrape()
    assert after(REQUESTS + "requests_total", request="Metadata", version=12) == 2
    assert after(REQUESTS + "requests_total", request="Metadata", version=9) == 2
    assert after(REQUESTS + "requestbytes_count", request="Metadata") == 4


async def test_produce_requests_that_are_recognised_count_as_well(told: Told) -> None:
    await told.give(LED)
    client = told.connect()
    frames = [client.frame(produce(b"%d" % n), 9) for n in range(5)]
    client.feed(frames[0])
    client.feed(b"".join(frames[1:]))
    assert len(client.responses()) == 5
    found = told.scrape()
    assert found(REQUESTS + "requests_total", request="Produce", version=9) == 5
    assert found(REQUESTS + "requestbytes_sum", request="Produce") == sum(map(len, frames)) - 20
    assert times(told, "totaltimems", "Produce")[0] == 5


async def test_fetches_of_followers_and_consumers_are_told_apart(told: Told) -> None:
    await told.give(LED)
    await told.ask(fetch(told, 0), 17)
    await told.ask(fetch(told, 0, follower=B), 17)
    await told.ask(fetch(told, 0, follower=C), 17)
    found = told.scrape()
    assert found(REQUESTS + "requests_total", request="FetchConsumer") == 1
    assert found(REQUESTS + "requests_total", request="FetchFollower") == 2


@pytest.mark.moves("kafka_network_requestmetrics_errors_total")
async def test_errors_are_counted_by_what_they_say(told: Told) -> None:
    await told.give(LED, state(B))
    errors = REQUESTS + "errors_total"
    assert told.scrape().every(errors) == []
    await told.ask(DeleteGroupsRequest(groups_names=["no", "none"]), 2)
    await told.ask(fetch(told, 99), 17)
    await told.ask(produce(b"a", index=1), 9)
    found = told.scrape()
    assert found(errors, request="DeleteGroups", error="GROUP_ID_NOT_FOUND") == 2
    assert found(errors, request="Fetch", error="OFFSET_OUT_OF_RANGE") == 1
    assert found(errors, request="Produce", error="NOT_LEADER_OR_FOLLOWER") == 1
    assert len(found.every(errors)) == 3
    await told.ask(fetch(told, 99), 17)
    assert told.scrape()(errors, request="Fetch", error="OFFSET_OUT_OF_RANGE") == 2


async def test_what_is_answered_at_once_took_the_time_of_its_event(told: Told) -> None:
    passed = iter(range(0, 1_000_000, 3_000))
    assert told.times is not None
    told.times.now_us = lambda: next(passed)
    client = told.connect()
    client.send(MetadataRequest(topics=[]), 12)
    assert times(told, "totaltimems", "Metadata") == (1, 3)
    assert times(told, "remotetimems", "Metadata") == (0, 0)
    quantile = told.scrape()(REQUESTS + "totaltimems", request="Metadata", quantile="0.99")
    assert 3 <= quantile < 3.4


@pytest.mark.moves(
    "kafka_network_requestmetrics_remotetimems",
    "kafka_network_requestmetrics_totaltimems",
    "kafka_server_delayedoperationpurgatory_purgatorysize",
)
async def test_a_produce_that_waits_for_followers_is_remote_meanwhile(told: Told) -> None:
    await told.give(LED)
    client = told.connect()
    feed(client, produce(b"a", acks=-1), produce(b"b", acks=-1))
    assert times(told, "totaltimems", "Produce") == (0, 0)
    assert waiting(told) == {"Produce": 2, "Fetch": 0, "Other": 0}
    told.clock_us += 40_000
    told.fetched_by(B, C, offset=1)
    await settle()
    assert (
        times(told, "totaltimems", "Produce") == times(told, "remotetimems", "Produce") == (1, 40)
    )
    told.clock_us += 5_000
    told.fetched_by(B, C, offset=2)
    await settle()
    assert len(client.responses()) == 2
    assert times(told, "remotetimems", "Produce") == (2, 85)
    assert waiting(told) == {"Produce": 0, "Fetch": 0, "Other": 0}


async def test_a_fetch_that_waits_for_data_is_remote_until_there_is_some(told: Told) -> None:
    await told.give(state(ME, replicas=(ME,), isr=(ME,)))
    client = told.connect()
    client.send(fetch(told, 0, wait_ms=60_000), 17)
    assert waiting(told) == {"Produce": 0, "Fetch": 1, "Other": 0}
    told.clock_us += 700_000
    told.produce(b"a")
    await settle()
    assert len(client.responses()) == 1
    assert times(told, "remotetimems", "FetchConsumer") == (1, 700)
    assert times(told, "totaltimems", "FetchConsumer") == (1, 700)
    assert waiting(told) == {"Produce": 0, "Fetch": 0, "Other": 0}


async def test_a_member_that_waits_for_the_others_of_its_group_waits(told: Told) -> None:
    await told.stable()
    joining = told.connect()
    joining.send(join_request("g"), 3)
    assert waiting(told) == {"Produce": 0, "Fetch": 0, "Other": 1}


async def test_one_event_may_answer_some_and_leave_others_waiting(told: Told) -> None:
    await told.give(LED)
    client = told.connect()
    mixed = [MetadataRequest(topics=[]), produce(b"a"), produce(b"b", acks=-1)]
    feed(client, *mixed)
    assert times(told, "totaltimems", "Metadata") == (1, 0)
    assert times(told, "totaltimems", "Produce") == (1, 0)
    feed(client, produce(b"c", acks=-1), MetadataRequest(topics=[]))
    told.clock_us += 9_000
    told.fetched_by(B, C, offset=3)
    await settle()
    assert len(client.responses()) == 5
    assert times(told, "totaltimems", "Produce") == (2, 9)
    assert times(told, "remotetimems", "Produce") == (1, 9)
    feed(client, MetadataRequest(topics=[]))
    assert times(told, "totaltimems", "Metadata")[0] == 2


def feed(client: Client, *messages: object) -> None:
    versions = {MetadataRequest: 12, ProduceRequest: 9}
    client.feed(b"".join(client.frame(each, versions[type(each)]) for each in messages))


async def test_requests_before_the_event_and_after_it_are_not_timed(
    told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    await told.give(LED)
    monkeypatch.setattr(timing, "SAMPLE_MS", 10)
    now_ms = WALL_MS
    told.runtime.wall_ms = lambda: now_ms  # type: ignore[method-assign]
    first, client = told.connect(), told.connect()
    feed(first, MetadataRequest(topics=[]))
    feed(client, produce(b"a", acks=-1))
    now_ms += 10
    feed(client, produce(b"b", acks=-1))
    feed(client, produce(b"c", acks=-1))
    told.clock_us += 1_000
    told.fetched_by(B, C, offset=1)
    await settle()
    assert times(told, "totaltimems", "Produce") == (0, 0)
    told.clock_us += 1_000
    told.fetched_by(B, C, offset=3)
    await settle()
    assert times(told, "totaltimems", "Produce") == (1, 2)
    assert len(client.responses()) == 3
    found = told.scrape()
    assert found(REQUESTS + "requests_total", request="Produce") == 3


async def test_what_is_not_spoken_here_has_a_row_of_its_own(told: Told) -> None:
    client = told.connect()
    frames = [client.frame(MetadataRequest(topics=[]), 12) for _ in range(3)]
    client.feed(frames[0])
    client.feed(frames[1][:4] + b"\x00\x03\x7f\xff" + frames[1][8:])
    assert client.transport.is_closed
    await settle()
    found = told.scrape()
    assert found(REQUESTS + "requests_total", request="Metadata", version=12) == 1
    assert found(REQUESTS + "requests_total", request="Unspoken", version=-1) == 1
    assert not found.every(REQUESTS + "totaltimems_count", request="Produce")
    assert len(found.every(REQUESTS + "requests_total")) == 2


async def test_a_client_that_changes_its_version_is_counted_in_each(told: Told) -> None:
    client = told.connect()
    for version in (12, 9, 12, 9, 9):
        client.send(MetadataRequest(topics=[]), version)
    found = told.scrape()
    assert found(REQUESTS + "requests_total", request="Metadata", version=12) == 2
    assert found(REQUESTS + "requests_total", request="Metadata", version=9) == 3


async def test_counts_of_a_connection_that_is_gone_stay(told: Told) -> None:
    await told.give(LED)
    client = told.connect()
    feed(client, produce(b"a"), produce(b"b"), produce(b"c"))
    before = told.scrape()
    client.connection.close()
    await settle()
    after = told.scrape()
    for name in ("requests_total", "requestbytes_sum"):
        assert after(REQUESTS + name, request="Produce") == before(
            REQUESTS + name, request="Produce"
        )
    assert after(REQUESTS + "requests_total", request="Produce", version=9) == 3


async def test_what_was_never_asked_for_has_no_rows(told: Told) -> None:
    found = told.scrape()
    assert found.every(REQUESTS + "requests_total") == []
    assert all(math.isnan(value) for value in found.every(REQUESTS + "totaltimems"))
