"""One request as a handler sees it: path, query, body, and the clients of who asks."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from ...client.admin.admin import Admin
from ...client.consumer.consumer import Consumer
from ...runtime.runtime import Runtime
from . import media
from .clients import CLOSE_MS, CLOSE_S, Clients, Held
from .errors import (
    BAD_REQUEST,
    NO_ROOM,
    TOO_LARGE,
    TOO_MANY,
    TOO_SLOW,
    UNPROCESSABLE,
    Kind,
    RestError,
)
from .instances import Instances
from .peers import Peers
from .schemas import INT64, checked, parsed
from .settings import Settings
from .v3_kinds import Site

T = TypeVar("T")
BODY_S: Final = 60
"""The most seconds until a body has arrived."""
TURN_MS: Final = 1_000
"""Ms between two looks for what is idle."""


@dataclass(slots=True)
class Desk:
    """The state that all requests of one proxy share."""

    runtime: Runtime
    settings: Settings
    clients: Clients
    instances: Instances
    peers: Peers
    closing: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the proxy shall stop; all streams end then."""
    streams: int = 0
    _ending: dict[asyncio.Task[None], None] = field(default_factory=dict)
    """The consumers of streams that are being closed."""

    @contextlib.asynccontextmanager
    async def reading(self, consumer: Consumer[bytes, bytes]) -> AsyncIterator[None]:
        """Start a consumer, and close it at the end of the block."""
        try:
            await consumer.start()
            yield
        finally:
            # Starlette cancels the task of a client that left, at each of its awaits again. A task
            # of its own closes the consumer in spite of that.
            task = self.runtime.spawn(consumer.close(CLOSE_MS), "close")
            self._ending[task] = None
            task.add_done_callback(self._ending.pop)
            await asyncio.shield(task)

    def check_streams(self) -> None:
        """Raise RestError if there is no room for a stream."""
        most = self.settings.rest.max_streams
        if self.streams >= most:
            raise RestError(NO_ROOM, f"{most} streams are open: close some.", retry_after_s=1)

    @contextlib.contextmanager
    def streaming(self, held: Held) -> Iterator[None]:
        """Count a stream during the block, and keep the clients of its user open."""
        self.streams += 1
        try:
            with held.used():
                yield
        finally:
            self.streams -= 1

    async def upkeep(self) -> None:
        """Close what is idle, until the proxy stops."""
        while not self.closing.is_set():
            now_ms = self.runtime.monotonic_ms()
            self.instances.close_idle(now_ms)
            self.clients.close_idle(now_ms)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.closing.wait(), TURN_MS / 1000)

    async def close(self) -> None:
        """End streams, close instances and clients."""
        self.closing.set()
        await self.instances.close()
        await self.clients.close()
        await self.peers.close()
        if self._ending:
            await asyncio.wait(list(self._ending), timeout=CLOSE_S)


