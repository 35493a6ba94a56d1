"""The console's door: by which name, from where, with which token; and a cluster that is away."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx
import pytest

from minikafka.client.admin.admin import Admin
from minikafka.client.errors import BootstrapError, ClientClosed, RequestTimedOut
from minikafka.runtime.runtime import SystemRuntime
from minikafka.web.console import forms
from minikafka.web.console.app import MOST_STREAMS, application
from minikafka.web.console.desk import Desk, desk_for
from minikafka.web.console.link import FAILED_MS, Link
from minikafka.web.console.messages import MOST_SCANS

TOKEN = "the token"
NOBODY = "127.0.0.1:1"
SETTINGS = {"bootstrap.servers": NOBODY, "bootstrap.timeout.ms": "50"}


@contextlib.asynccontextmanager
async def visitor(desk: Desk, host: str = "localhost:8090") -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(application(desk, ("console.example",)))
    async with httpx.AsyncClient(transport=transport, base_url=f"http://{host}") as client:
        yield client
    await desk.link.close()


def a_desk(*, allow_changes: bool = False) -> Desk:
    return desk_for(SystemRuntime("test"), SETTINGS, TOKEN, allow_changes=allow_changes)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:8090", "[::1]:8090", "Console.Example"])
async def test_it_answers_to_its_names(host: str) -> None:
    async with visitor(a_desk(), host) as client:
        assert (await client.get("/static/console.css")).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "[", ""])
async def test_it_answers_to_no_other_name(host: str) -> None:
    async with visitor(a_desk()) as client:
        answer = await client.get("/static/console.css", headers={"Host": host})
    assert answer.status_code == 403
    assert "does not answer to the name" in answer.text


async def test_every_answer_forbids_what_pages_do_not_need() -> None:
    async with visitor(a_desk()) as client:
        for path in ("/static/console.css", "/", "/no/such/page", "/do/create-topic"):
            headers = (await client.get(path)).headers
            assert "script-src 'self';" in headers["content-security-policy"]
            assert "unsafe" not in headers["content-security-policy"]
            assert headers["x-content-type-options"] == "nosniff"


async def post(
    client: httpx.AsyncClient, fields: dict[str, str], headers: dict[str, str] | None = None
) -> httpx.Response:
    return await client.post("/do/create-topic", data=fields, headers=headers)


async def test_a_console_that_reads_only_changes_nothing() -> None:
    async with visitor(a_desk()) as client:
        answer = await post(client, {"topic": "t", "token": TOKEN})
        shown = await client.get("/do/create-topic?topic=t")
    assert answer.status_code == 403
    assert "only reads" in answer.text
    assert "minikafka topics --bootstrap-server 127.0.0.1:1 --create --topic t" in shown.text
    assert 'type="submit"' not in shown.text


@pytest.mark.parametrize("token", ["", "another", TOKEN + "x", "\u00e9"])
async def test_a_form_without_the_token_changes_nothing(token: str) -> None:
    async with visitor(a_desk(allow_changes=True)) as client:
        answer = await post(client, {"topic": "t", "token": token})
    assert answer.status_code == 403


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost:1"},
        {"Sec-Fetch-Site": "cross-site"},
    ],
)
async def test_a_form_from_elsewhere_changes_nothing(headers: dict[str, str]) -> None:
    async with visitor(a_desk(allow_changes=True)) as client:
        answer = await post(client, {"topic": "t", "token": TOKEN}, headers)
    assert answer.status_code == 403
    assert "comes from elsewhere" in answer.text


async def test_a_form_of_nonsense_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forms, "MOST_BYTES", 1000)
    async with visitor(a_desk(allow_changes=True)) as client:
        for body, status in ((b"\xff" * 100, 400), (b"a=" + b"x" * 1000, 413), (b"no pairs", 400)):
            answer = await client.post("/do/create-topic", content=body)
            assert answer.status_code == status


async def test_a_field_that_cannot_be_used_is_named_beside_the_form() -> None:
    async with visitor(a_desk(allow_changes=True)) as client:
        answer = await post(client, {"topic": "<b>", "partitions": "x", "token": TOKEN})
    assert answer.status_code == 422
    assert "not a whole number" in answer.text
    assert 'value="&lt;b&gt;"' in answer.text


async def test_a_cluster_that_is_away_is_one_sentence_on_every_page() -> None:
    async with visitor(a_desk()) as client:
        for path in ("/", "/topics", "/topics/t/0", "/groups", "/quorum"):
            answer = await client.get(path)
            assert answer.status_code == 503
            assert "The cluster does not answer" in answer.text
            assert f"{NOBODY}: connect" in answer.text


async def http_server(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(4)
    writer.write(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
    writer.close()


async def mute_server(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()
    writer.close()


async def endless_server(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while True:
            writer.write(b"\x00\x00\xff\xff" + bytes(65_535))
            await writer.drain()


@pytest.mark.parametrize(
    ("serve", "sentence"),
    [
        (http_server, "the peer speaks HTTP"),
        (mute_server, "no answer in the time allowed"),
        (endless_server, "came where 1 was due"),
    ],
)
async def test_a_server_that_is_no_broker_is_one_sentence_on_the_page(
    serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]], sentence: str
) -> None:
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    settings = {"bootstrap.servers": f"{host}:{port}", "bootstrap.timeout.ms": "500"}
    async with server, visitor(desk_for(SystemRuntime("test"), settings, TOKEN)) as client:
        for path in ("/", "/topics/t/messages", "/groups/g"):
            answer = await client.get(path)
            assert answer.status_code == 503
            assert "no bootstrap server answered" in answer.text
            assert sentence in answer.text
        events = await client.get("/scan/t")
        assert "The scan ended: no bootstrap server answered" in events.text


async def test_a_page_that_waits_for_the_cluster_ends_when_the_console_stops() -> None:
    reached, never = asyncio.Event(), asyncio.Event()

    async def reach(*_: object) -> Admin:
        reached.set()
        await never.wait()
        raise AssertionError

    desk = a_desk()
    desk.link = Link(SystemRuntime("test"), {}, reach)
    async with visitor(desk) as client:
        waiting = asyncio.ensure_future(client.get("/"))
        await asyncio.wait_for(reached.wait(), 10)
        await desk.link.close()
        answer = await waiting
    assert answer.status_code == 502
    assert "the console stops" in answer.text


async def test_a_page_that_is_not_there_says_so() -> None:
    async with visitor(a_desk()) as client:
        answer = await client.get("/no/such/page")
        assert (answer.status_code, "There is no such page." in answer.text) == (404, True)
        assert (await client.put("/")).status_code == 405


async def test_more_moving_pages_and_scans_than_allowed_say_so_and_end() -> None:
    desk = a_desk()
    desk.streams, desk.scans = MOST_STREAMS, MOST_SCANS
    async with visitor(desk) as client:
        page = await client.get("/live/")
        scan = await client.get("/scan/t")
    assert (desk.streams, desk.scans) == (MOST_STREAMS, MOST_SCANS)
    assert f"{MOST_STREAMS} are open" in page.text
    assert page.text.startswith("retry: 5000\n")
    assert f"{MOST_SCANS} run at a time" in scan.text
    assert scan.text.endswith("event: over\ndata: over\n\n")


class NoAdmin:
    """Stands for an admin that nobody asks."""

    async def close(self) -> None:
        pass


async def test_tabs_share_a_question_and_ask_again_when_it_is_old() -> None:
    asked: list[object] = []

    async def reach(*_: object) -> Any:
        return NoAdmin()

    async def ask(admin: object, other: int = 0) -> int:
        asked.append(admin)
        await asyncio.sleep(0)
        return len(asked)

    link = Link(SystemRuntime("test"), SETTINGS, reach)
    both = await asyncio.gather(*(link.shared(60_000, ask) for _ in range(2)))
    assert both == [1, 1]
    assert await link.shared(60_000, ask) == 1
    link.forget()
    assert await link.shared(60_000, ask) == 2
    assert await link.shared(60_000, ask, 1) == 3
    await link.close()


async def test_an_error_is_shared_for_a_second_only(monkeypatch: pytest.MonkeyPatch) -> None:
    now_ms, tries = [0], [0]
    runtime = SystemRuntime("test")
    monkeypatch.setattr(runtime, "monotonic_ms", lambda: now_ms[0])

    async def reach(*_: object) -> Any:
        return NoAdmin()

    async def ask(_: object) -> None:
        tries[0] += 1
        raise RequestTimedOut("no answer")

    link = Link(runtime, SETTINGS, reach)
    for at_ms, tried in ((0, 1), (FAILED_MS - 1, 1), (FAILED_MS, 2)):
        now_ms[0] = at_ms
        with pytest.raises(RequestTimedOut):
            await link.shared(60_000, ask)
        assert tries == [tried]
    await link.close()
    with pytest.raises(ClientClosed):
        await link.ask(ask)


async def test_a_cluster_that_came_back_is_reached() -> None:
    tries: list[int] = []

    async def reach(*_: object) -> Any:
        tries.append(1)
        if len(tries) == 1:
            raise BootstrapError([])
        return NoAdmin()

    async def ask(_: object) -> str:
        return "an answer"

    link = Link(SystemRuntime("test"), SETTINGS, reach)
    with pytest.raises(BootstrapError):
        await link.ask(ask)
    assert await link.ask(ask) == "an answer"
    assert await link.ask(ask) == "an answer"
    assert len(tries) == 2
    await link.close()
