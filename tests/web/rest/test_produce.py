"""Records written through v2 and v3: formats, order, errors of single records, bounds."""

import base64
import json
from typing import Any

import httpx
import pytest

from minikafka.protocol.api import ApiKey
from minikafka.protocol.errors import ErrorCode

from ...client.fake_broker import FakeCluster, Refuse
from .lab import BINARY, JSON, V2, V3, Slow, proxy, values


async def post(http: httpx.AsyncClient, path: str, body: Any, headers: dict[str, str]) -> Any:
    return await http.post(path, content=json.dumps(body), headers=headers)


async def test_records_of_one_request_are_written_in_order_and_each_is_answered() -> None:
    async with FakeCluster() as cluster, proxy(cluster.bootstrap) as one:
        cluster.create("t")
        body = {"records": [{"value": {"n": n}} for n in range(3)]}
        answer = await post(one.http, "/topics/t", body, JSON)
        assert values(cluster) == [b'{"n":0}', b'{"n":1}', b'{"n":2}']
    assert answer.status_code == 200
    assert answer.headers["content-type"] == V2["content-type"]
    entry = {"partition": 0, "error_code": None, "error": None}
    assert answer.json() == {
        "offsets": [{**entry, "offset": n} for n in range(3)],
        "key_schema_id": None,
        "value_schema_id": None,
    }


async def test_binary_is_base64_and_string_is_utf8() -> None:
    text = {"content-type": "application/vnd.kafka.string.v2+json"}
    async with FakeCluster() as cluster, proxy(cluster.bootstrap) as one:
        cluster.create("t", 2)
        body = {"records": [{"key": "AP8=", "value": None, "partition": 1}]}
        await post(one.http, "/topics/t", body, BINARY)
        await post(one.http, "/topics/t/partitions/1", {"records": [{"value": "\u00e5"}]}, text)
        assert values(cluster, partition=1) == [None, "\u00e5".encode()]


async def test_x_56_an_oversized_record_has_its_error_and_the_others_are_written() -> None:
    sizes = (10, 5_000, 20)
    encoded = [base64.b64encode(b"x" * size).decode() for size in sizes]
    settings = {"producer.max.request.size": "1000"}
    async with FakeCluster() as cluster, proxy(cluster.bootstrap, settings=settings) as one:
        cluster.create("t")
        body = {"records": [{"value": text} for text in encoded]}
        answer = await post(one.http, "/topics/t", body, BINARY)
        assert [len(each or b"") for each in values(cluster)] == [10, 20]
        entries = [
            {"id": str(n), "value": {"type": "BINARY", "data": text}}
            for n, text in enumerate(encoded)
        ]
        batch = await post(
            one.http, await v3(one.http, "/topics/t/records:batch"), {"entries": entries}, V3
        )
    first, second, third = answer.json()["offsets"]
    assert (first["offset"], third["offset"]) == (0, 1)
    assert (second["offset"], second["error_code"]) == (None, 40002)
    assert "exceeds max.request.size=1000" in second["error"]
    assert batch.status_code == 207
    found = batch.json()
    assert [(each["id"], each["offset"]) for each in found["successes"]] == [("0", 2), ("2", 3)]
    assert [(each["id"], each["error_code"]) for each in found["failures"]] == [("1", 40002)]


async def v3(http: httpx.AsyncClient, path: str) -> str:
    clusters = (await http.get("/v3/clusters")).json()
    return f"/v3/clusters/{clusters['data'][0]['cluster_id']}{path}"


async def test_a_record_that_the_broker_refuses_has_its_error() -> None:
    async with FakeCluster() as cluster, proxy(cluster.bootstrap) as one:
        cluster.create("t")

        def refuse(node: Any, key: int, request: Any) -> None:
            if key == ApiKey.PRODUCE:
                raise Refuse(ErrorCode.TOPIC_AUTHORIZATION_FAILED)

        cluster.fault = refuse
        answer = await post(one.http, "/topics/t", {"records": [{"value": 1}]}, JSON)
    assert answer.status_code == 200
    assert [each["error_code"] for each in answer.json()["offsets"]] == [40301]