@dataclass(slots=True)
class Call:
    """One request."""

    desk: Desk
    request: Request
    held: Held
    site: Site
    """The cluster; its id is empty in v2, which does not name it."""
    _body: bytes | None = None

    @property
    def path(self) -> dict[str, Any]:
        """The values in the path, by name."""
        return self.request.path_params

    @property
    def is_v2(self) -> bool:
        """True for a request of v2."""
        return not self.request.url.path.startswith("/v3/")

    async def admin(self) -> Admin:
        """Return the admin of who asks; raise BootstrapError if it cannot be started."""
        return await self.held.admin()

    # -- what is asked

    async def body(self) -> bytes:
        """Read the body; raise RestError if it is too long (413) or too slow (408)."""
        if self._body is None:
            most = self.desk.settings.rest.max_body_bytes
            parts: list[bytes] = []
            size = 0
            deadline_ms = self.desk.runtime.monotonic_ms() + BODY_S * 1000
            async for part in self.parts(BODY_S):
                size += len(part)
                if size > most:
                    why = f"The body has more than {most} bytes (minikafka.rest.max.request.bytes)."
                    raise RestError(TOO_LARGE, why)
                if self.desk.runtime.monotonic_ms() > deadline_ms:
                    raise RestError(TOO_SLOW, f"The body is not there after {BODY_S} s.")
                parts.append(part)
            self._body = b"".join(parts)
        return self._body

    async def parts(self, within_s: float) -> AsyncIterator[bytes]:
        """Yield the body as it arrives; raise RestError if a part takes longer than `within_s`."""
        stream = self.request.stream()
        while True:
            try:
                async with asyncio.timeout(within_s):
                    part = await anext(stream)
            except StopAsyncIteration:
                return
            except TimeoutError:
                raise RestError(TOO_SLOW, f"Nothing came for {within_s:.0f} s.") from None
            except ClientDisconnect:
                raise RestError(BAD_REQUEST, "The client left.") from None
            yield part

    async def unless_left(
        self, work: Coroutine[Any, Any, T], undo: Callable[[T], None] | None = None
    ) -> T:
        """Do work; if the client leaves meanwhile, end the work or undo it, and raise RestError.

        Programs give up sooner than their read, and ask again: they get the records then.
        """
        await self.body()  # what comes behind it is that the client leaves
        working = asyncio.get_running_loop().create_task(work, name="work")
        leaving = asyncio.ensure_future(self.request.receive())
        try:
            await asyncio.wait([working, leaving], return_when=asyncio.FIRST_COMPLETED)
            if not leaving.done():
                return working.result()
            working.cancel()
            await asyncio.wait([working])
            if undo is not None and not working.cancelled() and not working.exception():
                undo(working.result())
            raise RestError(BAD_REQUEST, "The client left.")
        finally:
            working.cancel()
            leaving.cancel()

    async def json(self, schema: str, kind: Kind | None = None, *, required: bool = True) -> Any:
        """Read the body and return it as JSON that has a schema; raise RestError if it has not.

        Where it is not required and missing, it counts as an empty object.
        """
        body = await self.body()
        if not body and not required:
            return {}
        allowed = media.V2_BODIES if self.is_v2 else (media.PLAIN,)
        media.check_body(self.request.headers.get("content-type"), allowed)
        return checked(schema, parsed(body), kind or (UNPROCESSABLE if self.is_v2 else BAD_REQUEST))

    def number(self, name: str, default: int | None = None) -> int | None:
        """Return a whole number from 0 on in the query; raise RestError for anything else."""
        text = self.request.query_params.get(name)
        if text is None:
            return default
        if not (text.isascii() and text.isdecimal() and len(text) < 20 and int(text) <= INT64):
            raise RestError(BAD_REQUEST, f"{name}={text[:80]!r}: must be a whole number from 0 on")
        return int(text)

    def flag(self, name: str) -> bool:
        """Return whether the query has a flag as 1 or true; raise RestError for another value."""
        text = self.request.query_params.get(name, "0")
        if text not in ("0", "1", "false", "true"):
            raise RestError(BAD_REQUEST, f"{name}={text[:80]!r}: must be 1, true, 0 or false")
        return text in ("1", "true")

    def choice(self, name: str, allowed: Sequence[str], default: str) -> str:
        """Return one of the allowed texts in the query; raise RestError for another."""
        text = self.request.query_params.get(name, default)
        if text not in allowed:
            why = f"must be one of {', '.join(allowed)}"
            raise RestError(BAD_REQUEST, f"{name}={text[:80]!r}: {why}")
        return text

    def spend(self, records: int) -> None:
        """Count records that are to be written; raise RestError (429) above the rate."""
        wait_ms = self.held.rate.take(records, self.desk.runtime.monotonic_ms())
        if wait_ms:
            rate = self.desk.settings.rest.produce_rate
            why = f"More than {rate} records a second: try again in {wait_ms} ms."
            raise RestError(TOO_MANY, why, retry_after_s=-(-wait_ms // 1000))

    # -- what is answered

    def answer(self, value: object, status: int = 200, offers: Sequence[str] = ()) -> Response:
        """Answer with JSON of the media type that the client likes best; raise RestError (406)."""
        kinds = offers or (media.V2_OFFERS if self.is_v2 else (media.PLAIN,))
        kind = media.chosen(self.request.headers.get("accept"), kinds)
        return Response(to_text(value), status, media_type=kind)


def to_text(value: object) -> bytes:
    """Return JSON in UTF-8; what is no Unicode is escaped."""
    return json.dumps(value, separators=(",", ":")).encode()
