"""HttpSink: requests by partition, what is repeated, and what is a dead letter."""

import asyncio
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from aiohttp import ClientSession
from aiohttp import web as http

from minikafka import TopicPartition
from minikafka.connect.api import ConnectError, Retry
from minikafka.connect.config_def import BadConfig
from minikafka.connect.connectors.http_sink import HttpSink, HttpSinkTask
from minikafka.connect.connectors.plain_json import to_json

from .support import FakeSink, sink_record
from .web_support import Reply, Web, ok, serving

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
KEY = "Idempotency-Key"


async def started(web: Web, **props: str) -> tuple[HttpSinkTask, FakeSink]:
    task, context = HttpSinkTask(), FakeSink(T0, T1)
    keys = {name.replace("_", "."): value for name, value in props.items()}
    await task.start({"url": web.url, "retry.backoff.ms": "1", **keys}, context)
    await task.open([T0, T1])
    return task, context


def sent(web: Web) -> list[tuple[str, str]]:
    return [
        (request.headers[KEY], body) for request, body in zip(web.asked, web.bodies, strict=True)
    ]


async def test_each_record_is_a_request_with_its_place() -> None:
    async with serving(ok("")) as web:
        task, _ = await started(web, method="PUT", auth_header="Basic eA==")
        await task.put([sink_record(3, {"a": 1}), sink_record(4, "text"), sink_record(5, b"\x01")])
        await task.put([])
        await task.stop()
    assert sent(web) == [("t-0-3", '{"a":1}'), ("t-0-4", "text"), ("t-0-5", "\x01")]
    assert {(each.method, each.headers["Authorization"]) for each in web.asked} == {
        ("PUT", "Basic eA==")
    }


async def test_arrays_hold_records_of_one_partition() -> None:
    async with serving(ok("")) as web:
        task, _ = await started(web, batch="array", batch_max_records="2")
        records = [sink_record(offset, offset) for offset in range(3)]
        await task.put([*records, sink_record(7, None, partition=1)])
        await task.stop()
    assert sorted(sent(web)) == [("t-0-0-1", "[0,1]"), ("t-0-2", "[2]"), ("t-1-7", "[null]")]
    assert web.asked[0].headers["Content-Type"] == "application/json"


@pytest.mark.parametrize("status", [408, 429, 500, 503])
async def test_what_failed_is_sent_again_and_what_was_taken_is_not(status: int) -> None:
    async with serving(ok(""), (status, {"Retry-After": "7"}, "wait"), ok("")) as web:
        task, _ = await started(web)
        batch = [sink_record(offset, str(offset)) for offset in range(3)]
        with pytest.raises(Retry, match=f"answers {status}: wait") as caught:
            await task.put(batch)
        assert caught.value.after_ms == 7000
        await task.put(batch)
        await task.stop()
    assert [place for place, _ in sent(web)] == ["t-0-0", "t-0-1", "t-0-1", "t-0-2"]


async def test_a_partition_that_fails_holds_up_no_other() -> None:
    async with serving(ok("")) as web:
        web.reply_by = lambda request: (503, {}, "") if "t-0" in request.headers[KEY] else ok("")
        task, _ = await started(web)
        with pytest.raises(Retry):
            await task.put([sink_record(0, "a"), sink_record(0, "b", partition=1)])
        web.reply_by = None
        await task.put([sink_record(0, "a"), sink_record(0, "b", partition=1)])
        await task.stop()
    assert sorted(place for place, _ in sent(web)) == ["t-0-0", "t-0-0", "t-1-0"]


async def test_a_partition_that_comes_back_begins_where_the_group_says() -> None:
    async with serving(ok("")) as web:
        task, _ = await started(web)
        await task.put([sink_record(0, "a")])
        await task.open([T0])
        await task.put([sink_record(0, "a")])
        await task.stop()
    assert len(web.asked) == 2


async def test_a_server_that_stays_away_fails_the_task_after_the_retries() -> None:
    async with serving(ok("")) as web:
        pass
    task, _ = await started(web, max_retries="1")
    with pytest.raises(Retry, match="cannot be asked"):
        await task.put([sink_record(0, "a")])
    with pytest.raises(ConnectError, match=r"given up after 1 retries \(max.retries\)"):
        await task.put([sink_record(0, "a")])
    await task.stop()


async def test_only_failures_in_a_row_count() -> None:
    async with serving((500, {}, ""), ok(""), (500, {}, ""), ok("")) as web:
        task, _ = await started(web, max_retries="1")
        for offset in range(2):
            with pytest.raises(Retry):
                await task.put([sink_record(offset, "a")])
            await task.put([sink_record(offset, "a")])
        await task.stop()
    assert len(web.asked) == 4


