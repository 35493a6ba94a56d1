"""The REST API's part of a worker's settings: its listeners, and what its app is made with.

The keys stand in the table of the worker (`worker_config.py`); this gives them their meaning.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from ..runtime.errors import ConfigError

if TYPE_CHECKING:
    from .worker_config import WorkerConfig


class Listener(NamedTuple):
    """One address of the REST API."""

    scheme: str
    """`http` or `https`."""
    host: str
    """Empty means all addresses."""
    port: int
    """0 picks a free one."""


@dataclass(frozen=True, slots=True)
class RestConfig:
    """The settings of the REST API, parsed."""

    listeners: tuple[Listener, ...] = (Listener("http", "", 8083),)
    admin_listeners: tuple[Listener, ...] | None = None
    """The addresses of `/admin`; None is the same as `listeners`, and none switches it off."""
    advertised: Listener = listeners[0]
    """The listener that other workers use; with the advertised host and port where they are set."""
    allow_origin: tuple[str, ...] = ()
    allow_methods: tuple[str, ...] = ()
    topic_tracking: bool = True
    topic_tracking_reset: bool = True


def rest_config(worker: "WorkerConfig") -> RestConfig:
    """Return the settings of a worker's REST API. Raise ConfigError if a listener cannot be one."""
    listeners = _listeners("listeners", worker.listeners)
    if not listeners:
        raise ConfigError("listeners", None, "needs an address: http://HOST:PORT")
    wanted = worker.rest_advertised_listener or listeners[0].scheme
    advertised = next((each for each in listeners if each.scheme == wanted), None)
    if advertised is None:
        why = f"is none of listeners, which have {', '.join(each.scheme for each in listeners)}"
        raise ConfigError("rest.advertised.listener", wanted, why)
    admin = worker.admin_listeners
    return RestConfig(
        listeners=listeners,
        admin_listeners=None if admin is None else _listeners("admin.listeners", admin),
        advertised=Listener(
            wanted,
            worker.rest_advertised_host_name or advertised.host,
            worker.rest_advertised_port or advertised.port,
        ),
        allow_origin=_parts(worker.access_control_allow_origin),
        allow_methods=_parts(worker.access_control_allow_methods),
        topic_tracking=worker.topic_tracking_enable,
        topic_tracking_reset=worker.topic_tracking_allow_reset,
    )


def _parts(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _listeners(key: str, urls: tuple[str, ...]) -> tuple[Listener, ...]:
    return tuple(_listener(key, url) for url in urls)


def _listener(key: str, url: str) -> Listener:
    why = "must be http://HOST:PORT or https://HOST:PORT"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ConfigError(key, url, why) from None
    if parts.scheme.lower() not in ("http", "https") or port is None or parts.path not in ("", "/"):
        raise ConfigError(key, url, why)
    return Listener(parts.scheme.lower(), parts.hostname or "", port)