@pytest.mark.parametrize(
    ("path", "body", "headers", "status", "code", "words"),
    [
        ("/topics/no", '{"records":[{"value":1}]}', JSON, 404, 40401, "no topic 'no'"),
        ("/topics/t/partitions/7", '{"records":[{}]}', JSON, 404, 40402, "no partition 7"),
        ("/topics/t", "{", JSON, 400, 400, "is not JSON"),
        ("/topics/t", "NaN", JSON, 400, 400, "is not JSON"),
        ("/topics/t", "[" * 100_000, JSON, 400, 400, "is not JSON"),
        ("/topics/t", "{}", JSON, 422, 422, "records"),
        ("/topics/t", '{"records":[{"value":"\\ud800"}]}', JSON, 400, 400, "surrogates"),
        ("/topics/t", '{"records":[]}', JSON, 422, 422, "records"),
        ("/topics/t", '{"records":[{"valeu":1}]}', JSON, 422, 422, "valeu"),
        ("/topics/t", '{"records":[{"value":"?"}]}', BINARY, 422, 42207, "records[0].value"),
        ("/topics/t", '{"records":[{"value":1}]}', BINARY, 422, 42207, "must be a string"),
        ("/topics/t", '{"records":[{"value":1}]}', {}, 415, 415, "Content-Type must be"),
        (
            "/topics/t",
            "{}",
            {"content-type": "application/vnd.kafka.avro.v2+json"},
            415,
            415,
            "avro needs a schema registry",
        ),
        ("/topics/t", "{}", {**JSON, "accept": "text/html"}, 406, 406, "text/html"),
    ],
)
async def test_what_is_wrong_is_named(
    path: str, body: str, headers: dict[str, str], status: int, code: int, words: str
) -> None:
    async with FakeCluster() as cluster, proxy(cluster.bootstrap) as one:
        cluster.create("t")
        answer = await one.http.post(path, content=body, headers=headers)
        assert values(cluster) == []
    found = answer.json()
    assert (answer.status_code, found["error_code"]) == (status, code)
    assert words in found["message"]


async def test_a_body_beyond_the_bound_is_refused_before_it_is_whole() -> None:
    settings = {"minikafka.rest.max.request.bytes": "1024"}
    async with FakeCluster() as cluster, proxy(cluster.bootstrap, settings=settings) as one:
        cluster.create("t")
        async with Slow(one.app, "POST", "/topics/t", JSON, [b"x" * 600] * 50) as client:
            client.take()
            await client.until(lambda: client.is_over)
            assert client.status == 413
            assert client.asked == 2
            assert json.loads(client.taken[0])["error_code"] == 413


async def test_above_the_rate_the_answer_is_429_with_the_time_to_wait() -> None:
    settings = {"minikafka.rest.produce.rate": "2"}
    async with FakeCluster() as cluster, proxy(cluster.bootstrap, settings=settings) as one:
        cluster.create("t")
        body = {"records": [{"value": n} for n in range(1_000)]}
        first = await post(one.http, "/topics/t", body, JSON)
        second = await post(one.http, "/topics/t", body, JSON)
        assert len(values(cluster)) == 1_000
    assert (first.status_code, second.status_code) == (200, 429)
    assert int(second.headers["retry-after"]) > 400


async def test_all_requests_of_a_user_share_one_idempotent_producer() -> None:
    async with FakeCluster() as cluster, proxy(cluster.bootstrap) as one:
        cluster.create("t")
        for _ in range(3):
            await post(one.http, "/topics/t", {"records": [{"value": 1}]}, JSON)
        assert len(cluster.sent(ApiKey.INIT_PRODUCER_ID)) == 1
        (entry,) = cluster.topics["t"].partitions[0].producers.values()
        assert entry.last_sequence == 2