async def test_an_answer_that_does_not_come_in_time_is_retried() -> None:
    never = asyncio.Event()

    async def hang(request: http.Request) -> http.Response:
        await never.wait()
        return http.Response()

    async with serving(ok("")) as web:
        web.handle_by = hang
        task, _ = await started(web, timeout_ms="50")
        with pytest.raises(Retry, match="did not answer in time"):
            await task.put([sink_record(0, "a")])
        never.set()
        await task.stop()


async def test_a_record_that_is_refused_is_reported_and_the_others_are_sent() -> None:
    def reply(request: http.Request) -> Reply:
        return (422, {}, "not this") if request.headers[KEY] in ("t-0-1", "t-0-0-2") else ok("")

    async with serving(ok("")) as web:
        web.reply_by = reply
        task, context = await started(web, batch="array")
        await task.put([sink_record(offset, offset) for offset in range(3)])
        await task.stop()
    assert [place for place, _ in sent(web)] == ["t-0-0-2", "t-0-0", "t-0-1", "t-0-2"]
    assert [
        (record.offset, str(error).partition(" answers ")[2]) for record, error in context.reported
    ] == [(1, "422: not this")]


async def test_what_is_not_tolerated_fails_the_task() -> None:
    async with serving((400, {}, "bad")) as web:
        task, context = await started(web)
        context.tolerates = False
        with pytest.raises(ConnectError, match="answers 400: bad"):
            await task.put([sink_record(0, "a")])
        await task.stop()


async def test_a_wrong_login_is_not_a_dead_letter() -> None:
    async with serving((403, {}, "")) as web:
        task, context = await started(web)
        with pytest.raises(ConnectError, match=r"is auth\.header right"):
            await task.put([sink_record(0, "a")])
        await task.stop()
    assert context.reported == []


async def test_no_more_requests_are_open_at_once_than_allowed() -> None:
    open_now, release, two = [], asyncio.Event(), asyncio.Event()

    async def handle(request: http.Request) -> http.Response:
        if "probe" not in request.query:
            open_now.append(request)
            if len(open_now) == 2:
                two.set()
            await release.wait()
        return http.Response()

    async with serving(ok("")) as web, asyncio.timeout(20):
        web.handle_by = handle
        task, _ = await started(web, concurrency="2")
        records = [sink_record(0, "a", partition=number) for number in range(6)]
        putting = asyncio.create_task(task.put(records))
        await two.wait()
        async with ClientSession() as session:  # a request that overtakes none that was sent
            await session.get(web.url, params={"probe": "1"})
        assert len(open_now) == 2
        release.set()
        await putting
        assert len(open_now) == 6
        await task.stop()


async def test_a_long_error_is_cut_off() -> None:
    async with serving((400, {}, "x" * 1_000_000)) as web:
        task, context = await started(web)
        await task.put([sink_record(0, "a")])
        await task.stop()
    ((_, error),) = context.reported
    assert len(str(error)) < 500


def test_values_that_json_has_not_are_told_as_text() -> None:
    value: dict[str, Any] = {
        "price": Decimal("1.50"),
        "at": datetime(2026, 1, 2, tzinfo=UTC),
        "day": date(2026, 1, 2),
        "raw": b"\x00\x01",
    }
    assert json.loads(to_json(value)) == {
        "price": "1.50",
        "at": "2026-01-02T00:00:00+00:00",
        "day": "2026-01-02",
        "raw": "AAE=",
    }
    with pytest.raises(ValueError, match="set has no form in JSON"):
        to_json({1})


def test_there_are_as_many_tasks_as_there_may_be_and_bounds_are_kept() -> None:
    connector = HttpSink()
    connector.props = {"url": "http://a/"}
    assert connector.task_configs(2) == [{"url": "http://a/"}] * 2
    with pytest.raises(BadConfig, match="concurrency: must be between 1 and 100"):
        HttpSink.config.parse({"url": "http://a/", "concurrency": "0"})


async def test_a_value_without_a_form_in_json_is_reported_and_not_sent() -> None:
    bad = {"x": float("nan")}
    for batch in ("single", "array"):
        async with serving(ok("")) as web:
            task, context = await started(web, batch=batch)
            await task.put([sink_record(0, {"a": 1}), sink_record(1, bad), sink_record(2, {})])
            await task.stop()
        assert [record.offset for record, _ in context.reported] == [1]
        assert web.bodies == (['[{"a":1}]', "[{}]"] if batch == "array" else ['{"a":1}', "{}"])


async def test_offsets_that_begin_anew_are_sent() -> None:
    async with serving(ok("")) as web:
        task, _ = await started(web)
        await task.put([sink_record(7, "old")])
        await task.put([sink_record(0, "the topic was made anew")])
        await task.stop()
    assert [key for key, _ in sent(web)] == ["t-0-7", "t-0-0"]


async def test_a_task_that_could_not_start_is_stopped_in_silence() -> None:
    await HttpSinkTask().stop()
