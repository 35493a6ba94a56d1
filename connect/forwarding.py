"""Requests from one worker to another over HTTP: forwarded ones, and a worker's own to its leader.

A request is sent once. Every wait has a deadline, and an answer has a bound.
"""

import json
import ssl
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, NamedTuple
from urllib.parse import quote

from .herding import HerderError

TIMEOUT_S: Final = 60.0
"""Seconds until a request to another worker is given up."""
MOST_ANSWER_BYTES: Final = 16 * 1024 * 1024


class Answer(NamedTuple):
    """The response of another worker."""

    status: int
    headers: Mapping[str, str]
    body: bytes


Forward = Callable[[str, str, Mapping[str, str], bytes], Awaitable[Answer]]
"""Sends method, URL, headers and body; returns the answer. Raises HerderError if there is none."""


async def forward(
    method: str,
    url: str,
    headers: Mapping[str, str],
    body: bytes,
    tls: ssl.SSLContext | None = None,
) -> Answer:
    """Send one request and return its answer; with https, `tls` says whom to trust.

    Raise HerderError if the other worker cannot be reached, or its answer is too long.
    """
    import aiohttp

    timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.request(
                method,
                url,
                headers=headers,
                data=body or None,
                allow_redirects=False,
                skip_auto_headers=("Content-Type",),  # without a body there is none
                ssl=tls or True,
            ) as response,
        ):
            content = bytearray()
            async for chunk in response.content.iter_chunked(1 << 16):
                content += chunk
                if len(content) > MOST_ANSWER_BYTES:
                    raise HerderError(f"The answer of {response.host} is too long to hand on")
            return Answer(response.status, dict(response.headers), bytes(content))
    except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
        raise HerderError(
            f"IO Error trying to forward REST request: {type(error).__name__}: {error}"
        ) from error


class HttpPeers:
    """The requests that a worker makes of its leader in its own name; signed by the caller."""

    def __init__(self, forward: Forward = forward) -> None:
        self._forward = forward

    async def post_task_configs(
        self, url: str, name: str, body: bytes, headers: Mapping[str, str]
    ) -> None:
        """POST the tasks of a connector. Raise HerderError, with the status of a refusal."""
        found = await self._forward(
            "POST",
            f"{url.rstrip('/')}/connectors/{quote(name, safe='')}/tasks?forward=false",
            {**headers, "Content-Type": "application/json"},
            body,
        )
        if found.status >= 300:
            error = HerderError(f"The leader answered {found.status}: {_message(found.body)}")
            error.status = found.status
            raise error


def _message(body: bytes) -> str:
    try:
        return str(json.loads(body)["message"])
    except (ValueError, KeyError, TypeError):
        return "without a message"