async def test_a_producer_that_was_refused_for_good_is_made_anew() -> None:
    async with FakeCluster() as cluster, proxy(cluster.bootstrap) as one:
        cluster.create("t")

        def refuse(node: Any, key: int, request: Any) -> None:
            if key == ApiKey.INIT_PRODUCER_ID:
                raise Refuse(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

        cluster.fault = refuse
        body = {"records": [{"value": 1}]}
        for _ in range(2):
            answer = await post(one.http, "/topics/t", body, JSON)
            assert "CLUSTER_AUTHORIZATION_FAILED" in answer.json()["offsets"][0]["error"]
        cluster.fault = None
        answer = await post(one.http, "/topics/t", body, JSON)
        assert [each["offset"] for each in answer.json()["offsets"]] == [0]


async def test_records_for_a_partition_that_is_not_there_cost_the_brokers_one_question() -> None:
    async with FakeCluster() as cluster, proxy(cluster.bootstrap) as one:
        cluster.create("t")
        body = {"records": [{"value": 1, "partition": 7}] * 300}
        answer = await post(one.http, "/topics/t", body, JSON)
        assert [each["error_code"] for each in answer.json()["offsets"]] == [40402] * 300
        asked = len(cluster.sent(ApiKey.METADATA)) + len(
            cluster.sent(ApiKey.DESCRIBE_TOPIC_PARTITIONS)
        )
    assert asked < 10


@pytest.mark.parametrize("number", ["1e999", "-1E400"])
async def test_a_number_beyond_all_bounds_is_refused_and_no_infinity_is_written(
    number: str,
) -> None:
    async with FakeCluster() as cluster, proxy(cluster.bootstrap) as one:
        cluster.create("t")
        body = f'{{"records":[{{"value":{number}}}]}}'
        answer = await one.http.post("/topics/t", content=body, headers=JSON)
        assert values(cluster) == []
    assert (answer.status_code, answer.json()["error_code"]) == (422, 42207)


async def test_a_stream_answers_each_record_as_it_is_acknowledged() -> None:
    async with FakeCluster() as cluster, proxy(cluster.bootstrap) as one:
        cluster.create("t")
        target = await v3(one.http, "/topics/t/records")
        async with Slow(one.app, "POST", target, V3) as client:
            client.take(10)
            for n in range(3):
                client.say(b'{"value": {"type": "JSON", "data": %d}}' % n)
                await client.until(lambda n=n: len(client.lines) == n + 1)  # type: ignore[misc]
            client.say(b'{"value": {"type": "XML", "data": 1}}\n{"key": {"data": "AA=="}}')
            client.end()
            await client.until(lambda: client.is_over)
        assert values(cluster) == [b"0", b"1", b"2", None]
    answers = [json.loads(line) for line in client.lines]
    assert [each.get("offset") for each in answers] == [0, 1, 2, None, 3]
    assert [each["error_code"] for each in answers] == [200, 200, 200, 42207, 200]
    assert answers[0]["value"] == {"type": "JSON", "size": 1}
    assert answers[4]["key"] == {"type": "BINARY", "size": 1}
    assert "record.value.type" in answers[3]["message"]


@pytest.mark.parametrize(
    "rest", [b'{"value": oops}\n', b"]", b'{"key": "\xff"}', b'{"a": NaN}', b'"\\ud800"']
)
async def test_a_stream_ends_at_what_is_not_json(rest: bytes) -> None:
    async with FakeCluster() as cluster, proxy(cluster.bootstrap) as one:
        cluster.create("t")
        target = await v3(one.http, "/topics/t/records")
        async with Slow(one.app, "POST", target, V3, [b"{}", rest]) as client:
            client.take(10)
            await client.until(lambda: client.is_over)
    first, second = (json.loads(line) for line in client.lines)
    assert first["offset"] == 0
    assert second["error_code"] == 400
