"""Responses that stream, and how a server-sent event is written."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import Final

from starlette.responses import StreamingResponse
from starlette.types import Message, Send

STREAM: Final = {"X-Accel-Buffering": "no"}
"""Tells nginx to pass on a stream without buffering it."""
SEND_S: Final = 120
"""The most seconds for which a client may take nothing; it is then disconnected."""


def event(text: str, name: str = "", retry_ms: int = 0, event_id: int | None = None) -> bytes:
    """Encode one event; after `retry_ms` the browser opens a stream again that has ended.

    It then sends the newest `event_id` as Last-Event-ID.
    """
    lines = [f"event: {name}"] if name else []
    lines += [] if event_id is None else [f"id: {event_id}"]
    lines += [f"retry: {retry_ms}"] if retry_ms else []
    lines += [f"data: {line}" for line in text.splitlines()]
    return ("\n".join(lines) + "\n\n").encode(errors="replace")


class Stream(StreamingResponse):
    """Streams what a generator yields, and closes it at once when the client disconnects."""

    def __init__(self, parts: AsyncGenerator[bytes, None], media_type: str | None = None) -> None:
        super().__init__(parts, headers=STREAM, media_type=media_type)
        self._parts = parts

    async def stream_response(self, send: Send) -> None:
        """Send the parts until they end, the client leaves, or it takes nothing for SEND_S."""

        async def patient(message: Message) -> None:
            async with asyncio.timeout(SEND_S):
                await send(message)

        with suppress(TimeoutError):
            async with aclosing(self._parts):
                await super().stream_response(patient)


class Events(Stream):
    """Streams server-sent events."""

    media_type = "text/event-stream"
