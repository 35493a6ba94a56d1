"""Streams of records: 10^5 of them to a client that is slow, in both directions."""

import json

import pytest

from minikafka.client.consumer.consumer import Consumer
from minikafka.protocol.api import ApiKey
from minikafka.protocol.messages.list_offsets import LATEST_TIMESTAMP
from minikafka.web.rest import clients
from minikafka.web.rest.settings import MIB
from minikafka.web.rest.v3_records import PART_BYTES, WINDOW

from ...client.fake_broker import FakeCluster
from ...client.test_consumer import fill
from .lab import V3, Slow, proxy, values
from .test_produce import v3

MANY = 100_000
WRITTEN = 20_000
RECORDS = "/topics/t/partitions/0/records"


@pytest.fixture
def consumers(monkeypatch: pytest.MonkeyPatch) -> list[Consumer[bytes, bytes]]:
    """The consumers that the proxy makes."""
    made: list[Consumer[bytes, bytes]] = []
    make = clients.Held.make_consumer

    def noted(held: clients.Held, **settings: str) -> Consumer[bytes, bytes]:
        made.append(make(held, **settings))
        return made[-1]

    monkeypatch.setattr(clients.Held, "make_consumer", noted)
    return made


async def test_x_55_a_slow_reader_of_many_records_costs_no_memory(
    consumers: list[Consumer[bytes, bytes]],
) -> None:
    async with FakeCluster() as cluster, proxy(cluster.bootstrap) as one:
        part = cluster.create("t").partitions[0]
        fill(part, MANY, per_batch=1_000)
        target = await v3(one.http, "/topics/t/partitions/0/records?offset=0")
        async with Slow(one.app, "GET", target) as client:
            highest = 0
            while not client.is_over:
                client.take()
                seen = len(client.taken)
                await client.until(lambda seen=seen: len(client.taken) > seen or client.is_over)  # type: ignore[misc]
                # What the proxy has and its client has not: fetched, and one part on its way.
                highest = max(highest, consumers[0]._engine.fetcher.buffer.size)
    assert consumers[0].is_closed
    # One fetch more than the bound may be on its way when the bound is reached.
    assert 0 < highest <= 2 * MIB
    assert max(map(len, client.taken)) <= 4 * PART_BYTES
    assert [json.loads(line)["offset"] for line in client.lines] == list(range(MANY))


async def test_x_55_a_writer_that_takes_no_answers_is_not_read_any_further() -> None:
    lines = [b'{"value": {"type": "JSON", "data": %d}}\n' % n for n in range(WRITTEN)]
    parts = [b"".join(lines[at : at + 100]) for at in range(0, WRITTEN, 100)]
    async with FakeCluster() as cluster, proxy(cluster.bootstrap) as one:
        cluster.create("t")
        target = await v3(one.http, "/topics/t/records")
        async with Slow(one.app, "POST", target, V3, parts) as client:
            await client.until(lambda: client.asked >= WINDOW // 100)
            await one.http.get("/brokers")
            # The window, what a part on its way holds, and the part that is being read.
            most = (WINDOW + PART_BYTES // 100) // 100 + 2
            assert client.asked <= most
            assert len(values(cluster)) <= most * 100
            client.end()
            client.take(WRITTEN)
            await client.until(lambda: client.is_over)
        assert values(cluster) == [b"%d" % n for n in range(WRITTEN)]
    answers = [json.loads(line) for line in client.lines]
    assert [each["offset"] for each in answers] == list(range(WRITTEN))


async def test_new_records_are_told_as_they_come_and_the_consumer_ends_with_the_client(
    consumers: list[Consumer[bytes, bytes]],
) -> None:
    async with FakeCluster() as cluster, proxy(cluster.bootstrap) as one:
        part = cluster.create("t").partitions[0]
        fill(part, 3)
        target = await v3(
            one.http, "/topics/t/partitions/0/records?follow=1&offset=1&format=string"
        )
        events = {"accept": "text/event-stream"}
        async with Slow(one.app, "GET", target, events) as client:
            client.take(10)
            await client.until(lambda: b"id: 2" in b"".join(client.taken))
            fill(part, 2)
            cluster.notify()
            await client.until(lambda: b"id: 4" in b"".join(client.taken))
        assert one.desk.streams == 0
        resumed = {**events, "last-event-id": "3"}
        async with Slow(one.app, "GET", target, resumed) as client:
            client.take(10)
            await client.until(lambda: b"id: 4" in b"".join(client.taken))
    assert [each.is_closed for each in consumers] == [True, True]
    (data,) = [line for line in client.lines if line.startswith(b"data: ")]
    assert json.loads(data[6:])["offset"] == 4


async def test_what_a_stream_has_shown_can_be_written_again() -> None:
    async with FakeCluster() as cluster, proxy(cluster.bootstrap) as one:
        fill(cluster.create("t").partitions[0], 3)
        cluster.create("copy")
        shown = await one.http.get(await v3(one.http, "/topics/t/partitions/0/records?format=json"))
        assert shown.headers["content-type"] == "application/x-ndjson"
        target = await v3(one.http, "/topics/copy/records")
        answer = await one.http.post(target, content=shown.content, headers=V3)
        assert [json.loads(line)["error_code"] for line in answer.text.splitlines()] == [200] * 3
        assert values(cluster, "copy") == values(cluster, "t")


@pytest.mark.parametrize(
    ("query", "status", "words"),
    [
        ("offset=9", 400, "ends at 3"),
        ("offset=1&timestamp=1", 400, "give one of them"),
        ("offset=-1", 400, "must be a whole number"),
        ("follow=yes", 400, "must be 1, true, 0 or false"),
        ("format=avro", 400, "must be one of binary, json, string"),
    ],
)
async def test_a_stream_that_cannot_begin_says_why(query: str, status: int, words: str) -> None:
    async with FakeCluster() as cluster, proxy(cluster.bootstrap) as one:
        fill(cluster.create("t").partitions[0], 3)
        answer = await one.http.get(await v3(one.http, f"/topics/t/partitions/0/records?{query}"))
    assert answer.status_code == status
    assert words in answer.json()["message"]


@pytest.mark.parametrize(("isolation", "level"), [("read_committed", 1), ("read_uncommitted", 0)])
async def test_a_stream_ends_where_its_consumer_can_read_to(isolation: str, level: int) -> None:
    settings = {"consumer.isolation.level": isolation}
    async with FakeCluster() as cluster, proxy(cluster.bootstrap, settings=settings) as one:
        fill(cluster.create("t").partitions[0], 3)
        answer = await one.http.get(await v3(one.http, RECORDS))
        asked = [
            each.isolation_level
            for each in cluster.sent(ApiKey.LIST_OFFSETS)
            if each.topics[0].partitions[0].timestamp == LATEST_TIMESTAMP
        ]
    assert len(answer.text.splitlines()) == 3
    assert asked == [level]


async def test_one_stream_too_many_is_refused() -> None:
    settings = {"minikafka.rest.max.streams": "1"}
    async with FakeCluster() as cluster, proxy(cluster.bootstrap, settings=settings) as one:
        fill(cluster.create("t").partitions[0], 1)
        target = await v3(one.http, "/topics/t/partitions/0/records")
        async with Slow(one.app, "GET", f"{target}?follow=1&offset=0") as client:
            client.take()
            await client.until(lambda: len(client.taken) == 1)
            answer = await one.http.get(target)
    assert (answer.status_code, answer.json()["error_code"]) == (503, 50301)
