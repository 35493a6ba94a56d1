"""One HTTP request to a server of tokens or of their keys, with bounds on its time and its answer.

Redirects are not followed, so that only the named server is asked. Requests are not repeated;
proxies and cookies are not supported.
"""

import asyncio
import ssl
from collections.abc import Mapping
from typing import Final

import h11

from ...runtime.errors import MinikafkaError
from ...runtime.version import VERSION
from ...security.tls import reason_of
from ...security.token_urls import TokenUrl

WITHIN_MS: Final = 10_000
"""Milliseconds for the whole request, from resolving the host to the last byte."""
ANSWER_BYTES_MAX: Final = 1 << 20
_READ_BYTES: Final = 64 << 10


class WebError(MinikafkaError):
    """The server gave no answer that can be used; the text names the address and says why."""


class Refusal(WebError):
    """The server answered with an error."""

    def __init__(self, url: TokenUrl, status: int, body: bytes) -> None:
        super().__init__(f"{url.text}: answered {status}")
        self.status = status
        self.body = body


async def ask(
    url: TokenUrl,
    context: ssl.SSLContext | None,
    form: bytes | None = None,
    headers: Mapping[str, str] | None = None,
) -> bytes:
    """Return the body of the answer to a GET, or to a POST of a form.

    `context` is the trust of https; None for http. Raise Refusal for an answer other than 200, and
    WebError if there is none within WITHIN_MS or if it has more than ANSWER_BYTES_MAX.
    """
    try:
        async with asyncio.timeout(WITHIN_MS / 1000):
            return await _exchange(url, context, form, headers or {})
    except TimeoutError:
        raise WebError(f"{url.text}: no answer within {WITHIN_MS} ms") from None
    except h11.ProtocolError as error:
        raise WebError(f"{url.text}: is no HTTP server: {error}") from None
    except OSError as error:
        raise WebError(f"{url.text}: {reason_of(error)}") from None


async def _exchange(
    url: TokenUrl,
    context: ssl.SSLContext | None,
    form: bytes | None,
    headers: Mapping[str, str],
) -> bytes:
    http = h11.Connection(h11.CLIENT)
    request = http.send(_request(url, form, headers)) or b""
    if form is not None:
        request += http.send(h11.Data(data=form)) or b""
    request += http.send(h11.EndOfMessage()) or b""
    reader, writer = await asyncio.open_connection(url.host, url.port, ssl=context)
    try:
        writer.write(request)
        status, body = 0, bytearray()
        while True:
            event = http.next_event()
            if event is h11.NEED_DATA:
                http.receive_data(await reader.read(_READ_BYTES))
            elif isinstance(event, h11.Response):
                status = event.status_code
            elif isinstance(event, h11.Data):
                body += event.data
                if len(body) > ANSWER_BYTES_MAX:
                    why = f"its answer has more than {ANSWER_BYTES_MAX} bytes"
                    raise WebError(f"{url.text}: {why}")
            elif isinstance(event, (h11.EndOfMessage, h11.ConnectionClosed)):
                break
    finally:
        writer.transport.abort()
    if 300 <= status < 400:
        raise WebError(f"{url.text}: answered {status}, and redirects are not followed")
    if status != 200:
        raise Refusal(url, status, bytes(body))
    return bytes(body)


def _request(url: TokenUrl, form: bytes | None, headers: Mapping[str, str]) -> h11.Request:
    host = f"[{url.host}]" if ":" in url.host else url.host
    fields = [
        ("Host", f"{host}:{url.port}"),
        ("User-Agent", f"minikafka/{VERSION}"),
        ("Accept", "application/json"),
        ("Connection", "close"),
        *headers.items(),
    ]
    if form is not None:
        fields.append(("Content-Type", "application/x-www-form-urlencoded"))
        fields.append(("Content-Length", str(len(form))))
    return h11.Request(method="GET" if form is None else "POST", target=url.target, headers=fields)
