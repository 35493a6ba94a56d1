"""Metrics and health over HTTP: formats, health, nonsense, slow scrapers, too many of them."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families as prometheus

from minikafka.runtime import metrics_listener, process_metrics
from minikafka.runtime.errors import ConfigError
from minikafka.runtime.metrics import LINES_PER_SLICE, Collector, Family, gauge
from minikafka.runtime.metrics_config import metrics_address
from minikafka.runtime.metrics_listener import CONNECTIONS_MAX, SCRAPES_MAX, MetricsListener
from minikafka.runtime.process_metrics import LoopDelay
from minikafka.runtime.runtime import SystemRuntime
from minikafka.runtime.version import VERSION

from ..support.http import PROMETHEUS_ACCEPT, exchange, get, parse

MANY = 2_000_000
SCRAPE = b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n"
Open = Callable[..., "asyncio.Future[MetricsListener]"]


class Lines:
    """A family that never ends, as far as a scraper that does not read is concerned."""

    def __init__(self) -> None:
        self.made = 0

    def __call__(self) -> Iterator[Family]:
        yield gauge("lines", "Many.", self._samples())

    def _samples(self) -> Iterator[tuple[str, float]]:
        for number in range(MANY):
            self.made += 1
            yield f'{{number="{number}"}}', number


class Health:
    why: str | None = None

    def __call__(self) -> str | None:
        return self.why


class Lab:
    def __init__(self) -> None:
        self.crashes: list[str] = []
        self.runtime = SystemRuntime("x", on_crash=lambda task, _: self.crashes.append(task))
        self.health = Health()
        self.opened: list[MetricsListener] = []

    async def open(self, *collectors: Collector, port: int = 0) -> MetricsListener:
        address = ("127.0.0.1", port)
        listener = MetricsListener(self.runtime, address, collectors, self.health)
        await listener.open()
        self.opened.append(listener)
        return listener

    async def close(self) -> None:
        for listener in self.opened:
            await listener.close()
            assert not listener._visits
        self.runtime.close()
        assert self.crashes == []


@pytest.fixture
async def lab() -> AsyncIterator[Lab]:
    made = Lab()
    yield made
    await made.close()


def one(value: float) -> Collector:
    def collect() -> Sequence[Family]:
        return (gauge("minikafka_one", 'One, "quoted".', value),)

    return collect


@pytest.mark.parametrize(
    ("accept", "content_type", "read"),
    [
        (PROMETHEUS_ACCEPT, "application/openmetrics-text; version=1.0.0", open_metrics),
        ("text/plain", "text/plain; version=0.0.4", prometheus),
        ("*/*", "text/plain; version=0.0.4", prometheus),
    ],
)
async def test_a_scrape_in_the_format_that_is_asked_for(
    lab: Lab, accept: str, content_type: str, read: Callable[[str], Iterator[object]]
) -> None:
    listener = await lab.open(one(41.5))
    response = await get(listener.address, "/metrics?x=1", accept=accept)
    assert response.status == 200
    assert response.headers["content-type"].startswith(content_type)
    samples = {
        sample.name: sample
        for family in read(response.body)
        for sample in family.samples  # type: ignore[attr-defined]
    }
    assert samples["minikafka_one"].value == 41.5
    assert samples["minikafka_build_info"].labels == {"version": VERSION}
    assert samples["process_cpu_seconds_total"].value > 0
    assert samples["process_open_fds"].value < samples["process_max_fds"].value
    assert samples["process_resident_memory_bytes"].value > 1e6
    assert samples["process_resident_memory_bytes"].value < 1e12
    now = lab.runtime.wall_ms() / 1000
    assert 0 < now - samples["process_start_time_seconds"].value < 86_400
    assert samples["minikafka_event_loop_delay_ms_count"].value >= 0


async def test_health_says_why_it_is_not_ready(lab: Lab) -> None:
    listener = await lab.open()
    assert (await get(listener.address, "/health/live")).body == "alive\n"
    assert (await get(listener.address, "/health/ready")).status == 200
    lab.health.why = "the broker starts"
    response = await get(listener.address, "/health/ready")
    assert (response.status, response.body) == (503, "the broker starts\n")
    assert (await get(listener.address, "/health/live")).status == 200


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 a client that speaks TLS\r\n\r\n", 400),
        (b"nonsense\r\n\r\n", 400),
        (b"GET /metrics HTTP/1.1\r\n\r\n", 400),  # RFC 9112, 3.2: without a Host.
        (b"GET / HTTP/1.1\r\nHost: here\r\n\r\n", 404),
        (b"GET /metrics/../etc HTTP/1.1\r\nHost: here\r\n\r\n", 404),
        (b"POST /metrics HTTP/1.1\r\nHost: here\r\nContent-Length: 0\r\n\r\n", 405),
        (b"GET /" + b"x" * 100_000, 431),
        (b"GET /health/live HTTP/1.0\r\n\r\n", 200),
    ],
)
async def test_what_is_not_served_is_refused_in_a_sentence(
    lab: Lab, request_bytes: bytes, status: int
) -> None:
    listener = await lab.open()
    response = parse(await exchange(listener.address, request_bytes))
    assert response.status == status
    assert response.body
    assert ("allow" in response.headers) == (status == 405)
    assert (await get(listener.address, "/health/live")).status == 200


async def test_head_has_no_body(lab: Lab) -> None:
    listener = await lab.open(one(1))
    for path in ("/metrics", "/health/live"):
        response = await get(listener.address, path, method="HEAD")
        assert (response.status, response.body) == (200, "")


async def test_who_says_nothing_or_half_is_closed(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics_listener, "REQUEST_WITHIN_S", 0.05)
    listener = await lab.open()
    assert await exchange(listener.address, b"") == b""
    assert await exchange(listener.address, b"GET /metrics HTTP/1.1\r\nHost:") == b""
    _, writer = await asyncio.open_connection(*listener.address)
    writer.close()
    assert (await get(listener.address, "/health/live")).status == 200


async def test_who_does_not_read_costs_a_slice_and_is_closed_in_the_end(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics_listener, "RESPONSE_WITHIN_S", 0.3)
    lines = Lines()
    listener = await lab.open(lines)
    reader, writer = await asyncio.open_connection(*listener.address, limit=1)
    writer.write(SCRAPE)
    await reader.readexactly(1)
    (visiting,) = listener._visits.values()
    monkeypatch.undo()
    assert (await get(listener.address, "/health/live")).status == 200
    await asyncio.wait([visiting])
    # What the system buffers for a connection, and a slice.
    assert LINES_PER_SLICE <= lines.made < MANY / 2
    writer.transport.abort()


async def test_the_loop_does_other_work_between_slices(lab: Lab) -> None:
    lines = Lines()
    listener = await lab.open(lines)
    scrape = asyncio.create_task(get(listener.address, "/metrics"))
    seen = 0
    last = 0
    while lines.made < 20 * LINES_PER_SLICE:
        assert lines.made - last <= 2 * LINES_PER_SLICE
        seen += lines.made > last
        last = lines.made
        await asyncio.sleep(0)
    assert seen >= 10
    scrape.cancel()


async def test_a_thousand_that_are_silent_keep_no_scrape_out(lab: Lab) -> None:
    listener = await lab.open(one(5))
    silent = []
    for _ in range(1_000):
        _, writer = await asyncio.open_connection(*listener.address)
        silent.append(writer)
        if len(silent) > 2 * CONNECTIONS_MAX:
            silent.pop(0).close()
    assert len(listener._visits) == CONNECTIONS_MAX
    assert "minikafka_one 5" in (await get(listener.address, "/metrics")).body
    for writer in silent:
        writer.close()


async def test_a_thousand_scrapers_that_do_not_read_hold_a_slice_each_and_leave_room_for_health(
    lab: Lab,
) -> None:
    listener = await lab.open(Lines())
    writers: list[asyncio.StreamWriter] = []
    for _ in range(SCRAPES_MAX):
        reader, writer = await asyncio.open_connection(*listener.address, limit=1)
        writer.write(SCRAPE)
        await reader.readexactly(10)
        writers.append(writer)
    for _ in range(1_000 - SCRAPES_MAX):
        refused = parse(await exchange(listener.address, SCRAPE))
        assert refused.status == 503
        assert "12 scrapes are under way" in refused.body
    assert (await get(listener.address, "/health/live")).status == 200
    assert listener._scrapes == len(listener._visits) == SCRAPES_MAX
    for visit in listener._visits:
        held = visit._writer.transport.get_write_buffer_size()
        assert held < 40 * LINES_PER_SLICE
    for writer in writers:
        writer.transport.abort()
    await asyncio.wait(listener._visits.values())
    assert listener._scrapes == 0
    assert (await get(listener.address, "/health/ready")).status == 200


async def test_a_connection_beyond_the_last_place_is_told_so(lab: Lab) -> None:
    listener = await lab.open()
    open_ones = [await asyncio.open_connection(*listener.address) for _ in range(CONNECTIONS_MAX)]
    async with asyncio.timeout(30):
        while len(listener._visits) < CONNECTIONS_MAX:  # noqa: ASYNC110 - nothing else tells it
            await asyncio.sleep(0)
    for visit in listener._visits:
        visit.is_served = True
    assert parse(await exchange(listener.address, b"")).status == 503
    for visit in listener._visits:
        visit.is_served = False
    assert (await get(listener.address, "/health/live")).status == 200
    for _, writer in open_ones:
        writer.close()


async def test_a_collector_that_fails_ends_its_scrape_alone(
    lab: Lab, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> Iterator[Family]:
        yield gauge("before", "Fine.", 1)
        raise LookupError("no such partition")

    listener = await lab.open(fail)
    assert b"0\r\n\r\n" not in await exchange(listener.address, SCRAPE)
    assert "no such partition" in caplog.text
    assert (await get(listener.address, "/health/live")).status == 200


async def test_a_port_that_is_taken_is_an_error_that_names_the_key(lab: Lab) -> None:
    port = (await lab.open()).address[1]
    with pytest.raises(ConfigError, match=rf"metrics\.listener=127\.0\.0\.1:{port}: .*in use"):
        await lab.open(port=port)


async def test_a_scrape_under_way_ends_with_the_listener(lab: Lab) -> None:
    listener = await lab.open(Lines())
    reader, writer = await asyncio.open_connection(*listener.address)
    writer.write(SCRAPE)
    await reader.readexactly(100)
    await listener.close()
    with pytest.raises(OSError, match="refused"):
        await asyncio.open_connection(*listener.address)
    writer.close()


async def test_the_delay_of_the_loop_is_what_a_callback_came_too_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(process_metrics, "BEAT_S", 0)
    times = iter([0, 30_000, 30_000])
    beats = asyncio.Event()

    def now_us() -> int:
        try:
            return next(times)
        except StopIteration:
            beats.set()
            return 30_000

    delay = LoopDelay(now_us)
    delay.start()
    await beats.wait()
    delay.close()
    longest = dict(delay.delays.quantiles(0))[0.999]
    assert 30 <= longest <= 34
    before = delay.delays.count
    await asyncio.sleep(0)
    assert delay.delays.count == before


@pytest.mark.parametrize(
    ("text", "address"),
    [
        (None, None),
        ("127.0.0.1:9404", ("127.0.0.1", 9404)),
        ("[::1]:0", ("::1", 0)),
        ("localhost:1", ("localhost", 1)),
    ],
)
def test_addresses(text: str | None, address: tuple[str, int] | None) -> None:
    assert metrics_address(text) == address


@pytest.mark.parametrize("text", ["9404", ":9404", "localhost", "localhost:x", "h:65536", "h:-1"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"metrics\.listener=.*must be host:port"):
        metrics_address(text)
