"""Reads a broker's metrics over HTTP, for facts that no Kafka API has: clock and flush times."""

import asyncio
import re
from email.utils import parsedate_to_datetime
from typing import Final

import h11

from ...client.net.address import Address
from ...runtime.errors import MinikafkaError
from ...runtime.runtime import Runtime
from .facts import Clock, Scrape

METRICS_KEY: Final = "metrics.listener"
READ_BYTES: Final = 256 << 10
MOST_BYTES: Final = 64 << 20
"""The most bytes of metrics that are read."""
DATE_PRECISION_MS: Final = 1000
"""The precision of the HTTP field Date in milliseconds: it has whole seconds, rounded down."""
ANYWHERE: Final = ("", "0.0.0.0", "::", "[::]")
_FLUSH: Final = re.compile(
    rb'kafka_log_logflushstats_logflushrateandtimems\{logDirectory="((?:[^"\\]|\\.)*)",'
    rb'quantile="0\.99"\} (\S+)'
)


class ScrapeFailed(MinikafkaError):
    """The server at the metrics address did not send metrics; the message says what happened."""


def metrics_address(listener: str, broker_host: str) -> Address | None:
    """Return where the metrics of a broker are served; None if `listener` is no host:port.

    If the listener is bound to every interface, the host is the one that the broker advertises.
    """
    host, colon, port = listener.rpartition(":")
    if not colon or not port.isdecimal() or not 0 < int(port) < 65_536:
        return None
    return Address(broker_host if host in ANYWHERE else host.strip("[]"), int(port))


async def scrape(runtime: Runtime, address: Address) -> Scrape:
    """Read the metrics served at an address; raise OSError or ScrapeFailed if there are none.

    The caller bounds the time.
    """
    reader, writer = await asyncio.open_connection(*address)
    try:
        http = h11.Connection(h11.CLIENT)
        headers = [("Host", str(address)), ("Connection", "close")]
        asked_ms = runtime.wall_ms()
        writer.write(
            http.send(h11.Request(method="GET", target="/metrics", headers=headers)) or b""
        )
        writer.write(http.send(h11.EndOfMessage()) or b"")
        clock: Clock | None = None
        flushes: dict[str, float] = {}
        rest, count = b"", 0
        while True:
            event = http.next_event()
            if event is h11.NEED_DATA:
                http.receive_data(await reader.read(READ_BYTES))
            elif isinstance(event, h11.Response):
                if event.status_code != 200:
                    raise ScrapeFailed(f"{address}: answered {event.status_code} to /metrics")
                clock = _clock(event, asked_ms, runtime.wall_ms())
            elif isinstance(event, h11.Data) and count < MOST_BYTES:
                count += len(event.data)
                lines, _, rest = (rest + bytes(event.data)).rpartition(b"\n")
                flushes.update(flush_times(lines))
            elif not isinstance(event, h11.Data):
                return Scrape(clock, flushes)
    except h11.RemoteProtocolError as error:
        raise ScrapeFailed(f"{address}: is no HTTP server: {error}") from error
    finally:
        writer.close()


def flush_times(exposition: bytes) -> dict[str, float]:
    """Return the 99th percentile of the flushes of each log directory, in milliseconds."""
    return {
        directory.decode(errors="replace"): float(value)
        for directory, value in _FLUSH.findall(exposition)
        if value != b"NaN"
    }


def _clock(response: h11.Response, asked_ms: int, answered_ms: int) -> Clock | None:
    """Compare the server's clock, by the field Date of its answer, with the one here.

    Return None if there is no such field.
    """
    date = next((value for key, value in response.headers if key == b"date"), None)
    if date is None:
        return None
    try:
        told_ms = int(parsedate_to_datetime(date.decode("ascii")).timestamp() * 1000)
    except ValueError:
        return None
    half_ms = DATE_PRECISION_MS // 2
    middle_ms = (asked_ms + answered_ms) // 2
    return Clock(told_ms + half_ms - middle_ms, half_ms + (answered_ms - asked_ms) // 2 + 1)
