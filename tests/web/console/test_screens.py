"""Each screen against a real cluster: what it shows, what it changes, how often it asks."""

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from starlette.types import Message

from minikafka import Admin, AdminError, NewTopic, Producer
from minikafka.client.net.connection import KafkaConnection
from minikafka.runtime.runtime import SystemRuntime
from minikafka.web.console import scan
from minikafka.web.console.app import application
from minikafka.web.console.desk import Desk, desk_for
from minikafka.web.console.views.messages import question_of

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
        ("/topics", [TOPIC, "other", "1\u2013"]),
        ("/topics?q=fli", [TOPIC, "of 1"]),
        (f"/topics/{TOPIC}", [f"Partitions of {TOPIC}", str(RECORDS)]),
        (f"/topics/{TOPIC}/0", ["Every replica is in sync.", "Leader epochs"]),
        ("/groups", ["&lt;script&gt;", str(RECORDS // 2 - 1)]),
        (f"/groups/{quote(SCRIPT, safe='')}", ["&lt;script&gt;", f"{TOPIC}-0"]),
        (f"/reset/{quote(SCRIPT, safe='')}", ["are read again", "--to-earliest"]),
        ("/transactions", ["never-ends", "Who holds readers back", "other-1"]),
        ("/configs", ["min.insync.replicas", "the broker&#39;s file"]),
        (f"/configs?of=topic:{TOPIC}", ["retention.ms", "the default"]),
        ("/configs?of=broker:", ["Configs"]),
        ("/quorum", ["Active controller 100"]),
        ("/elections", ["Seen since"]),
        (f"/reassignments?topic={TOPIC}", ["Nothing has to move.", "Nothing moves."]),
        (f"/reassignments?topic={TOPIC}&brokers=1,2", ["replication factor 3 is larger"]),
        (f"/topics/{TOPIC}/messages?partition=1", ["console-consumer", "--partition 1"]),
        (f"/topics/{TOPIC}/messages?from=offset&at=x", ["is not a whole number"]),
        (f"/topics/{TOPIC}/messages?filter=$..a == 1", ["is no path"]),
        (f"/topics/{TOPIC}/1/1/replay", ["00 ff fe"]),
    ],
)
async def test_a_screen_shows(visitor: httpx.AsyncClient, path: str, words: list[str]) -> None:
    answer = await visitor.get(path)
    assert answer.status_code == 200
    assert SCRIPT not in answer.text
    assert [word for word in words if word not in text_of(answer.text)] == []


@pytest.mark.parametrize(
    "path",
    [
        *("/brokers/9", "/topics/none", "/topics/none/0", f"/topics/{TOPIC}/9", "/groups/none"),
        *("/topics/none/messages", "/configs?of=topic:none", "/configs?of=broker:9"),
    ],
)
async def test_what_the_cluster_does_not_have_is_not_found(
    visitor: httpx.AsyncClient, path: str
) -> None:
    answer = await visitor.get(path)
    assert (answer.status_code, "The cluster has no" in answer.text) == (404, True)


async def test_the_port_of_a_controller_is_named_as_such(cluster: Cluster) -> None:
    settings = {"bootstrap.servers": cluster.controller.address, "bootstrap.timeout.ms": "1000"}
    desk = desk_for(SystemRuntime("test"), settings, TOKEN)
    transport = httpx.ASGITransport(application(desk))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        answer = await client.get("/")
    await desk.link.close()
    assert answer.status_code == 503
    assert "it is a controller: clients need a broker" in answer.text


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


WHOLE = {
    "DescribeClusterRequest": 1,
    "MetadataRequest": 1,
    "ListPartitionReassignmentsRequest": 1,
    "DescribeQuorumRequest": 1,
}
"""The requests for a look at the whole cluster, however many topics it has."""


@pytest.mark.parametrize(
    ("path", "most"),
    [
        ("/", WHOLE),
        ("/topics", WHOLE),
        ("/brokers/1", {**WHOLE, "DescribeClusterRequest": 2, "DescribeLogDirsRequest": 1}),
        (
            f"/topics/{TOPIC}",
            {
                "DescribeTopicPartitionsRequest": 1,
                "ListPartitionReassignmentsRequest": 1,
                "ListOffsetsRequest": 6,
            },
        ),
        (
            "/groups",
            {
                "ListGroupsRequest": 3,
                "OffsetFetchRequest": 1,
                "MetadataRequest": 1,
                "DescribeLagRequest": 3,
            },
        ),
        (f"/configs?of=topic:{TOPIC}", {"DescribeClusterRequest": 1, "DescribeConfigsRequest": 1}),
        ("/quorum", {"DescribeQuorumRequest": 1}),
        (
            "/reassignments",
            {"ListPartitionReassignmentsRequest": 1, "DescribeClusterRequest": 1},
        ),
        (f"/topics/{TOPIC}/messages", {"DescribeTopicPartitionsRequest": 1}),
    ],
)
async def test_a_page_asks_for_what_it_shows(
    desk: Desk,
    visitor: httpx.AsyncClient,
    path: str,
    most: dict[str, int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await visitor.get(path)  # finds coordinators, once
    desk.link.forget()
    sent: Counter[str] = Counter()
    send = KafkaConnection.send

    def counted(self: KafkaConnection, message: object, **more: Any) -> Any:
        sent[type(message).__name__] += 1
        return send(self, message, **more)

    monkeypatch.setattr(KafkaConnection, "send", counted)
    await visitor.get(path)
    assert sent <= Counter(most), sent


async def scanned(visitor: httpx.AsyncClient, **asked: object) -> str:
    answer = await visitor.get(f"/scan/{TOPIC}", params={k: str(v) for k, v in asked.items()})
    assert answer.status_code == 200
    assert answer.text.endswith("event: over\ndata: over\n\n")
    return answer.text.replace("data: ", "")


@pytest.mark.parametrize(
    ("asked", "rows", "said"),
    [
        ({"limit": 500}, RECORDS + 2, "That is all there is."),
        ({"limit": 20}, 20, "20 records are shown"),
        ({"from": "oldest", "limit": 20}, 20, "20 records are shown"),
        (
            {"from": "oldest", "partition": 0, "limit": 500, "committed": "on"},
            RECORDS,
            "all there is",
        ),
        ({"from": "offset", "at": RECORDS - 3, "partition": 0}, 3, "all there is"),
        ({"from": "offset", "at": 10**9, "partition": 0}, 0, "nothing to read"),
        ({"from": "time", "at": "2000-01-01", "limit": 500}, RECORDS + 2, "all there is"),
        ({"from": "time", "at": "2100-01-01"}, 0, "nothing to read"),
        ({"filter": "$.flight.number == 7"}, 1, "1 record found in 102"),
        ({"from": "oldest", "filter": "key contains MK1"}, 11, "11 records found"),
        ({"filter": "alert(1)"}, 1, "all there is"),
        ({"partition": 2}, 0, "nothing to read"),
    ],
)
async def test_messages_are_found(
    visitor: httpx.AsyncClient, asked: dict[str, object], rows: int, said: str
) -> None:
    events = await scanned(visitor, **asked)
    assert events.count('class="row"') == rows
    assert said in events
    assert SCRIPT not in events


async def test_the_newest_message_comes_first_and_may_be_produced_once_more(
    visitor: httpx.AsyncClient,
) -> None:
    events = await scanned(visitor, partition=0, limit=20)
    offsets = [int(found) for found in re.findall(rf"/topics/{TOPIC}/0/(\d+)/replay", events)]
    assert offsets == list(range(RECORDS - 1, RECORDS - 21, -1))


async def test_a_scan_stops_at_its_bounds_and_says_where_to_go_on(
    visitor: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan, "MOST_SCANNED", 30)
    monkeypatch.setattr(scan, "TURN_RECORDS", 10)
    asked = {"from": "oldest", "partition": 0, "filter": "nowhere"}
    events = await scanned(visitor, **asked)
    bounds = "The scan stopped after 30 records, at its bounds of 30 records or 30 s"
    assert f"{bounds}: 70 offsets of partition 0 are left." in events
    assert "Go on from offset 30" in events
    newest = await scanned(visitor, **{**asked, "from": "newest"})
    assert "all in the newest 30 records; 70 older offsets were not read" in newest


async def test_a_scan_that_shows_enough_goes_on_at_the_next_record(
    visitor: httpx.AsyncClient,
) -> None:
    events = await scanned(visitor, **{"from": "oldest", "partition": 0, "limit": 20})
    assert "20 records are shown" in events
    assert "Go on from offset 20" in events


async def test_the_newest_of_several_partitions_are_those_written_last(
    visitor: httpx.AsyncClient, cluster: Cluster
) -> None:
    with Admin(cluster.bootstrap) as admin:
        admin.create_topics([NewTopic("in-turns", 2, 1)])
    with Producer(cluster.bootstrap) as producer:
        for number in range(60):
            producer.send("in-turns", b"%d" % number, partition=number % 2, timestamp_ms=number)
        producer.flush()
    answer = await visitor.get("/scan/in-turns", params={"limit": "20"})
    with Admin(cluster.bootstrap) as admin:
        admin.delete_topics(["in-turns"])
    shown = re.findall(r"/topics/in-turns/(\d)/(\d+)/replay", answer.text)
    assert [int(offset) * 2 + int(index) for index, offset in shown] == list(range(59, 39, -1))


async def test_whoever_goes_ends_the_scan(desk: Desk) -> None:
    began = asyncio.Event()

    async def receive() -> Message:
        await began.wait()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        if message.get("body"):
            began.set()

    scope = {
        "type": "http",
        "method": "GET",
        "path": f"/scan/{TOPIC}",
        "query_string": b"from=tail",
        "headers": [(b"host", b"localhost")],
    }
    await application(desk)(scope, receive, send)
    assert desk.scans == 0
    await desk.link.close()
    running = [task.get_name() for task in asyncio.all_tasks()]
    assert [name for name in running if "fetch" in name or "metadata" in name] == []


async def test_a_scan_of_a_topic_that_is_not_there_is_refused(desk: Desk) -> None:
    with pytest.raises(AdminError):
        await anext(scan.scan(desk.link, question_of("none", {})))


async def test_a_tail_shows_what_comes_and_counts_the_rest(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan, "TAIL_PER_TURN", 2)
    monkeypatch.setattr(scan, "MOST_TAILED", 2)
    question = question_of("other", {"from": "tail", "partition": "0"})
    async with asyncio.timeout(60), aclosing(scan.scan(desk.link, question)) as turns:
        await anext(turns)
        async with desk.link.producer() as producer:
            values = (b"%d" % number for number in range(9))
            await asyncio.gather(*(producer.send("other", one, partition=0) for one in values))
        found = [progress async for progress in turns]
    assert sum(len(progress.rows) for progress in found) >= 2
    assert found[-1].end == "The tail stopped after 2 records."
