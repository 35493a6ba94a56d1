"""Connect's REST API: the paths, bodies and status codes of Kafka's worker, on a Herder.

It reads requests within bounds, asks the herder, sends what only the leader may do to the leader,
once, and makes the answers. It never decides about connectors, and its errors never repeat a value
of a configuration.

Paths are matched while they are still encoded, so that a connector's name may have a slash (%2F).
"""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote, unquote, urlencode

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from ..runtime.errors import InvariantViolation, MinikafkaError
from ..runtime.log_levels import LEVELS
from .config_json import NULL, with_nulls
from .connector_files import STATES
from .forwarding import Answer, Forward, forward
from .herding import BadRequest, Herder, HerderError, Json, NotFound, NotLeader
from .rest_config import RestConfig
from .states import TargetState, TaskId

log = logging.getLogger(__name__)

MOST_BODY_BYTES: Final = 2 * 1024 * 1024
"""The largest body of a request; the config topic takes no larger record anyway."""
MOST_TASKS_BYTES: Final = 16 * 1024 * 1024
"""The largest set of a connector's tasks that a worker sends to its leader: a record for each."""
REQUEST_TIMEOUT_MS: Final = 90_000
"""The longest that a request may take, as in Kafka's worker."""
JSON: Final = "application/json"
FORWARDED: Final = (
    "authorization",
    "content-type",
    "x-connect-authorization",
    "x-connect-request-signature-algorithm",
)
"""The headers that go along when a request is sent to the leader."""
SIGNATURE: Final = FORWARDED[2:]
NO_LEADER: Final = (
    "Cannot complete request momentarily due to no known leader URL, "
    "likely because a rebalance was underway."
)


