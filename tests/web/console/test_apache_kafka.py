"""Each screen against Apache Kafka: what its APIs allow is shown, the rest is one sentence."""

import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

from minikafka import Producer
from minikafka.runtime.runtime import SystemRuntime
from minikafka.web.console.app import application
from minikafka.web.console.desk import desk_for

from ...support import apache_kafka
from .conftest import RECORDS, SCRIPT, TOPIC, fill

pytestmark = [pytest.mark.slow, pytest.mark.peers, pytest.mark.processes]
TOKEN = "the token"
NEWER = "newer"
"""A group of the protocol of KIP-848, which our brokers do not have."""
GROUP = quote(SCRIPT, safe="")


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory = tmp_path_factory.mktemp("kafka")
    with apache_kafka.one_node(directory) as bootstrap:
        fill(bootstrap, replicas=1)
        read_by_the_newer_protocol(bootstrap, directory)
        with Producer(bootstrap, transactional_id="never-ends") as producer:
            producer.begin_transaction()
            producer.send("other", b"not decided", partition=1)
            producer.flush()
            yield bootstrap


def read_by_the_newer_protocol(bootstrap: str, directory: Path) -> None:
    properties = directory / "consumer.properties"
    properties.write_text("group.protocol=consumer\nauto.offset.reset=earliest\n")
    apache_kafka.java(
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        *("--bootstrap-server", bootstrap, "--topic", TOPIC, "--group", NEWER),
        *("--command-config", str(properties), "--max-messages", str(RECORDS + 2)),
    )


@pytest.fixture
async def visitor(kafka: str) -> AsyncIterator[httpx.AsyncClient]:
    desk = desk_for(SystemRuntime("test"), {"bootstrap.servers": kafka}, TOKEN, allow_changes=True)
    transport = httpx.ASGITransport(application(desk))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        yield client
    await desk.link.close()


def text_of(html: str) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", html).split())


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/", ["Everything is in order.", "Brokers 1", "Controllers 1"]),
        ("/brokers", ["in service"]),
        ("/brokers/1", ["Log directories", f"{TOPIC}-0"]),
        ("/topics", [TOPIC, "other", "of 2"]),
        (f"/topics/{TOPIC}", [f"Partitions of {TOPIC}", str(RECORDS)]),
        (f"/topics/{TOPIC}/0", ["do not describe their replicas", f"Log end {RECORDS}"]),
        ("/groups", ["&lt;script&gt;", str(RECORDS // 2 - 1), "counted in offsets", NEWER]),
        (f"/groups/{GROUP}", ["&lt;script&gt;", f"{TOPIC}-0", "counted in offsets"]),
        (f"/groups/{NEWER}", ["of the consumer protocol: its members cannot be", f"{TOPIC}-0"]),
        (f"/reset/{GROUP}", ["are read again", "--to-earliest"]),
        ("/transactions", ["never-ends", "Who holds readers back", "other-1"]),
        ("/configs", ["min.insync.replicas", "the broker&#39;s file"]),
        (f"/configs?of=topic:{TOPIC}", ["retention.ms", "the default"]),
        ("/quorum", ["Active controller 1"]),
        (f"/reassignments?topic={TOPIC}&brokers=1", ["Nothing has to move.", "Nothing moves."]),
        (f"/topics/{TOPIC}/1/1/replay", ["00 ff fe"]),
        (f"/scan/{TOPIC}?limit=500", [f"{RECORDS + 2} records found", "That is all there is."]),
        (f"/scan/{TOPIC}?from=time&at=2000-01-01&limit=20", ["20 records are shown"]),
        ("/scan/other?committed=on&partition=1", ["There is nothing to read."]),
    ],
)
async def test_a_screen_shows(visitor: httpx.AsyncClient, path: str, words: list[str]) -> None:
    answer = await visitor.get(path)
    assert answer.status_code == 200
    assert SCRIPT not in answer.text
    # Kafka's documentation is markup, which is shown as text.
    assert "&lt;code&gt;" not in answer.text
    assert [word for word in words if word not in text_of(answer.text)] == []


@pytest.mark.parametrize(
    "path", ["/topics/none", "/topics/none/0", "/groups/none", "/configs?of=topic:none"]
)
async def test_what_the_cluster_does_not_have_is_not_found(
    visitor: httpx.AsyncClient, path: str
) -> None:
    answer = await visitor.get(path)
    assert (answer.status_code, "The cluster has no" in answer.text) == (404, True)


async def test_changes_are_carried_out(visitor: httpx.AsyncClient) -> None:
    async def change(path: str, **fields: str) -> str:
        answer = await visitor.post(path, data={**fields, "token": TOKEN})
        return f"{answer.status_code} {text_of(answer.text)}"

    created = await change("/do/create-topic", topic="mine", partitions="1", configs="")
    assert "Topic mine is created." in created
    assert "200 " in await change("/do/add-partitions", topic="mine", partitions="2")
    assert "at offset 0 of mine-1" in await change(
        "/do/produce", topic="mine", partition="1", value="x", headers="a=b"
    )
    assert "begins at offset 1 now" in await change(
        "/do/delete-records", topic="mine", partition="1", offset="-1"
    )
    assert "200 " in await change("/do/elect-preferred", topic="mine", partition="0")
    assert "200 " in await change("/do/set-config", of="topic:mine", key="retention.ms", value="1")
    assert "is deleted" in await change("/do/delete-topic", topic="mine", again="mine")
    said = await change(f"/reset/{GROUP}", scenario="shift", amount="-7")
    assert said.startswith("200 ")
    view = text_of((await visitor.get("/transactions")).text)
    (first,) = re.findall(r"other-1 (\d+) 1 never-ends", view)
    aborted = await change("/do/abort-transaction", topic="other", partition="1", offset=first)
    assert "is aborted on the partition" in aborted
