"""The console of a large cluster: the time of each page, the cost of open tabs, a scan of records.

The application runs in this process, asked without sockets: a page's time is the server's, with the
answers of brokers that share the machine. Requests are counted where our connections send them.
"""

import asyncio
import contextlib
import statistics
import time
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import httpx

from minikafka import Admin as SyncAdmin
from minikafka import NewTopic
from minikafka.aio import Admin
from minikafka.client.net.connection import KafkaConnection
from minikafka.deploy.local_cluster import LocalCluster
from minikafka.protocol.types import TopicPartition
from minikafka.runtime.runtime import SystemRuntime
from minikafka.web.console.app import application
from minikafka.web.console.desk import Desk, desk_for
from minikafka.web.console.scan import scan
from minikafka.web.console.views.messages import question_of
from minikafka.web.serving import collect_rarely

from .load import replay
from .meters import cpu_seconds
from .requests import check_produced, produce

TOPICS: Final = 1_000
PARTITIONS: Final = 10
GROUPS: Final = 500
AT_ONCE: Final = 100
ROUNDS: Final = 7
TABS: Final = (1, 8)
TAB_SECONDS: Final = 20.0
MANY: Final = "many"
RECORDS: Final = 10_000_000
BATCH_BYTES: Final = 250_000
FILTERS: Final = ("nowhere", "$.to == nowhere")
TICK_SECONDS: Final = 0.005
TARGET_MS: Final = 200.0
WIDE: Final = "wide"
"""A topic with as many partitions as there are topics."""
EVERYTHING: Final = "a-mirror"
"""A group that reads every partition of the other topics."""
PAGES: Final = (
    "/",
    "/brokers",
    "/brokers/1",
    "/topics",
    "/topics?page=20",
    "/topics?q=99",
    "/topics/t-500",
    "/topics/t-500/3",
    "/topics/t-500/messages",
    f"/topics/{WIDE}",
    "/groups",
    "/groups?page=10",
    "/groups/g-250",
    f"/groups/{EVERYTHING}",
    "/reset/g-250",
    "/transactions",
    "/configs",
    "/configs?of=topic:t-500",
    "/quorum",
    "/reassignments",
    "/reassignments?topic=t-500&brokers=1,2,3",
    f"/reassignments?topic={WIDE}&brokers=1,2,3",
    "/do/create-topic",
)
WATCHED: Final = ("/", "/topics", "/groups", "/topics/t-500", "/topics/t-500/3")
"""Pages that are left open in tabs."""


class PageTimes(NamedTuple):
    """One page: ms where the cluster is asked, and where another tab has asked; requests for it."""

    path: str
    asked_ms: float
    shared_ms: float
    requests: int


class OpenTabs(NamedTuple):
    """Some tabs of one page, left open: requests a second, and cores of all brokers."""

    path: str
    tabs: int
    requests_per_second: float
    broker_cores: float


class Scanned(NamedTuple):
    """A search in ten million records that finds nothing, up to its bound."""

    filter: str
    records: int
    seconds: float
    longest_pause_ms: float
    """The longest time in which the console did nothing else."""
    end: str
    """The sentence with which it ended."""


class Found(NamedTuple):
    """Medians of some rounds."""

    pages: list[PageTimes]
    tabs: list[OpenTabs]
    scans: list[Scanned]
    cancelled_ms: float
    """From the visitor's leaving to the end of the scan."""


def measure() -> Found:
    """Measure every page of a cluster of 1,000 topics with 10 partitions each, and 500 groups."""
    collect_rarely()
    with LocalCluster(brokers=3) as cluster:
        asyncio.run(_fill(cluster.bootstrap))
        _fill_records(cluster)
        return asyncio.run(_measure(cluster))