@dataclass(frozen=True, slots=True)
class Call:
    """One request whose body is read."""

    herder: Herder
    request: Request
    body: bytes

    def name(self, parameter: str = "connector") -> str:
        """Return the name in the path, decoded."""
        return unquote(self.request.path_params[parameter])

    def task(self) -> TaskId:
        """Return the task in the path."""
        return TaskId(self.name(), self.request.path_params["task"])

    def flag(self, parameter: str, default: bool = False) -> bool:
        """Return a parameter of the query; as in Java, whatever is not `true` is false."""
        return self.request.query_params.get(parameter, str(default)).lower() == "true"

    def json(self) -> Any:
        """Return the parsed body. Raise BadRequest if it is no JSON."""
        try:
            return json.loads(self.body, parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:
            # The text of these errors has a position, and nothing of the body.
            raise BadRequest(f"The body must be JSON: {error}") from None

    def object(self) -> Json:
        """Return the parsed body. Raise BadRequest if it is no object."""
        value = self.json()
        if not isinstance(value, dict):
            raise BadRequest("The body must be a JSON object")
        return value

    def signature(self) -> dict[str, str]:
        """Return the headers that sign an internal request (KIP-507), as far as they are there."""
        headers = self.request.headers
        return {name: headers[name] for name in SIGNATURE if name in headers}


Endpoint = Callable[[Call], Awaitable[Response]]


def answer(value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return the response that has `value` as JSON."""
    return Response(json.dumps(value), status, headers, media_type=JSON)


def error_answer(status: int, message: str, headers: Mapping[str, str] | None = None) -> Response:
    """Return an error as Kafka's worker tells it."""
    return answer({"error_code": status, "message": message}, status, headers)


# ---------------------------------------------------------------------------------- configurations


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def texts(value: object, what: str) -> dict[str, str | None]:
    """Return an object of JSON as texts; numbers and booleans become texts, null stays None.

    Raise BadRequest if it is no object, or a value in it is a list or an object.
    """
    if not isinstance(value, dict):
        raise BadRequest(f"{what} must be a JSON object")
    return {_encodable(key, what): _text(what, key, each) for key, each in value.items()}


def _text(what: str, key: str, value: object) -> str | None:
    if value is None:
        return None
    if isinstance(value, str):
        return _encodable(value, f"{what}: {key}")
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    raise BadRequest(f"{what}: the value of {key} must be a text")


def _encodable(text: str, what: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise BadRequest(f"{what} has half a surrogate pair, which is no character") from None
    return text


def _whole(config: Mapping[str, str | None]) -> dict[str, str]:
    nulls = [key for key, value in config.items() if value is None]
    if nulls:
        raise BadRequest("\n".join(f"{key}: {NULL}" for key in nulls))
    return {key: value for key, value in config.items() if value is not None}


def _named(name: str, config: Mapping[str, str | None]) -> dict[str, str]:
    """Return the configuration with the connector's name in it."""
    whole = _whole(config)
    if not name:
        raise BadRequest("The name of the connector is missing")
    included = whole.setdefault("name", name)
    if included != name:
        raise BadRequest(
            f"Connector name configuration ({included}) doesn't match connector name "
            f"in the URL ({name})"
        )
    return whole


def _location(name: str) -> dict[str, str]:
    return {"Location": f"/connectors/{quote(name, safe='')}"}


# --------------------------------------------------------------------------------------- endpoints


def _told(ask: Callable[[Call], Awaitable[object]]) -> Endpoint:
    """Return the endpoint that answers what it asks of the herder."""

    async def endpoint(call: Call) -> Response:
        return answer(await ask(call))

    return endpoint


def _done(status: int, ask: Callable[[Call], Awaitable[None]]) -> Endpoint:
    """Return the endpoint that answers this status, without a body, once the herder is done."""

    async def endpoint(call: Call) -> Response:
        await ask(call)
        return Response(status_code=status)

    return endpoint


def _target(status: int, target: TargetState) -> Endpoint:
    return _done(status, lambda call: call.herder.set_target(call.name(), target))


async def _config(call: Call) -> Json:
    found: Json = (await call.herder.info(call.name()))["config"]
    return found


async def _topics(call: Call) -> Json:
    return {call.name(): {"topics": await call.herder.topics(call.name())}}


async def _list(call: Call) -> Response:
    herder, expand = call.herder, call.request.query_params.getlist("expand")
    names = await herder.connectors()
    if not expand:
        return answer(names)
    shown: dict[str, Json] = {}
    for name in names:
        try:
            known = {"status": herder.status, "info": herder.info}
            shown[name] = {each: await known[each](name) for each in expand if each in known}
        except NotFound:
            continue  # it was deleted in between
    return answer(shown)


async def _create(call: Call) -> Response:
    body = call.object()
    given = body.get("name")
    name = given.strip() if isinstance(given, str) else ""
    config = _named(name, texts(body.get("config"), "config"))
    state = body.get("initial_state") or "RUNNING"
    target = STATES.get(str(state).upper())
    if target is None:
        raise BadRequest(f"initial_state must be one of {', '.join(STATES)}")
    return answer(await call.herder.create(name, config, target), 201, _location(name))


async def _put_config(call: Call) -> Response:
    name = call.name()
    config = _named(name, texts(call.json(), "The configuration"))
    created, info = await call.herder.put_config(name, config)
    return answer(info, 201, _location(name)) if created else answer(info)


async def _patch_config(call: Call) -> Response:
    patch = texts(call.json(), "The patch")
    if "name" in patch and patch["name"] != call.name():
        raise BadRequest("The name of a connector cannot be changed")
    return answer(await call.herder.patch_config(call.name(), patch))


async def _tasks_config(call: Call) -> Response:
    tasks = await call.herder.task_configs(call.name())
    shown = {str(TaskId(**each["id"])): each["config"] for each in tasks}
    return answer(shown)


async def _put_tasks(call: Call) -> Response:
    given = call.json()
    if not isinstance(given, list):
        raise BadRequest("The body must be a list of task configurations")
    configs = [_whole(texts(each, "A task's configuration")) for each in given]
    await call.herder.put_task_configs(call.name(), configs, call.body, call.signature())
    return Response(status_code=204)


async def _restart(call: Call) -> Response:
    include_tasks, only_failed = call.flag("includeTasks"), call.flag("onlyFailed")
    if not include_tasks and not only_failed:
        await call.herder.restart_connector(call.name())
        return Response(status_code=204)
    plan = await call.herder.restart(
        call.name(), include_tasks=include_tasks, only_failed=only_failed
    )
    return answer(plan, 202)


async def _alter_offsets(call: Call) -> Response:
    offsets = call.object().get("offsets")
    if not offsets or not isinstance(offsets, list):
        raise BadRequest("Partitions / offsets need to be provided for an alter offsets request")
    for each in offsets:
        is_pair = isinstance(each, dict) and isinstance(each.get("partition"), dict)
        if not is_pair or not isinstance(each.get("offset"), dict | None):
            raise BadRequest(
                "Each of offsets must be an object with a partition, an object, and an offset, "
                "an object or null"
            )
    return answer({"message": await call.herder.alter_offsets(call.name(), offsets)})


async def _reset_offsets(call: Call) -> Json:
    return {"message": await call.herder.reset_offsets(call.name())}


def _plain(plugin: str) -> str:
    """Return the name of a plugin without `Connector` at its end, which Kafka takes as an alias."""
    return plugin.removesuffix("Connector") or plugin


async def _validate(call: Call) -> Response:
    plugin, config = call.name("plugin"), texts(call.json(), "The configuration")
    included = config.get("connector.class")
    if included is not None and not _plain(included).endswith(_plain(plugin)):
        raise BadRequest(f"Included connector type {included} does not match request type {plugin}")
    given = {key: value for key, value in config.items() if value is not None}
    found = await call.herder.validate(plugin, given)
    return answer(with_nulls(found, [key for key in config if key not in given]))


async def _logger(call: Call) -> Response:
    name = call.name("logger")
    found = (await call.herder.loggers()).get(name)
    if found is None:
        raise NotFound(f"Logger {name} not found.")
    return answer(found)


async def _set_logger(call: Call) -> Response:
    level = call.object().get("level")
    if not isinstance(level, str):
        raise BadRequest("Desired 'level' parameter was not specified in request.")
    if level.upper() not in LEVELS:
        raise NotFound(f"invalid log level; the levels are {', '.join(LEVELS)}")
    is_cluster = call.request.query_params.get("scope", "worker").lower() == "cluster"
    names = await call.herder.set_logger(call.name("logger"), level.upper(), cluster=is_cluster)
    return Response(status_code=204) if is_cluster else answer(names)


_ONE: Final = "/connectors/{connector}"
_TASK: Final = f"{_ONE}/tasks/{{task:int}}"
_PLUGIN: Final = "/connector-plugins/{plugin}"
ROUTES: Final[dict[str, dict[str, Endpoint]]] = {
    "/": {"GET": _told(lambda call: call.herder.cluster())},
    "/health": {"GET": _told(lambda call: call.herder.health())},
    "/connectors": {"GET": _list, "POST": _create},
    _ONE: {
        "GET": _told(lambda call: call.herder.info(call.name())),
        "DELETE": _done(204, lambda call: call.herder.delete(call.name())),
    },
    f"{_ONE}/config": {"GET": _told(_config), "PUT": _put_config, "PATCH": _patch_config},
    f"{_ONE}/status": {"GET": _told(lambda call: call.herder.status(call.name()))},
    f"{_ONE}/tasks": {
        "GET": _told(lambda call: call.herder.task_configs(call.name())),
        "POST": _put_tasks,
    },
    f"{_ONE}/tasks-config": {"GET": _tasks_config},
    f"{_TASK}/status": {"GET": _told(lambda call: call.herder.task_status(call.task()))},
    f"{_TASK}/restart": {"POST": _done(204, lambda call: call.herder.restart_task(call.task()))},
    f"{_ONE}/restart": {"POST": _restart},
    f"{_ONE}/pause": {"PUT": _target(202, TargetState.PAUSED)},
    f"{_ONE}/resume": {"PUT": _target(202, TargetState.STARTED)},
    f"{_ONE}/stop": {"PUT": _target(204, TargetState.STOPPED)},
    f"{_ONE}/fence": {
        "PUT": _done(204, lambda call: call.herder.fence(call.name(), call.body, call.signature()))
    },
    f"{_ONE}/topics": {"GET": _told(_topics)},
    f"{_ONE}/topics/reset": {"PUT": _done(202, lambda call: call.herder.reset_topics(call.name()))},
    f"{_ONE}/offsets": {
        "GET": _told(lambda call: call.herder.offsets(call.name())),
        "PATCH": _alter_offsets,
        "DELETE": _told(_reset_offsets),
    },
    "/connector-plugins": {
        "GET": _told(
            lambda call: call.herder.plugins(connectors_only=call.flag("connectorsOnly", True))
        )
    },
    f"{_PLUGIN}/config": {
        "GET": _told(lambda call: call.herder.plugin_config(call.name("plugin")))
    },
    f"{_PLUGIN}/config/validate": {"PUT": _validate},
    "/admin/loggers": {"GET": _told(lambda call: call.herder.loggers())},
    "/admin/loggers/{logger}": {"GET": _logger, "PUT": _set_logger},
}
"""Every path, with its methods."""


# -------------------------------------------------------------------------------------- the app


def make_app(
    herder: Herder,
    config: RestConfig | None = None,
    forward: Forward = forward,
    *,
    main: bool = True,
    admin: bool = True,
) -> Starlette:
    """Make the application; `forward` sends a request to the leader and returns its answer.

    `admin` says whether it has the paths below /admin, and `main` whether it has the others.
    """
    config = config or RestConfig()
    middleware = [Middleware(_EncodedPaths)]
    if config.allow_origin:
        # Jetty's filter, which Kafka uses, has these methods and headers.
        cors = Middleware(
            CORSMiddleware,
            allow_origins=config.allow_origin,
            allow_methods=config.allow_methods or ("GET", "POST", "HEAD"),
            allow_headers=("X-Requested-With", "Content-Type", "Accept", "Origin"),
        )
        middleware.append(cors)
    routes = []
    for path, endpoints in _enabled(config).items():
        if admin if path.startswith("/admin") else main:
            served = _Served(herder, endpoints, forward)
            routes.append(Route(path, served.handle, methods=[*endpoints, "OPTIONS"]))
    handlers: dict[Any, Any] = {HTTPException: _http_error}
    return Starlette(routes=routes, middleware=middleware, exception_handlers=handlers)


def _enabled(config: RestConfig) -> dict[str, dict[str, Endpoint]]:
    """Return the routes, with those replaced that the configuration switches off (KIP-558)."""
    routes = dict(ROUTES)
    if not config.topic_tracking:
        routes[f"{_ONE}/topics"] = {"GET": _forbidden("Topic tracking is disabled.")}
        routes[f"{_ONE}/topics/reset"] = {"PUT": _forbidden("Topic tracking is disabled.")}
    elif not config.topic_tracking_reset:
        why = "Topic tracking reset is disabled."
        routes[f"{_ONE}/topics/reset"] = {"PUT": _forbidden(why)}
    return routes


def _forbidden(why: str) -> Endpoint:
    async def endpoint(call: Call) -> Response:
        return error_answer(403, why)

    return endpoint


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    phrase = HTTPStatus(error.status_code).phrase
    return error_answer(
        error.status_code, f"HTTP {error.status_code} {phrase}", error.headers or None
    )


class _EncodedPaths:
    """Hands on the path as it was sent, without a slash at its end."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            raw = scope.get("raw_path") or quote(scope["path"]).encode()
            scope = {**scope, "path": raw.decode("ascii", "replace").rstrip("/") or "/"}
        await self._app(scope, receive, send)


class _Served:
    """One path: the endpoint of each method, and what every request has in common."""

    def __init__(self, herder: Herder, methods: Mapping[str, Endpoint], forward: Forward) -> None:
        self._herder = herder
        self._methods = methods
        self._forward = forward

    async def handle(self, request: Request) -> Response:
        """Answer a request; every error becomes an answer."""
        if request.method == "OPTIONS":
            return Response(status_code=200, headers={"Allow": ", ".join(self._methods)})
        endpoint = self._methods["GET" if request.method == "HEAD" else request.method]
        response = await self._answered(request, endpoint)
        level = logging.DEBUG if request.method in ("GET", "HEAD") else logging.INFO
        log.log(level, "%s %s: %d", request.method, request.scope["path"], response.status_code)
        return response

    async def _answered(self, request: Request, endpoint: Endpoint) -> Response:
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_MS / 1000):
                is_set = endpoint is _put_tasks
                body = await _read(request, MOST_TASKS_BYTES if is_set else MOST_BODY_BYTES)
                try:
                    return await endpoint(Call(self._herder, request, body))
                except NotLeader as error:
                    return await self._from_leader(request, body, error)
        except HerderError as error:
            return error_answer(error.status, str(error))
        except TimeoutError:
            return error_answer(500, "Request timed out")
        except ClientDisconnect:
            return Response(status_code=400)  # nobody reads it
        except (HTTPException, InvariantViolation):
            raise
        except MinikafkaError as error:
            return error_answer(500, str(error))
        except Exception as error:
            log.exception("%s %s failed", request.method, request.scope["path"])
            why = f"The worker failed with {type(error).__name__}: its log has the traceback"
            return error_answer(500, why)

    async def _from_leader(self, request: Request, body: bytes, error: NotLeader) -> Response:
        """Send the request to the leader and return its answer; a forwarded one is refused."""
        if request.query_params.get("forward") == "false":
            return error_answer(error.status, str(error))
        if error.leader_url is None:
            return error_answer(error.status, NO_LEADER)
        query = [(k, v) for k, v in request.query_params.multi_items() if k != "forward"]
        path = f"{request.scope['path']}?{urlencode([*query, ('forward', 'false')])}"
        headers = {name: request.headers[name] for name in FORWARDED if name in request.headers}
        found: Answer = await self._forward(
            request.method, error.leader_url.rstrip("/") + path, headers, body
        )
        kept = {k: v for k, v in found.headers.items() if k.lower() in ("location", "content-type")}
        return Response(found.body, found.status, kept)


async def _read(request: Request, most: int) -> bytes:
    """Return the body. Raise HTTPException 413 if it is too long, 415 if it is no JSON."""
    length = request.headers.get("content-length", "0")
    if length.isdecimal() and int(length) > most:
        raise HTTPException(413)
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > most:
            raise HTTPException(413, headers={"Connection": "close"})
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    # A browser asks before it sends JSON to a foreign address, but not before it sends a form.
    if (body or kind) and kind != JSON:
        raise HTTPException(415)
    return bytes(body)
