"""HttpSource: cursors, ETags and pages against a server; failures, and where to go on."""

import asyncio
import logging
from typing import Any

import pytest

from minikafka.connect.api import ConnectError
from minikafka.connect.config_def import HIDDEN, BadConfig
from minikafka.connect.connectors.http_client import retry_after_ms
from minikafka.connect.connectors.http_paging import pointed
from minikafka.connect.connectors.http_source import HttpSource, HttpSourceTask
from minikafka.connect.data import STRING
from minikafka.connect.records import SourceRecord

from .support import FakeOffsets, FakeSource
from .web_support import Web, ok, serving


def props_of(web: Web, **props: str) -> dict[str, str]:
    keys = {name.replace("_", "."): value for name, value in props.items()}
    return {
        "url": web.url,
        "topic": "t",
        "interval.ms": "1",
        "retry.backoff.ms": "1",
        "cursor.pointer": "/next",
        "records.pointer": "/items",
        **keys,
    }


async def batches(
    web: Web, count: int, offsets: FakeOffsets | None = None, **props: str
) -> list[list[SourceRecord]]:
    """Return the first batches that a task hands out."""
    task = HttpSourceTask()
    await task.start(props_of(web, **props), FakeSource(offsets))
    records = task.records().__aiter__()
    try:
        async with asyncio.timeout(20):
            return [list(await anext(records)) for _ in range(count)]
    finally:
        await task.stop()


def told(records: list[SourceRecord]) -> list[tuple[Any, Any]]:
    return [(record.value, record.source_offset) for record in records]


def queries(web: Web) -> list[str]:
    return [request.query_string for request in web.asked]


async def test_each_answer_holds_the_cursor_of_the_next() -> None:
    async with serving(
        ok('{"items":[1,2],"next":"b"}'),
        ok('{"items":[],"next":"b"}'),
        ok('{"items":[3],"next":"c"}'),
        ok('{"items":[4],"next":null}'),
        ok('{"items":[4,5]}'),
    ) as web:
        found = await batches(web, 4)
    assert [told(batch) for batch in found] == [
        [(1, {"cursor": None, "index": 1}), (2, {"cursor": "b", "index": 0})],
        [(3, {"cursor": "c", "index": 0})],
        [(4, {"cursor": "c", "index": 1})],
        [(5, {"cursor": "c", "index": 2})],
    ]
    assert queries(web) == ["", "cursor=b", "cursor=b", "cursor=c", "cursor=c"]


@pytest.mark.parametrize("mode", ["cursor", "page"])
@pytest.mark.parametrize("taken", range(1, 4))
async def test_x_35_a_killed_task_goes_on_behind_what_was_committed(mode: str, taken: int) -> None:
    pages = {
        None: '{"items":[1,2],"next":"2"}',
        "1": '{"items":[1,2]}',
        "2": '{"items":[3,4],"next":"3"}',
        "3": '{"items":[5],"next":null}',
    }
    offsets, seen = FakeOffsets(), []
    props: dict[str, Any] = {"page_size": "2", "batch_size": "1", "cursor_param": "page"}
    async with serving(ok("")) as web:
        web.reply_by = lambda request: ok(pages[request.query.get("page")])
        for batch in (await batches(web, taken + 1, mode=mode, **props))[:taken]:
            offsets.commit(batch)
            seen += [record.value for record in batch]
        for batch in await batches(web, 5 - taken, offsets, mode=mode, **props):
            seen += [record.value for record in batch]
    assert seen == [1, 2, 3, 4, 5]


async def test_a_short_page_is_asked_for_again() -> None:
    async with serving(
        ok('{"items":[1,2]}'), ok('{"items":[3]}'), ok('{"items":[3,4]}'), ok('{"items":[5]}')
    ) as web:
        found = await batches(web, 4, mode="page", page_size="2", page_size_param="per_page")
    assert [told(batch)[-1] for batch in found] == [
        (2, {"page": 2, "index": 0}),
        (3, {"page": 2, "index": 1}),
        (4, {"page": 3, "index": 0}),
        (5, {"page": 3, "index": 1}),
    ]
    assert queries(web) == [f"page={number}&per_page=2" for number in (1, 2, 2, 3)]


async def test_an_answer_is_read_again_once_its_etag_changes() -> None:
    changed = {"ETag": '"v2"'}
    async with serving(
        (200, {"ETag": '"v1"'}, '[{"id":7},{"id":"x"}]'), (304, {}, ""), (200, changed, '{"id":1}')
    ) as web:
        found = await batches(web, 2, mode="etag", records_pointer="", key_pointer="/id")
    assert [told(batch) for batch in found] == [
        [({"id": 7}, {"etag": None}), ({"id": "x"}, {"etag": '"v1"'})],
        [({"id": 1}, {"etag": '"v2"'})],
    ]
    assert [(each.key, each.key_schema) for each in found[0]] == [("7", STRING), ("x", STRING)]
    assert [request.headers.get("If-None-Match") for request in web.asked] == [
        None,
        '"v1"',
        '"v1"',
    ]


