"""The web application of the proxy: who asks, which handler answers, and how errors are told."""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ...runtime.errors import InvariantViolation, MinikafkaError
from ..hosts import host_name
from . import media
from .call import Call, Desk, to_text
from .errors import BUG, NO_LOGIN, NOT_FOUND, OTHER_ORIGIN, WRONG_HOST, Kind, RestError, answer_of
from .login import PROXY, login_of
from .openapi import document
from .routes import OPERATIONS, Operation
from .settings import NONE
from .v3_kinds import Site

log = logging.getLogger(__name__)
OPENAPI: Final = "/openapi.json"
SAFE: Final = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"}
Endpoint = Callable[[Request], Awaitable[Response]]


def application(desk: Desk, hosts: Sequence[str] = ()) -> Starlette:
    """Make the application; it answers requests whose Host is one of `hosts`, if there are any."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        upkeep = desk.runtime.spawn(desk.upkeep(), "upkeep")
        yield
        await desk.close()
        await upkeep

    by_path: dict[str, dict[str, Operation]] = {}
    for one in OPERATIONS:
        by_path.setdefault(one.path, {})[one.method] = one
    routes = [_route(path, _endpoint(desk, of, hosts), list(of)) for path, of in by_path.items()]
    routes.append(_route(OPENAPI, _told(to_text(document())), ["GET"]))
    origins = list(desk.settings.rest.allow_origin)
    cors = Middleware(
        CORSMiddleware,
        allow_origins=origins,
        allow_methods=["GET", "POST", "PUT", "PATCH", "DELETE"],
        allow_headers=["authorization", "content-type", "last-event-id"],
    )
    handlers: dict[Any, Any] = {HTTPException: _no_route, Exception: _bug}
    return Starlette(
        routes=routes,
        exception_handlers=handlers,
        lifespan=lifespan,
        middleware=[cors] if origins else [],
    )


def _route(path: str, endpoint: Endpoint, methods: list[str]) -> Route:
    route = Route(path, endpoint, methods=methods)
    assert route.methods is not None
    # A stream without its body would never end.
    route.methods.discard("HEAD")
    return route


def _told(text: bytes) -> Endpoint:
    async def endpoint(_: Request) -> Response:
        return Response(text, media_type=media.PLAIN, headers=SAFE)

    return endpoint


def _endpoint(desk: Desk, by_method: dict[str, Operation], hosts: Sequence[str]) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        try:
            _check_host(request, hosts)
            _check_origin(request, desk.settings.rest.allow_origin)
            answer = await _carried_out(desk, by_method[request.method], request)
        except InvariantViolation:
            raise
        except MinikafkaError as error:
            answer = _refusal(request, answer_of(error, is_v2=_is_v2(request)))
        answer.headers.update(SAFE)
        return answer

    return endpoint


async def _carried_out(desk: Desk, operation: Operation, request: Request) -> Response:
    login = PROXY
    if desk.settings.rest.authentication != NONE:
        login = login_of(request.headers.get("authorization"))
    async with desk.clients.of(login) as held:
        base = str(request.base_url).rstrip("/")
        call = Call(desk, request, held, Site(base, ""))
        if not call.is_v2:
            call.site = Site(base, await held.cluster_id())
            wanted = call.path.get("cluster_id", call.site.cluster_id)
            if wanted != call.site.cluster_id:
                raise RestError(NOT_FOUND, f"Cluster {wanted[:100]} cannot be found.")
        found = await operation.handler(call)
        if isinstance(found, Response):
            return found
        if found is None:
            return Response(status_code=operation.status)
        answer = call.answer(found, operation.status)
        if operation.status == 201:
            answer.headers["Location"] = found["metadata"]["self"]
        return answer


def _check_host(request: Request, hosts: Sequence[str]) -> None:
    host = request.headers.get("host", "")
    if hosts and host_name(f"//{host}") not in hosts:
        why = f"This proxy does not answer to the name {host[:100]!r}: start it with --host-name."
        raise RestError(WRONG_HOST, why)


def _check_origin(request: Request, allowed: Sequence[str]) -> None:
    """Raise RestError if a page of another origin asks for a change; browsers say who asks."""
    origin = request.headers.get("origin")
    if request.method == "GET" or origin is None or "*" in allowed or origin in allowed:
        return
    if origin.partition("://")[2] != request.headers.get("host"):
        why = f"Pages of {origin[:100]!r} may change nothing: see access.control.allow.origin."
        raise RestError(OTHER_ORIGIN, why)


def _is_v2(request: Request) -> bool:
    return not request.url.path.startswith("/v3/")


def _refusal(request: Request, error: RestError) -> Response:
    kind = media.V2 if _is_v2(request) else media.PLAIN
    if media.PLAIN in request.headers.get("accept", ""):
        kind = media.PLAIN
    headers = {} if error.retry_after_s is None else {"Retry-After": str(error.retry_after_s)}
    if error.kind.status == NO_LOGIN.status:
        headers["WWW-Authenticate"] = 'Basic realm="kafka", Bearer'
    return Response(to_text(error.body()), error.kind.status, headers, kind)


async def _no_route(request: Request, error: HTTPException) -> Response:
    kind = Kind(error.status_code, error.status_code)
    answer = _refusal(request, RestError(kind, f"HTTP {error.status_code} {error.detail}"))
    answer.headers.update(error.headers or {})
    return answer


async def _bug(request: Request, error: Exception) -> Response:
    log.error("%s %s failed: %r", request.method, request.url.path, error, exc_info=error)
    return _refusal(request, RestError(BUG, "Internal Server Error"))
