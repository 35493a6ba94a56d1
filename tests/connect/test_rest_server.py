"""The REST API on sockets: addresses, TLS, and what workers send each other."""

import socket
from collections.abc import AsyncIterator, Callable

import pytest

from minikafka.connect.forwarding import HttpPeers, forward
from minikafka.connect.herding import HerderError
from minikafka.connect.rest_config import Listener, RestConfig, rest_config
from minikafka.connect.rest_server import RestServer
from minikafka.connect.worker_config import worker_config
from minikafka.runtime.errors import ConfigError, MinikafkaError
from minikafka.runtime.runtime import SystemRuntime

from ..security.certificates import authority, make
from ..support.http import exchange
from .rest_support import House

Serve = Callable[..., tuple[House, RestServer]]
WORKER = {
    "bootstrap.servers": "localhost:9092",
    "key.converter": "StringConverter",
    "value.converter": "StringConverter",
    "offset.storage.file.filename": "offsets",
}


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    servers: list[RestServer] = []

    def serve(properties: dict[str, str], scheme: str = "http") -> tuple[House, RestServer]:
        listener = Listener(scheme, "127.0.0.1", 0)
        config = RestConfig(listeners=(listener,), advertised=listener)
        house, server = House(), RestServer(SystemRuntime("connect"), config, properties)
        servers.append(server)
        server.start(house.herder)
        return house, server

    yield serve
    for server in servers:
        await server.stop()


async def test_a_worker_is_known_by_the_port_that_its_listener_got(serve: Serve) -> None:
    _, server = serve({})
    port = int(server.addresses[0].rstrip("/").rpartition(":")[2])
    assert port > 0
    assert server.worker_id == f"127.0.0.1:{port}"
    assert server.url == f"http://127.0.0.1:{port}/"
    found = await forward("GET", f"{server.url}connectors", {}, b"")
    assert (found.status, found.body) == (200, b"[]")


async def test_requests_go_between_workers_over_https(serve: Serve) -> None:
    own = make("worker")
    keys = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": own.key_pem(),
        "ssl.keystore.certificate.chain": own.certificate_pem,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": authority().certificate_pem,
    }
    _, server = serve({f"listeners.https.{key}": value for key, value in keys.items()}, "https")
    found = await server.forward("GET", f"{server.url}connectors", {}, b"")
    assert (found.status, found.body) == (200, b"[]")
    paused = await server.forward("PUT", f"{server.url}connectors/c/pause", {}, b"")
    assert paused.status == 404  # a body that is not there has no type that could be wrong
    with pytest.raises(HerderError, match="Certificate"):
        await forward("GET", server.url, {}, b"")


async def test_what_a_leader_refuses_is_told_with_its_status(serve: Serve) -> None:
    _, server = serve({})
    peers = HttpPeers()
    signature = {"X-Connect-Authorization": "x"}
    with pytest.raises(HerderError, match="The leader answered 400: A standalone") as refused:
        await peers.post_task_configs(server.url, "a/b", b"[]", signature)
    assert refused.value.status == 400
    url = server.url
    await server.stop()
    with pytest.raises(HerderError, match="IO Error trying to forward REST request"):
        await peers.post_task_configs(url, "c", b"", {})


async def test_bytes_that_are_no_request_end_their_connection_and_nothing_else(
    serve: Serve,
) -> None:
    _, server = serve({})
    host, _, port = server.worker_id.partition(":")
    assert b"400 Bad Request" in await exchange((host, int(port)), b"\x00\x01\r\n\r\n")
    head = b"GET /connectors HTTP/1.1\r\nHost: a\r\nX: " + b"y" * 100_000
    assert b" 400 " in await exchange((host, int(port)), head)
    assert (await forward("GET", server.url, {}, b"")).status == 200


async def test_an_address_that_is_taken_is_named(serve: Serve) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listener = Listener("http", "127.0.0.1", taken.getsockname()[1])
        config = RestConfig(listeners=(listener,), advertised=listener)
        with pytest.raises(MinikafkaError, match=f"http://127.0.0.1:{listener.port}/: Address"):
            RestServer(SystemRuntime("connect"), config, {})


def test_listeners_are_read_from_the_worker_s_keys() -> None:
    keys = {
        "listeners": "http://127.0.0.1:8083, HTTPS://[::1]:0",
        "rest.advertised.listener": "https",
        "rest.advertised.host.name": "worker-1",
        "admin.listeners": "",
        "access.control.allow.origin": "https://a, https://b",
        "listeners.https.ssl.keystore.type": "PEM",
    }
    config = rest_config(worker_config({**WORKER, **keys}))
    assert config.listeners == (Listener("http", "127.0.0.1", 8083), Listener("https", "::1", 0))
    assert config.advertised == Listener("https", "worker-1", 0)
    assert not config.admin_listeners
    assert config.allow_origin == ("https://a", "https://b")
    assert rest_config(worker_config(WORKER)) == RestConfig()


@pytest.mark.parametrize(
    "url", ["", "8083", "ftp://a:1", "http://a", "http://a:99999", "http://a:1/x"]
)
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match=r"listeners|http://HOST:PORT"):
        rest_config(worker_config({**WORKER, "listeners": url}))
