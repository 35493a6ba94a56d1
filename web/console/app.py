"""The web application of the console: its routes, and how errors are shown.

Each screen has two routes: the page, and a stream of events that redraws the live part of the page.
If the cluster refuses a request or fails, the page says so in one sentence.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from ...client.errors import AdminError, BootstrapError, RequestTimedOut
from ...protocol.errors import ApiError
from ...runtime.errors import MinikafkaError
from ..events import Events, event
from . import forms, messages, moves, resets, screens
from .desk import Desk, NotThere
from .guard import App, Guard
from .pages import Screen
from .views.changes import BadField

Make = Callable[[Desk, Request], Awaitable[Screen]]

SCREENS: Final[dict[str, Make]] = {
    "/": screens.overview,
    "/brokers": screens.brokers,
    "/brokers/{broker:int}": screens.broker,
    "/topics": screens.topics,
    "/topics/{topic}": screens.topic,
    "/topics/{topic}/messages": messages.show,
    "/topics/{topic}/{partition:int}": screens.partition,
    "/topics/{topic}/{partition:int}/{offset:int}/replay": messages.replay,
    "/groups": screens.groups,
    "/groups/{group:path}": screens.group,
    "/transactions": screens.transactions,
    "/configs": screens.configs,
    "/quorum": screens.quorum,
    "/elections": screens.elections,
    "/reassignments": moves.show,
}
FORMS: Final[dict[str, tuple[Make, Make]]] = {
    "/do/{change}": (forms.show, forms.send),
    "/reset/{group:path}": (resets.show, resets.send),
}
"""The pages that change something: by path, the functions that show the form and receive it."""
STATIC: Final = ("minikafka.web.console", "static")
MOST_STREAMS: Final = 64
"""The most streams of live pages at a time; a page that opens one more says so and tries again."""
RETRY_MS: Final = 5_000


def application(desk: Desk, hosts: tuple[str, ...] = ()) -> App:
    """Make the application; it answers requests whose Host is one of `hosts` or of the loopback."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        await desk.link.close()

    routes: list[Route | Mount] = []
    for path, make in SCREENS.items():
        routes.append(Route(path, _page(desk, make)))
        routes.append(Route("/live" + path, _stream(desk, make)))
    for path, (show, send) in FORMS.items():
        routes.append(Route(path, _page(desk, show)))
        routes.append(Route(path, _page(desk, send), methods=["POST"]))
    routes.append(Route("/scan/{topic}", _scan(desk)))
    routes.append(Mount("/static", StaticFiles(packages=[STATIC])))

    async def wrong(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return _wrong(desk, request, error)

    handlers: dict[Any, Any] = {HTTPException: wrong}
    starlette = Starlette(routes=routes, exception_handlers=handlers, lifespan=lifespan)
    return Guard(starlette, hosts)


def _page(desk: Desk, make: Make) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        screen = await _made(desk, make, request)
        return HTMLResponse(desk.pages.page(screen, **_around(desk, request)), screen.status)

    return endpoint


def _stream(desk: Desk, make: Make) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        return Events(_moving(desk, make, request))

    return endpoint


def _scan(desk: Desk) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        return Events(await messages.stream(desk, request))

    return endpoint


async def _moving(desk: Desk, make: Make, request: Request) -> AsyncGenerator[bytes, None]:
    """Yield the live part of a page every `refresh_ms`, until the browser disconnects."""
    if desk.streams >= MOST_STREAMS:
        screen = _trouble(503, "Too many moving pages", f"{MOST_STREAMS} are open: close some.")
        yield event(desk.pages.live(screen, **_around(desk, request)), retry_ms=RETRY_MS)
        return
    desk.streams += 1
    try:
        refresh_ms = 2_000
        while not desk.closing.is_set():
            screen = await _made(desk, make, request)
            refresh_ms = screen.refresh_ms or refresh_ms
            yield event(desk.pages.live(screen, **_around(desk, request)))
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(desk.closing.wait(), refresh_ms / 1000)
    finally:
        desk.streams -= 1


async def _made(desk: Desk, make: Make, request: Request) -> Screen:
    """Make the screen, or an error screen that says in one sentence why that failed."""
    try:
        return await make(desk, request)
    except NotThere as error:
        return _trouble(404, "Not found", str(error))
    except BadField as error:
        return replace(_trouble(422, "That cannot be", str(error)), refresh_ms=0)
    except BootstrapError as error:
        return _trouble(503, "The cluster does not answer", str(error))
    except RequestTimedOut as error:
        return _trouble(504, "The cluster does not answer in time", str(error))
    except (ApiError, AdminError) as error:
        return _trouble(502, "The cluster refused", str(error))
    except MinikafkaError as error:
        return _trouble(502, "It could not be asked", str(error))


def _trouble(status: int, title: str, sentence: str) -> Screen:
    return Screen("trouble.html", title, sentence, refresh_ms=2_000, status=status)


def _around(desk: Desk, request: Request) -> dict[str, object]:
    """Return the values that every page's template needs beside its view."""
    query = f"?{request.url.query}" if request.url.query else ""
    path = request.url.path
    return {
        "live_url": "/live" + path + query,
        "at_ms": desk.link.runtime.wall_ms(),
        "cluster": desk.link.bootstrap,
    }


def _wrong(desk: Desk, request: Request, error: HTTPException) -> Response:
    titles = {404: "Not found", 405: "Not allowed"}
    sentence = error.detail if error.status_code not in titles else "There is no such page."
    screen = _trouble(error.status_code, titles.get(error.status_code, "Refused"), sentence)
    return HTMLResponse(
        desk.pages.page(replace(screen, refresh_ms=0), **_around(desk, request)), screen.status
    )
