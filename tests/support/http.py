"""One HTTP request on a connection of its own, as a scraper or a load balancer sends it."""

import asyncio
from dataclasses import dataclass

import h11

PROMETHEUS_ACCEPT = (
    "application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.4,*/*;q=0.2"
)


@dataclass(frozen=True)
class Response:
    status: int
    headers: dict[str, str]
    body: str


async def get(
    address: tuple[str, int], path: str, *, method: str = "GET", accept: str = "*/*"
) -> Response:
    request = f"{method} {path} HTTP/1.1\r\nHost: here\r\nAccept: {accept}\r\n\r\n"
    return parse(await exchange(address, request.encode()), method)


async def exchange(address: tuple[str, int], data: bytes) -> bytes:
    """Send these bytes, and return all that comes until the connection ends."""
    reader, writer = await asyncio.open_connection(*address)
    writer.write(data)
    try:
        return await reader.read()
    finally:
        writer.close()


def parse(data: bytes, method: str = "GET") -> Response:
    http = h11.Connection(h11.CLIENT)
    http.send(h11.Request(method=method, target="/", headers=[("Host", "here")]))
    http.send(h11.EndOfMessage())
    http.receive_data(data)
    http.receive_data(b"")
    head = http.next_event()
    assert isinstance(head, h11.Response), head
    body = b""
    while isinstance(event := http.next_event(), h11.Data):
        body += event.data
    assert isinstance(event, h11.EndOfMessage), event
    headers = {key.decode(): value.decode() for key, value in head.headers}
    return Response(head.status_code, headers, body.decode())
