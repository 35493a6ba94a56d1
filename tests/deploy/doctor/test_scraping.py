"""Metrics read over HTTP: from the product's own listener, and from servers that are none."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from minikafka.client.net.address import Address
from minikafka.deploy.doctor.facts import Scrape
from minikafka.deploy.doctor.scraping import ScrapeFailed, scrape
from minikafka.runtime.metrics_listener import MetricsListener
from minikafka.runtime.runtime import SystemRuntime


class Skewed(SystemRuntime):
    """A host whose clock is an hour ahead."""

    def wall_ms(self) -> int:
        return super().wall_ms() + 3_600_000


@pytest.fixture
async def runtime() -> AsyncIterator[SystemRuntime]:
    made = SystemRuntime("doctor")
    yield made
    made.close()


async def test_the_clock_of_the_host_that_serves_metrics(runtime: SystemRuntime) -> None:
    there = Skewed("broker")
    listener = MetricsListener(there, ("127.0.0.1", 0), (), lambda: None)
    await listener.open()
    found = await scrape(runtime, Address(*listener.address))
    await listener.close()
    there.close()
    assert found.clock is not None
    assert abs(found.clock.ahead_ms - 3_600_000) <= found.clock.error_ms
    assert found.flush_ms == {}


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "answered 404 to /metrics"),
        (b"\x00\x00\x00\x10 no HTTP at all\r\n\r\n", "is no HTTP server"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort", "is no HTTP server"),
    ],
)
async def test_what_is_no_server_of_metrics(
    runtime: SystemRuntime, answer: bytes, why: str
) -> None:
    with pytest.raises(ScrapeFailed, match=why):
        await _scraped(runtime, answer)


@pytest.mark.parametrize("date", ["", "Date: yesterday\r\n", "Date: \xe9t\xe9\r\n"])
async def test_an_answer_without_a_time(runtime: SystemRuntime, date: str) -> None:
    line = 'kafka_log_logflushstats_logflushrateandtimems{logDirectory="/d",quantile="0.99"} 7\n'
    head = f"HTTP/1.1 200 OK\r\n{date}Connection: close\r\n\r\n"
    found = await _scraped(runtime, (head + line).encode("latin-1"))
    assert found == Scrape(None, {"/d": 7.0})


async def _scraped(runtime: SystemRuntime, answer: bytes) -> Scrape:
    """Scrape a server that answers with these bytes."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        return await scrape(runtime, Address(*server.sockets[0].getsockname()[:2]))
    finally:
        server.close()
