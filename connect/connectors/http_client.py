"""HTTP as the HTTP source and sink use it: bounded answers, waits after failures, keys of both."""

import random
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from ...client.net.backoff import Backoff
from ..api import ConnectError
from .http_paging import Answer
from .keys import secret, text, whole
from .ruled import needed

if TYPE_CHECKING:
    import aiohttp

RETRY_AFTER_MAX_MS: Final = 3_600_000
"""No server makes a task wait for longer."""
EXCERPT: Final = 300
"""Characters of an answer that an error shows."""


def _wrong_url(url: str) -> str | None:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return "must begin with http:// or https:// and a host"
    return "must not hold a password; set auth.header" if "@" in parts.netloc else None


def _wrong_headers(described: str) -> str | None:
    bad = [each for each in _split(described) if ":" not in each or "\n" in each or "\r" in each]
    return f"{bad[0]!r} is not NAME: VALUE" if bad else None


HTTP_KEYS: Final = (
    text("url", "The address of the requests.", check=_wrong_url),
    secret("auth.header", "The value of the header Authorization, such as Bearer TOKEN."),
    text("headers", "More headers, as NAME: VALUE, with | between them.", "", _wrong_headers),
    whole("timeout.ms", "How long a request with its answer may take.", 30_000, 1),
    whole(
        "retry.backoff.ms",
        "The wait after a failure, which doubles with each one; Retry-After counts more.",
        1000,
        1,
    ),
    whole("retry.backoff.max.ms", "The longest of these waits.", 60_000, 1),
)


class Unavailable(Exception):
    """The server could not be asked, or wants to be asked later; the text says why."""

    def __init__(self, why: str, after_ms: int | None = None) -> None:
        super().__init__(why)
        self.after_ms = after_ms
        """Milliseconds by its Retry-After."""


class Refused(ConnectError):
    """The server does not take this request (4xx), whoever sends it and however often."""


class HttpClient:
    """Requests to one address, over connections that are kept."""

    def __init__(self, settings: Mapping[str, Any], body_most: int) -> None:
        self._http = needed("aiohttp")
        pairs = (each.partition(":") for each in _split(settings["headers"]))
        headers = {name.strip(): value.strip() for name, _, value in pairs}
        if settings["auth.header"]:
            headers["Authorization"] = settings["auth.header"].strip()
        self.shown = settings["url"].partition("?")[0]
        """The address without its query, which may hold secrets."""
        self._url, self._body_most = settings["url"], body_most
        self._session: aiohttp.ClientSession = self._http.ClientSession(
            headers=headers,
            timeout=self._http.ClientTimeout(total=settings["timeout.ms"] / 1000),
            connector=self._http.TCPConnector(limit=0),
        )
        self._backoff = Backoff(
            settings["retry.backoff.ms"], settings["retry.backoff.max.ms"], steady_count=1
        )
        self.failures = 0
        """In a row."""

    async def close(self) -> None:
        """Close the connections."""
        await self._session.close()

    async def request(self, method: str, **what: Any) -> Answer:
        """Send a request with aiohttp's arguments, and return its answer.

        Raise Unavailable if it may work later (no connection, no answer in time, 408, 429, 5xx),
        Refused for other 4xx, ConnectError if nothing of the kind will ever work (401, 403, 3xx,
        an answer that is too long).
        """
        try:
            async with self._session.request(
                method, self._url, allow_redirects=False, **what
            ) as response:
                body = await self._read(response)
        except TimeoutError:
            raise Unavailable(f"{self.shown} did not answer in time") from None
        except self._http.ClientError as error:
            # The text of some of these holds the whole address.
            why = getattr(error, "message", None) or str(error).replace(self._url, self.shown)
            raise Unavailable(f"{self.shown} cannot be asked: {why}") from None
        return self._judged(response, body)

    async def _read(self, response: "aiohttp.ClientResponse") -> bytes:
        body = bytearray()
        async for chunk in response.content.iter_any():
            body += chunk
            if len(body) > self._body_most:
                if response.status >= 400:
                    break
                raise ConnectError(
                    f"{self.shown} answers with more than {self._body_most} bytes; "
                    "ask for less at once, or raise body.max.bytes"
                )
        return bytes(body)

    def _judged(self, response: "aiohttp.ClientResponse", body: bytes) -> Answer:
        status, headers = response.status, response.headers
        if status < 500 and status not in (408, 429):
            self.failures = 0
        if 200 <= status < 300 or status == 304:
            return Answer(status, headers, body)
        told = f"{self.shown} answers {status}: {body[:EXCERPT].decode('utf-8', 'replace')}"
        if status in (408, 429) or status >= 500:
            raise Unavailable(told, retry_after_ms(headers.get("Retry-After"), time.time()))
        if status in (401, 403, 407):
            raise ConnectError(f"{told}; is auth.header right?")
        if status < 400:
            there = headers.get("Location", "what it wants").partition("?")[0]
            raise ConnectError(f"{told}; set url to {there}")
        raise Refused(told)

    def wait_ms(self, failure: Unavailable) -> int:
        """Count a failure, and return how long to wait after it."""
        self.failures += 1
        own = self._backoff.after(self.failures, random)
        return own if failure.after_ms is None else failure.after_ms


def retry_after_ms(value: str | None, now_s: float) -> int | None:
    """Return the wait that a header Retry-After names (RFC 9110, 10.2.3), at most an hour."""
    if value is None:
        return None
    try:
        if value.strip().isdecimal():
            wait_s = float(value)
        else:
            wait_s = parsedate_to_datetime(value).timestamp() - now_s
    except (ValueError, OverflowError):
        return None
    return min(max(0, round(wait_s * 1000)), RETRY_AFTER_MAX_MS)


def _split(described: str) -> list[str]:
    return [each.strip() for each in described.split("|") if each.strip()]
