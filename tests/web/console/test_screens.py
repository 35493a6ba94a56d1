"""Each screen against a real cluster: what it shows, what it changes, how often it asks."""

import re
from collections.abc import AsyncIterator
from urllib.parse import quote

import httpx
import pytest

from minikafka import Admin
from minikafka.runtime.runtime import SystemRuntime
from minikafka.web.console.app import application
from minikafka.web.console.desk import Desk, desk_for

from ...support.cluster import Cluster
from .conftest import RECORDS, SCRIPT, TOPIC

pytestmark = [pytest.mark.slow, pytest.mark.processes]
TOKEN = "the token"


@pytest.fixture
async def desk(cluster: Cluster) -> AsyncIterator[Desk]:
    settings = {"bootstrap.servers": cluster.bootstrap}
    desk = desk_for(SystemRuntime("test"), settings, TOKEN, allow_changes=True)
    yield desk
    await desk.link.close()


@pytest.fixture
async def visitor(desk: Desk) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(application(desk))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        yield client


def text_of(html: str) -> str:
    """What a page says, in one line."""
    return " ".join(re.sub(r"<[^>]*>", " ", html).split())


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/", ["Everything is in order.", "Brokers 3"]),
        ("/brokers", ["in service"]),
        ("/brokers/2", ["Log directories", f"{TOPIC}-0"]),
        ("/topics", [TOPIC, "other", "of 2"]),
        ("/topics?q=fli", [TOPIC, "of 1"]),
        (f"/topics/{TOPIC}", [f"Partitions of {TOPIC}", str(RECORDS)]),
        (f"/topics/{TOPIC}/0", ["Every replica is in sync.", "Leader epochs"]),
        ("/groups", ["&lt;script&gt;", str(RECORDS // 2 - 1)]),
        (f"/groups/{quote(SCRIPT, safe='')}", ["&lt;script&gt;", f"{TOPIC}-0"]),
        (f"/reset/{quote(SCRIPT, safe='')}", ["are read again", "--to-earliest"]),
        ("/quorum", ["Active controller 100"]),
    ],
)
async def test_a_screen_shows(visitor: httpx.AsyncClient, path: str, words: list[str]) -> None:
    answer = await visitor.get(path)
    assert answer.status_code == 200
    assert SCRIPT not in answer.text
    assert [word for word in words if word not in text_of(answer.text)] == []


@pytest.mark.parametrize(
    "path", ["/brokers/9", "/topics/none", "/topics/none/0", f"/topics/{TOPIC}/9", "/groups/none"]
)
async def test_what_the_cluster_does_not_have_is_not_found(
    visitor: httpx.AsyncClient, path: str
) -> None:
    answer = await visitor.get(path)
    assert (answer.status_code, "The cluster has no" in answer.text) == (404, True)


async def change(visitor: httpx.AsyncClient, path: str, **fields: str) -> str:
    answer = await visitor.post(path, data={**fields, "token": TOKEN})
    return f"{answer.status_code} {text_of(answer.text)}"


async def test_a_topic_is_created_changed_and_deleted(
    visitor: httpx.AsyncClient, cluster: Cluster
) -> None:
    said = await change(
        visitor, "/do/create-topic", topic="mine", partitions="1", configs="retention.ms=1000"
    )
    assert "Topic mine is created." in said
    assert "--config retention.ms=1000" in said
    assert "200 " in await change(visitor, "/do/add-partitions", topic="mine", partitions="2")
    assert "at offset 0 of mine-1" in await change(
        visitor, "/do/produce", topic="mine", partition="1", value="x", headers="a=b"
    )
    assert "begins at offset 1 now" in await change(
        visitor, "/do/delete-records", topic="mine", partition="1", offset="-1"
    )
    assert "leader" in await change(visitor, "/do/elect-preferred", topic="mine", partition="0")
    assert "200 " in await change(
        visitor, "/do/set-config", of="topic:mine", key="retention.ms", value=""
    )
    wrong = await change(visitor, "/do/delete-topic", topic="mine", again="yours")
    assert wrong.startswith("422 ")
    assert "is deleted" in await change(visitor, "/do/delete-topic", topic="mine", again="mine")
    with Admin(cluster.bootstrap) as admin:
        assert "mine" not in [one.name for one in admin.list_topics()]


async def test_what_the_cluster_refuses_is_said_beside_the_form(
    visitor: httpx.AsyncClient,
) -> None:
    said = await change(visitor, "/do/create-topic", topic="no/such name", partitions="1")
    assert said.startswith("502 ")
    assert "no/such name" in said
    huge = await change(visitor, "/do/create-topic", topic="t", partitions="9" * 12)
    assert huge.startswith("422 ")


async def test_a_group_is_reset_to_what_its_preview_showed(
    visitor: httpx.AsyncClient, cluster: Cluster
) -> None:
    path = f"/reset/{quote(SCRIPT, safe='')}"
    preview = text_of((await visitor.get(path, params={"scenario": "shift", "amount": "-7"})).text)
    assert "7 are read again" in preview
    said = await change(visitor, path, scenario="shift", amount="-7")
    assert said.startswith("200 ")
    assert "--shift-by -7 --execute" in said
    for amount in ("", "x", "2026-99-99"):
        wrong = await visitor.get(path, params={"scenario": "time", "amount": amount})
        assert "must look like" in wrong.text


async def test_a_second_tab_costs_the_cluster_nothing(
    desk: Desk, visitor: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    of_old = desk.link._asked

    async def counted(ask: object) -> object:
        asked.append(ask)
        return await of_old(ask)  # type: ignore[arg-type]

    monkeypatch.setattr(desk.link, "_asked", counted)
    for _ in range(5):
        await visitor.get("/topics")
        await visitor.get("/")
    assert len(asked) == 1
