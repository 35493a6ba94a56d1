"""The v2 consumers: what is read, committed and refused, here and through another proxy."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from minikafka.client.consumer.consumer import Consumer
from minikafka.client.errors import RequestTimedOut
from minikafka.protocol.records.record_batch import NewRecord, build
from minikafka.protocol.types import TopicPartition
from minikafka.web import serving
from minikafka.web.rest import peers
from minikafka.web.rest.instances import Instance

from ...client.fake_broker import FakeCluster
from ...client.fake_group import FakeGroup, install
from .lab import V2, Clock, Proxy, Slow, proxy, served

Setup = tuple[FakeCluster, FakeGroup]
TP = TopicPartition("t", 0)


@pytest.fixture
async def setup(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Setup]:
    cluster, group = install(monkeypatch)
    part = cluster.create("t").partitions[0]
    for n in range(0, 20, 5):
        part.append(build([NewRecord(n, b"7", b"%d" % each, ()) for each in range(n, n + 5)]))
    async with cluster:
        yield cluster, group


async def post(one: Proxy, path: str, body: Any = None) -> Any:
    content = b"" if body is None else json.dumps(body)
    return await one.http.post(path, content=content, headers=V2)


async def created(one: Proxy, **settings: Any) -> str:
    """Create an instance that reads topic t from its beginning; return its path."""
    usual = {"auto.offset.reset": "earliest", "format": "json"}
    given = {name.replace("_", "."): value for name, value in settings.items()}
    answer = await post(one, "/consumers/g", {**usual, **given})
    assert answer.status_code == 200, answer.text
    return str(answer.json()["base_uri"]).partition(".example:8082")[2]


async def read(one: Proxy, path: str, query: str = "timeout=20000") -> list[int]:
    answer = await one.http.get(f"{path}/records?{query}")
    assert answer.status_code == 200, answer.text
    return [record["offset"] for record in answer.json()]


async def test_a_subscriber_reads_commits_and_leaves(setup: Setup) -> None:
    cluster, group = setup
    async with proxy(cluster.bootstrap) as one:
        path = await created(one, auto_commit_enable="false")
        assert (await post(one, f"{path}/subscription", {"topics": ["t"]})).status_code == 204
        assert (await one.http.get(f"{path}/subscription")).json() == {"topics": ["t"]}
        answer = await one.http.get(f"{path}/records?timeout=20000&max_bytes=4")
        assert answer.headers["content-type"] == "application/vnd.kafka.json.v2+json"
        assert answer.json()[1] == {
            "topic": "t",
            "partition": 0,
            "offset": 1,
            "key": 7,
            "value": 1,
        }
        assert [record["offset"] for record in answer.json()] == [0, 1]
        assert await read(one, path, "timeout=20000&max_bytes=2") == [2]
        assert group.commits == []
        assert (await post(one, f"{path}/offsets")).json() == {}
        assert group.commits == [{TP: 3}]
        offsets = {"offsets": [{**TP._asdict(), "offset": 9, "metadata": "m"}]}
        await post(one, f"{path}/offsets", offsets)
        places = {"partitions": [TP._asdict()]}
        found = await one.http.request(
            "GET", f"{path}/offsets", content=json.dumps(places), headers=V2
        )
        # What is committed is behind the last one that was read, as Confluent's proxy has it.
        assert found.json() == {"offsets": [{**TP._asdict(), "offset": 10, "metadata": "m"}]}
        assert (await one.http.delete(path)).status_code == 204
        assert group.members == {}
        assert (await one.http.get(f"{path}/records")).json()["error_code"] == 40403


async def test_only_what_was_answered_is_committed(setup: Setup) -> None:
    cluster, group = setup
    runtime = Clock("rest")
    async with proxy(cluster.bootstrap, runtime=runtime) as one:
        path = await created(one)
        await post(one, f"{path}/subscription", {"topic_pattern": "t.*"})
        assert await read(one, path, "timeout=20000&max_bytes=4") == [0, 1]
        runtime.later_ms += 10_000
        assert await read(one, path, "timeout=20000&max_bytes=4") == [2, 3]
        await one.http.delete(path)
    assert group.commits == [{TP: 2}, {TP: 4}]


async def test_assigned_partitions_are_read_from_a_position(setup: Setup) -> None:
    cluster, _ = setup
    async with proxy(cluster.bootstrap) as one:
        path = await created(one, format="binary")
        places = {"partitions": [TP._asdict()]}
        assert (await post(one, f"{path}/assignments", places)).status_code == 204
        assert (await one.http.get(f"{path}/assignments")).json() == places
        to_18 = {"offsets": [{**TP._asdict(), "offset": 18}]}
        assert (await post(one, f"{path}/positions", to_18)).status_code == 204
        assert await read(one, path) == [18, 19]
        assert (await post(one, f"{path}/positions/beginning", places)).status_code == 204
        assert (await read(one, path))[:1] == [0]
        assert (await post(one, f"{path}/positions/end", places)).status_code == 204
        assert await read(one, path, "timeout=1") == []
        refused = await post(one, f"{path}/subscription", {"topics": ["t"]})
        assert refused.json()["error_code"] == 40903
        elsewhere = {"partitions": [{"topic": "t", "partition": 7}]}
        assert (await post(one, f"{path}/assignments", elsewhere)).json()["error_code"] == 40402
        assert (await post(one, f"{path}/positions/end", elsewhere)).json()["error_code"] == 40903


async def test_a_read_that_fails_halfway_loses_nothing(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, _ = setup
    poll, calls = Consumer.poll, 0

    async def second_fails(self: Any, timeout_ms: int = 0, most: int | None = None) -> Any:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise RequestTimedOut("away")
        return await poll(self, timeout_ms, most)

    monkeypatch.setattr(Consumer, "poll", second_fails)
    async with proxy(cluster.bootstrap) as one:
        path = await created(one)
        await post(one, f"{path}/subscription", {"topics": ["t"]})
        failed = await one.http.get(f"{path}/records?timeout=20000")
        assert (failed.status_code, failed.json()["error_code"]) == (500, 50003)
        assert await read(one, path) == list(range(20))


async def test_what_was_read_for_a_client_that_left_is_read_again(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, group = setup
    poll, count, all_read = Consumer.poll, 0, asyncio.Event()

    async def counted(self: Any, timeout_ms: int = 0, most: int | None = None) -> Any:
        nonlocal count
        if count == 20:
            all_read.set()
        found = await poll(self, timeout_ms, most)
        count += len(found)
        return found

    monkeypatch.setattr(Consumer, "poll", counted)
    async with proxy(cluster.bootstrap) as one:
        path = await created(one, fetch_min_bytes=10_000)
        await post(one, f"{path}/subscription", {"topics": ["t"]})
        async with Slow(one.app, "GET", f"{path}/records?timeout=60000") as client:
            client.end()
            await all_read.wait()
        # It asks again at once, and gets what it has not got.
        assert await read(one, path, "timeout=1000") == list(range(20))
        await one.http.delete(path)
    assert group.commits == [{TP: 20}]


async def test_a_read_that_cannot_be_shown_keeps_what_was_answered_before(setup: Setup) -> None:
    cluster, group = setup
    cluster.topics["t"].partitions[0].append(build([NewRecord(0, None, b"no json", ())]))
    async with proxy(cluster.bootstrap) as one:
        path = await created(one, auto_commit_enable="false")
        await post(one, f"{path}/subscription", {"topics": ["t"]})
        assert await read(one, path, "timeout=20000&max_bytes=50") == list(range(20))
        answer = await one.http.get(f"{path}/records?timeout=20000")
        assert answer.json()["error_code"] == 42207
        await post(one, f"{path}/offsets")
    assert group.commits == [{TP: 20}]


async def test_what_a_poll_found_behind_an_answer_does_not_outlive_a_seek(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, _ = setup
    going_on = asyncio.Event()
    poll = Consumer.poll

    async def long(self: Any, timeout_ms: int = 0, max_records: int | None = None) -> Any:
        found = await poll(self, 20_000, max_records)
        await going_on.wait()
        return found

    async with proxy(cluster.bootstrap) as one:
        path = await created(one)
        places = {"partitions": [TP._asdict()]}
        await post(one, f"{path}/assignments", places)
        monkeypatch.setattr(Consumer, "poll", long)
        assert await read(one, path, "timeout=10") == []
        (instance,) = one.desk.instances._by_id.values()
        assert instance is not None
        assert instance._poll is not None
        going_on.set()
        await asyncio.wait([instance._poll])
        to_18 = {"offsets": [{**TP._asdict(), "offset": 18}]}
        await post(one, f"{path}/positions", to_18)
        assert await read(one, path, "timeout=100") == [18, 19]


async def test_two_reads_at_once_are_refused_and_a_read_ends_with_its_time(setup: Setup) -> None:
    cluster, _ = setup
    async with proxy(cluster.bootstrap) as one:
        path = await created(one, auto_offset_reset="latest")
        await post(one, f"{path}/subscription", {"topics": ["t"]})
        first, second = await asyncio.gather(
            one.http.get(f"{path}/records?timeout=300"), one.http.get(f"{path}/records")
        )
    assert (first.status_code, first.json()) == (200, [])
    assert (second.status_code, second.json()["error_code"]) == (409, 40903)


async def test_a_read_in_a_rebalance_is_empty_and_the_next_has_the_records(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, _ = setup
    going_on = asyncio.Event()
    poll = Consumer.poll

    async def long(self: Any, timeout_ms: int = 0, max_records: int | None = None) -> Any:
        await going_on.wait()
        return await poll(self, timeout_ms, max_records)

    monkeypatch.setattr(Consumer, "poll", long)
    async with proxy(cluster.bootstrap) as one:
        path = await created(one)
        await post(one, f"{path}/subscription", {"topics": ["t"]})
        assert await read(one, path, "timeout=10") == []
        assert await read(one, path, "timeout=10") == []
        going_on.set()
        got: list[int] = []
        while len(got) < 20:
            got += await read(one, path)
    assert got == list(range(20))


async def test_an_instance_that_nobody_uses_is_closed(setup: Setup) -> None:
    cluster, group = setup
    runtime = Clock("rest")
    async with proxy(cluster.bootstrap, runtime=runtime) as one:
        path = await created(one)
        await post(one, f"{path}/subscription", {"topics": ["t"]})
        await read(one, path)
        runtime.later_ms += 299_000
        one.desk.instances.close_idle(runtime.monotonic_ms())
        assert len(one.desk.instances) == 1
        runtime.later_ms += 2_000
        one.desk.instances.close_idle(runtime.monotonic_ms())
        assert len(one.desk.instances) == 0
        assert (await one.http.get(f"{path}/records")).json()["error_code"] == 40403
    assert group.members == {}
    assert group.commits[-1] == {TP: 20}


@pytest.mark.parametrize(
    ("body", "status", "code", "words"),
    [
        ({"format": "avro"}, 422, 42204, "schema registry"),
        ({"format": "xml"}, 422, 42204, "none of binary, json, string"),
        ({"auto.offset.reset": "smallest"}, 422, 42204, "auto.offset.reset"),
        ({"fetch.min.bytes": "many"}, 422, 42204, "fetch.min.bytes"),
        ({"nmae": "c"}, 422, 42204, "nmae"),
        ({"name": "../c"}, 422, 42204, "name"),
        ({"name": "taken"}, 409, 40902, "taken"),
        ({"name": "another"}, 503, 50301, "1 consumer instances"),
    ],
)
async def test_an_instance_that_cannot_be_says_why(
    setup: Setup, body: Any, status: int, code: int, words: str
) -> None:
    cluster, _ = setup
    settings = {"minikafka.rest.max.instances": "1"}
    async with proxy(cluster.bootstrap, settings=settings) as one:
        assert (await post(one, "/consumers/g", {"name": "taken"})).status_code == 200
        answer = await post(one, "/consumers/g", body)
    assert (answer.status_code, answer.json()["error_code"]) == (status, code)
    assert words in answer.json()["message"]


async def test_a_value_that_is_not_json_is_named_and_is_not_lost(setup: Setup) -> None:
    cluster, group = setup
    async with proxy(cluster.bootstrap) as one:
        path = await created(one, format="json")
        cluster.create("words")
        headers = {"content-type": "application/vnd.kafka.string.v2+json"}
        body = {"records": [{"value": "no json"}]}
        await one.http.post("/topics/words", content=json.dumps(body), headers=headers)
        places = {"partitions": [{"topic": "words", "partition": 0}]}
        await post(one, f"{path}/assignments", places)
        for _ in range(2):
            answer = await one.http.get(f"{path}/records?timeout=20000")
            assert answer.json()["error_code"] == 42207
            assert "words-0 at offset 0 is not json" in answer.json()["message"]
        other = await one.http.get(
            f"{path}/records", headers={"accept": "application/vnd.kafka.binary.v2+json"}
        )
        assert other.json()["error_code"] == 40601
    assert group.commits == []


async def test_x_54_an_instance_is_used_through_the_other_proxy(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, _ = setup
    listener = serving.listen("127.0.0.1", 0)
    url = serving.url_of(listener)
    away = serving.listen("127.0.0.1", 0)
    dead = serving.url_of(away)
    away.close()
    async with (
        proxy(cluster.bootstrap, url=url) as owner,
        proxy(cluster.bootstrap, peers=(url, dead)) as other,
    ):
        async with served(owner, listener):
            paths = []
            for settings in ({}, {"name": "mine"}):
                given = {**settings, "auto.offset.reset": "earliest", "format": "json"}
                answer = (await post(owner, "/consumers/g", given)).json()
                paths.append(f"/consumers/g/instances/{answer['instance_id']}")
            for path in paths:
                places = {"partitions": [TP._asdict()]}
                assert (await post(other, f"{path}/assignments", places)).status_code == 204
                assert await read(other, path) == list(range(20))
            unknown = await post(other, f"{paths[0]}/assignments", {"partitions": [{}]})
            assert unknown.json()["error_code"] == 422
            made_up = f"/consumers/g/instances/{peers.owner_of('http://evil')}.{'0' * 32}"
            assert (await other.http.get(f"{made_up}/records")).json()["error_code"] == 40403
        # The owner is gone now.
        for path in paths:
            answer = await other.http.get(f"{path}/records?timeout=60000")
            assert (answer.status_code, answer.json()["error_code"]) == (404, 40403)


async def test_an_owner_learns_that_the_client_of_the_other_proxy_has_left(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, _ = setup
    listener = serving.listen("127.0.0.1", 0)
    url = serving.url_of(listener)
    began, ended = asyncio.Event(), asyncio.Event()
    read_one = Instance.read

    async def noted(self: Instance, timeout_ms: int, max_bytes: int) -> Any:
        began.set()
        try:
            return await read_one(self, timeout_ms, max_bytes)
        finally:
            ended.set()

    monkeypatch.setattr(Instance, "read", noted)
    async with (
        proxy(cluster.bootstrap, url=url) as owner,
        proxy(cluster.bootstrap, peers=(url,)) as other,
        served(owner, listener),
        asyncio.timeout(20),
    ):
        body = {"auto.offset.reset": "earliest", "format": "json", "fetch.min.bytes": 10_000}
        made = (await post(owner, "/consumers/g", body)).json()
        path = f"/consumers/g/instances/{made['instance_id']}"
        await post(owner, f"{path}/assignments", {"partitions": [TP._asdict()]})
        async with Slow(other.app, "GET", f"{path}/records?timeout=60000") as client:
            client.end()
            await began.wait()
        await ended.wait()
        assert await read(other, path, "timeout=1000") == list(range(20))