def _fill_records(cluster: LocalCluster) -> None:
    with SyncAdmin(cluster.bootstrap) as admin:
        admin.create_topics([NewTopic(MANY, 1, 1, configs={"retention.ms": "-1"})])
        leader = cluster.node(admin.describe_topics([MANY])[MANY].partitions[0].leader_id)
    request = produce(MANY, record_bytes=10, batch_bytes=BATCH_BYTES, acks=1)
    filled = replay(
        (leader.host, leader.port),
        request.frame,
        window=5,
        requests=-(-RECORDS // request.records),
        seconds=60,
    )
    check_produced(filled.last_response)


async def _fill(bootstrap: str) -> None:
    async with Admin(bootstrap, default_api_timeout_ms=120_000) as admin:
        for first in range(0, TOPICS, AT_ONCE):
            await admin.create_topics(
                [NewTopic(f"t-{n}", PARTITIONS, 3) for n in range(first, first + AT_ONCE)]
            )
        await admin.create_topics([NewTopic(WIDE, TOPICS, 3)])
        for first in range(0, TOPICS, AT_ONCE):
            everything = {
                TopicPartition(f"t-{n}", index): 0
                for n in range(first, first + AT_ONCE)
                for index in range(PARTITIONS)
            }
            await admin.alter_group_offsets(EVERYTHING, everything)
        for first in range(0, GROUPS, AT_ONCE):
            await asyncio.gather(
                *(
                    admin.alter_group_offsets(
                        f"g-{n}",
                        {TopicPartition(f"t-{n}", index): 0 for index in range(PARTITIONS)},
                    )
                    for n in range(first, first + AT_ONCE)
                )
            )


async def _measure(cluster: LocalCluster) -> Found:
    runtime = SystemRuntime("bench")
    desk = desk_for(runtime, {"bootstrap.servers": cluster.bootstrap}, "token")
    transport = httpx.ASGITransport(application(desk))
    brokers = [pid for name, pid in cluster.pids.items() if name.startswith("broker")]
    try:
        with _counted() as sent:
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as tab:
                await tab.get("/")
                pages = [await _page(desk, tab, path, sent) for path in PAGES]
            tabs = [
                await _tabs(desk, path, count, sent, brokers) for path in WATCHED for count in TABS
            ]
        scans = [await _scan(desk, text) for text in FILTERS]
        cancelled_ms = await _cancelled(desk)
    finally:
        await desk.link.close()
        runtime.close()
    return Found(pages, tabs, scans, cancelled_ms)


@contextlib.contextmanager
def _counted() -> Iterator[list[str]]:
    """Note the name of each request that any client of this process sends."""
    sent: list[str] = []
    send = KafkaConnection.send

    def noted(self: KafkaConnection, message: Any, **more: Any) -> Any:
        sent.append(type(message).__name__)
        return send(self, message, **more)

    KafkaConnection.send = noted  # type: ignore[method-assign]
    try:
        yield sent
    finally:
        KafkaConnection.send = send  # type: ignore[method-assign]


async def _page(desk: Desk, tab: httpx.AsyncClient, path: str, sent: list[str]) -> PageTimes:
    asked, shared = [], []
    for _ in range(ROUNDS):
        desk.link.forget()
        sent.clear()
        asked.append(await _ms(tab, path))
        requests = len(sent)
        shared.append(await _ms(tab, path))
    return PageTimes(path, statistics.median(asked), statistics.median(shared), requests)


async def _ms(tab: httpx.AsyncClient, path: str) -> float:
    began = time.perf_counter()
    answer = await tab.get(path)
    assert answer.status_code == 200, f"{path}: {answer.status_code}"
    return (time.perf_counter() - began) * 1000


async def _scan(desk: Desk, text: str) -> Scanned:
    """Search for what is not there."""
    pauses: list[float] = []
    ticking = asyncio.create_task(_tick(pauses))
    began = time.perf_counter()
    question = question_of(MANY, {"from": "oldest", "filter": text})
    async with contextlib.aclosing(scan(desk.link, question)) as turns:
        async for progress in turns:
            last = progress
    took = time.perf_counter() - began
    ticking.cancel()
    return Scanned(text, last.scanned, took, max(pauses) * 1000, last.end)


async def _tick(pauses: list[float]) -> None:
    while True:
        began = time.perf_counter()
        await asyncio.sleep(TICK_SECONDS)
        pauses.append(time.perf_counter() - began - TICK_SECONDS)


async def _cancelled(desk: Desk) -> float:
    ending = asyncio.Event()
    path = f"/scan/{MANY}?from=oldest&filter=nowhere"
    scanning = asyncio.create_task(_stream(application(desk), path, ending))
    await asyncio.sleep(1)
    assert desk.scans == 1
    began = time.perf_counter()
    ending.set()
    await scanning
    assert desk.scans == 0
    return (time.perf_counter() - began) * 1000


async def _tabs(desk: Desk, path: str, tabs: int, sent: list[str], brokers: list[int]) -> OpenTabs:
    """Leave tabs open, each with the page's stream of events, as a browser would."""
    app = application(desk)
    ending = asyncio.Event()
    streams = [asyncio.create_task(_stream(app, "/live" + path, ending)) for _ in range(tabs)]
    await asyncio.sleep(1)
    sent.clear()
    began, spent = time.perf_counter(), sum(map(cpu_seconds, brokers))
    await asyncio.sleep(TAB_SECONDS)
    took = time.perf_counter() - began
    cores = (sum(map(cpu_seconds, brokers)) - spent) / took
    rate = len(sent) / took
    ending.set()
    await asyncio.gather(*streams)
    return OpenTabs(path, tabs, rate, cores)


async def _stream(app: Any, path: str, ending: asyncio.Event) -> None:
    """Read a stream until `ending`: httpx would wait for its end before it gives any of it."""
    name, _, query = path.partition("?")
    scope = {
        "type": "http",
        "method": "GET",
        "path": name,
        "raw_path": name.encode(),
        "query_string": query.encode(),
        "headers": [(b"host", b"localhost")],
        "scheme": "http",
        "server": ("localhost", 80),
        "http_version": "1.1",
        "asgi": {"version": "3.0"},
    }

    async def receive() -> dict[str, Any]:
        await ending.wait()
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        assert message.get("status", 200) == 200

    await app(scope, receive, send)


# The page.


def checks(results: dict[str, Any]) -> list[tuple[str, str, float, bool]]:
    """Compare with the targets; nothing where the console was not measured."""
    found = results.get("console")
    if found is None:
        return []
    slowest = max(found["pages"], key=lambda page: page["asked_ms"])
    more = max(
        eight["requests_per_second"] / max(one["requests_per_second"], 0.01)
        for one, eight in _pairs(found)
    )
    of = f"{TOPICS * PARTITIONS:,} partitions and {GROUPS} groups"
    slow = slowest["asked_ms"]
    pause = max(one["longest_pause_ms"] for one in found["scans"])
    return [
        (
            f"console, {of}: the slowest page, {slowest['path']} (ms)",
            f"≤ {TARGET_MS:.0f}",
            slow,
            slow <= TARGET_MS,
        ),
        (
            f"console: requests of {TABS[1]} tabs of a page, of one tab's",
            "≤ 1.5",
            more,
            more <= 1.5,
        ),
        ("console: the longest pause during a scan of records (ms)", "≤ 100", pause, pause <= 100),
    ]


def _pairs(found: dict[str, Any]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    by_page = {(tab["path"], tab["tabs"]): tab for tab in found["tabs"]}
    for path in WATCHED:
        yield by_page[path, TABS[0]], by_page[path, TABS[1]]


def section(results: dict[str, Any]) -> list[str]:
    """Write the console's part of the page."""
    found = results.get("console")
    if found is None:
        return []
    return [
        "",
        "## Console",
        "",
        f"A cluster of {TOPICS:,} topics with {PARTITIONS} partitions on three brokers each, and "
        f"{GROUPS} groups.",
        "The console's time for a page, ms: where the cluster is asked, and where another tab has",
        "just asked the same.",
        "",
        "| page | asked | shared | requests to brokers |",
        "|---|---|---|---|",
        *(
            f"| `{page['path']}` | {page['asked_ms']:.0f} | {page['shared_ms']:.1f} | "
            f"{page['requests']} |"
            for page in found["pages"]
        ),
        "",
        "Pages left open, whose moving part is drawn again and again:",
        "",
        "| page | tabs | requests/s, all brokers | cores, all brokers |",
        "|---|---|---|---|",
        *(
            f"| `{tab['path']}` | {tab['tabs']} | {tab['requests_per_second']:.1f} | "
            f"{tab['broker_cores']:.3f} |"
            for tab in found["tabs"]
        ),
        "",
        f"A search for what is not in {RECORDS:,} records of one partition. Whoever leaves ends it "
        f"within {found['cancelled_ms']:.1f} ms.",
        "",
        "| filter | records | s | longest pause of the console, ms | how it ended |",
        "|---|---|---|---|---|",
        *(
            f"| `{one['filter']}` | {one['records']:,} | {one['seconds']:.1f} | "
            f"{one['longest_pause_ms']:.0f} | {one['end']} |"
            for one in found["scans"]
        ),
    ]
