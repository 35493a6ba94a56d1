"""Asks a worker through its REST API; plain HTTP, without the packages of the extra.

A request that meets a rebalance is sent again for a few seconds. Every wait has a deadline.
"""

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import quote, urlsplit

from ...runtime.errors import ConfigError, MinikafkaError

TIMEOUT_S: Final = 100
"""Seconds until an answer is given up; a worker answers within 90."""
MOST_ANSWER_BYTES: Final = 64 * 1024 * 1024
TRIES: Final = 6
"""How often a request is sent while the group rebalances, a second apart."""


class Refused(MinikafkaError):
    """The worker refused a request; the text is its message, or that nobody answers."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status
        """The HTTP status; 0 if there was no answer."""


class ConnectApi:
    """The REST API of one worker, which sends on what only the leader may do."""

    def __init__(self, url: str, pause: Callable[[float], None] = time.sleep) -> None:
        """Raise ConfigError if this is no URL of HTTP."""
        if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
            raise ConfigError("--url", url, "must be http://HOST:PORT or https://HOST:PORT")
        self._url = url.rstrip("/")
        self._pause = pause

    def ask(self, method: str, *path: str, body: object = None, query: str = "") -> Any:
        """Send one request; `path` is encoded part by part. Return the answer, None if empty.

        Raise Refused.
        """
        url = "/".join([self._url, *(quote(part, safe="") for part in path)])
        data = None if body is None else json.dumps(body).encode()
        for left in reversed(range(TRIES)):
            try:
                return self._once(method, f"{url}?{query}" if query else url, data)
            except Refused as error:
                if error.status != 409 or "already exists" in str(error) or not left:
                    raise
            self._pause(1)
        raise AssertionError("the last try raises or returns")

    def _once(self, method: str, url: str, data: bytes | None) -> Any:
        headers = {"Accept": "application/json"}
        if data is not None:
            headers["Content-Type"] = "application/json"
        request = urllib.request.Request(url, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:
                return _parsed(response.read(MOST_ANSWER_BYTES))
        except urllib.error.HTTPError as error:
            with error:
                raise Refused(error.code, _message(error)) from None
        except (OSError, ValueError) as error:
            why = getattr(error, "reason", error)
            raise Refused(0, f"no worker answers at {self._url}: {why}") from None


def _parsed(text: bytes) -> Any:
    return json.loads(text) if text else None


def _message(error: urllib.error.HTTPError) -> str:
    try:
        return str(json.loads(error.read(MOST_ANSWER_BYTES))["message"])
    except (ValueError, KeyError, TypeError, OSError):
        return f"HTTP {error.code} {error.reason}"