async def test_headers_and_the_secret_are_sent_and_the_secret_is_not_shown(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    async with serving((503, {}, "busy"), ok('{"items":[1]}')) as web:
        await batches(web, 1, auth_header="Bearer s3cret", headers="A: 1|B: x: y")
    (_, asked) = web.asked
    assert [asked.headers[name] for name in ("Authorization", "A", "B")] == [
        "Bearer s3cret",
        "1",
        "x: y",
    ]
    assert "503" in caplog.text
    assert "s3cret" not in caplog.text


async def test_a_server_that_is_busy_is_asked_again(caplog: pytest.LogCaptureFixture) -> None:
    async with serving(
        (429, {"Retry-After": "0"}, ""), (500, {}, "oh"), ok('{"items":[1]}')
    ) as web:
        ((record,),) = await batches(web, 1)
    assert record.value == 1
    assert [each.message.partition("/things ")[2] for each in caplog.records] == [
        "answers 429: ; asked again in 0 ms",
        "answers 500: oh; asked again in 2 ms",
    ]


async def test_a_server_that_is_not_there_is_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waits = []

    async def wait(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            raise InterruptedError

    async with serving(ok("")) as web:
        pass
    monkeypatch.setattr("minikafka.connect.connectors.http_source.asyncio.sleep", wait)
    with pytest.raises(InterruptedError):
        await batches(web, 1, retry_backoff_ms="1000", retry_backoff_max_ms="3000")
    assert [round(wait / base) for base, wait in zip((1, 2, 3), waits, strict=True)] == [1, 1, 1]


@pytest.mark.parametrize(
    ("reply", "props", "wrong"),
    [
        ((404, {}, "no such thing"), {}, "answers 404: no such thing"),
        ((401, {}, "who?"), {}, r"answers 401: who\?; is auth.header right"),
        ((301, {"Location": "http://b/"}, ""), {}, "answers 301: ; set url to http://b/"),
        (ok("<html>"), {}, "the answer is no JSON .*<html>"),
        (ok('{"things":[]}'), {}, "the answer has nothing at records.pointer=/items"),
        (ok('{"items":[]}'), {"mode": "etag"}, "the answer has no ETag"),
        (ok("[" + " " * 100), {"body_max_bytes": "50"}, "answers with more than 50 bytes"),
    ],
)
async def test_what_will_never_work_fails_and_says_why(
    reply: Any, props: dict[str, str], wrong: str
) -> None:
    async with serving(reply) as web:
        with pytest.raises(ConnectError, match=wrong):
            await batches(web, 1, None, **props)


async def test_an_address_is_shown_and_kept_without_its_query() -> None:
    async with serving(ok('{"items":[1]}'), (404, {}, "")) as web:
        web.url += "?key=s3cret"
        ((record,),) = await batches(web, 1, auth_header="Bearer token\n")
        assert record.source_partition == {"url": web.url.partition("?")[0]}
        with pytest.raises(ConnectError) as caught:
            await batches(web, 1)
    assert [request.query_string for request in web.asked] == ["key=s3cret"] * 2
    assert web.asked[0].headers["Authorization"] == "Bearer token"
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("props", "wrong"),
    [
        ({"url": "ftp://a/"}, "must begin with http:// or https://"),
        ({"url": "http://me:pw@a/"}, "must not hold a password; set auth.header"),
        ({"headers": "A"}, "'A' is not NAME: VALUE"),
        ({"records.pointer": "items"}, "must be a JSON pointer"),
        ({}, "cursor.pointer: must be set with mode=cursor"),
        ({"interval.ms": "0"}, "interval.ms: must be between 1 and"),
    ],
)
def test_what_cannot_work_is_refused(props: dict[str, str], wrong: str) -> None:
    with pytest.raises(BadConfig, match=wrong):
        HttpSource.config.parse({"url": "http://a/", "topic": "t", **props})


def test_a_secret_is_hidden_in_errors() -> None:
    key = HttpSource.config.keys["auth.header"]
    assert HIDDEN in str(key.refusal("Bearer s3cret", "no"))


@pytest.mark.parametrize(
    ("value", "wait_ms"),
    [
        (None, None),
        ("7", 7000),
        ("999999999", 3_600_000),
        ("Thu, 01 Jan 1970 00:01:10 GMT", 10_000),
        ("Thu, 01 Jan 1970 00:00:10 GMT", 0),
        ("soon", None),
        ("-5", None),
    ],
)
def test_retry_after_is_seconds_or_a_time(value: str | None, wait_ms: int | None) -> None:
    assert retry_after_ms(value, 60.0) == wait_ms


@pytest.mark.parametrize(
    ("pointer", "found"),
    [
        ("", {"a/b": [{"~": 1}]}),
        ("/a~1b", [{"~": 1}]),
        ("/a~1b/0/~0", 1),
        ("/a~1b/1", None),
        ("/a~1b/x", None),
        ("/c", None),
    ],
)
def test_pointers_are_those_of_rfc_6901(pointer: str, found: Any) -> None:
    assert pointed({"a/b": [{"~": 1}]}, pointer, None) == found


async def test_an_answer_whose_etag_is_the_last_one_is_not_read_again() -> None:
    """As from a server that knows no If-None-Match."""
    async with serving(
        ok("[1]", ETag='"a"'), ok("[1]", ETag='W/"a"'), ok("[2]", ETag='"b"')
    ) as web:
        found = await batches(web, 2, mode="etag", records_pointer="")
    assert [record.value for batch in found for record in batch] == [1, 2]


async def test_no_failure_shows_the_query(caplog: pytest.LogCaptureFixture) -> None:
    async def answers_nonsense(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(next(answers))
        writer.close()

    body = b'{"items":[1]}'
    answers = iter([b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n" + body])
    server = await asyncio.start_server(answers_nonsense, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/things?token=xyzzy"
    with caplog.at_level(logging.WARNING):
        await batches(Web([], url), 1)
    server.close()
    assert "cannot be asked" in caplog.text
    assert "xyzzy" not in caplog.text


async def test_a_redirect_is_told_without_its_query() -> None:
    async with serving((302, {"Location": "https://else.where/things?token=xyzzy"}, "")) as web:
        with pytest.raises(ConnectError, match=r"set url to https://else.where/things$"):
            await batches(web, 1)


async def test_a_task_that_could_not_start_is_stopped_in_silence() -> None:
    await HttpSourceTask().stop()
