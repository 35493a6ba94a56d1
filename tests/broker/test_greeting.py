"""Connections with TLS: the handshake before a connection is served, over real sockets."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from minikafka.broker.metrics.connections import ConnectionMetrics
from minikafka.broker.net.connection import Connection
from minikafka.broker.net.greeting import Greetings
from minikafka.client.errors import BootstrapError
from minikafka.client.net import handshakes
from minikafka.client.net.connection import ConnectionOptions, KafkaConnection
from minikafka.client.net.errors import HANDSHAKE, ConnectError
from minikafka.protocol.codec import decode_response_frame, frame_request
from minikafka.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from minikafka.runtime.config import from_mapping
from minikafka.security.client_security import ClientSecurity
from minikafka.security.listener import Listener, SecurityProtocol
from minikafka.security.tls import ClientTls, ListenerTls
from minikafka.security.tls_config import TlsConfig

from ..security.certificates import Made, authority, make
from ..support.scrape import Scrape
from .edge_support import FakeBroker, connections_of

WITHIN_S = 20


class Door:
    """A broker's listener with TLS, and clients of it."""

    def __init__(self, port: int, broker: FakeBroker, directory: Path) -> None:
        self.port = port
        self.broker = broker
        self.directory = directory

    async def connect(
        self, own: Made | None = None
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        context = ssl.create_default_context(cadata=authority().certificate_pem)
        if own is not None:
            path = Path(own.write(self.directory / "client.pem"))
            context.load_cert_chain(path)
        return await asyncio.open_connection(
            "127.0.0.1", self.port, ssl=context, server_hostname="localhost"
        )

    async def open(self, trusted: Made, own: Made | None = None) -> KafkaConnection:
        given = {"ssl.truststore.certificates": trusted.certificate_pem}
        if own is not None:
            given["ssl.keystore.location"] = own.write(self.directory / "client.pem")
        tls = ClientTls(self.broker.runtime, from_mapping(TlsConfig, given))
        options = ConnectionOptions(security=ClientSecurity(tls=tls))
        return await KafkaConnection.open(self.broker.runtime, "localhost", self.port, options)

    async def plain(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port)


@pytest.fixture
async def door(tmp_path: Path) -> AsyncIterator[Door]:
    broker = FakeBroker()
    properties = {
        "ssl.keystore.location": make("broker-1").write(tmp_path / "server.pem"),
        "ssl.truststore.certificates": authority().certificate_pem,
        "ssl.client.auth": "requested",
        "ssl.principal.mapping.rules": "RULE:^CN=([a-m].*)$/$1/",
    }
    listener = Listener("OUTSIDE", SecurityProtocol.SSL)
    tls = ListenerTls(broker.runtime, properties, listener.name)
    greetings = Greetings(broker.edge, {listener.name: tls})
    server = await asyncio.get_running_loop().create_server(
        lambda: greetings.greet(
            listener, lambda: Connection(broker.edge, listener, broker.apis, None)
        ),
        "127.0.0.1",
        0,
    )
    made = Door(server.sockets[0].getsockname()[1], broker, tmp_path)
    async with asyncio.timeout(WITHIN_S):
        yield made
    server.close()
    greetings.close()
    broker.edge.doors.close()
    broker.close()
    await asyncio.sleep(0)


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> ApiVersionsResponse:
    request = ApiVersionsRequest(client_software_name="t", client_software_version="1")
    writer.write(b"".join(frame_request(request, 3, 7, "test")))
    size = int.from_bytes(await reader.readexactly(4), "big")
    _, answer = decode_response_frame(
        ApiVersionsResponse, 3, memoryview(await reader.readexactly(size))
    )
    return answer


async def leave(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()
    await asyncio.gather(writer.wait_closed(), return_exceptions=True)


@pytest.mark.parametrize("name", ["alice", None])
async def test_a_client_is_served_as_its_certificate_says(door: Door, name: str | None) -> None:
    reader, writer = await door.connect(None if name is None else make(name))
    assert (await ask(reader, writer)).api_keys
    (connection,) = connections_of(door.broker.edge)
    assert connection.session.principal.name == (name or "ANONYMOUS")
    assert connection.listener.name == "OUTSIDE"
    assert door.broker.edge.doors.proved == {"OUTSIDE": 1}
    await leave(writer)


@pytest.mark.plain_loop
async def test_a_client_is_served_on_asyncios_own_loop(door: Door) -> None:
    reader, writer = await door.connect()
    assert (await ask(reader, writer)).api_keys
    await leave(writer)


async def test_s_23_a_subject_that_no_rule_matches_is_not_served(
    door: Door, caplog: pytest.LogCaptureFixture
) -> None:
    reader, writer = await door.connect(make("zoe"))
    assert await reader.read() == b""
    assert connections_of(door.broker.edge) == []
    assert "no rule of ssl.principal.mapping.rules matches its certificate" in caplog.text
    assert door.broker.edge.doors.unproved == {"OUTSIDE": 1}
    await leave(writer)


@pytest.mark.moves("kafka_server_socket_server_metrics_failed_authentication_total")
async def test_a_client_without_tls_is_named_and_counted(
    door: Door, caplog: pytest.LogCaptureFixture
) -> None:
    request = ApiVersionsRequest(client_software_name="t", client_software_version="1")
    name = "kafka_server_socket_server_metrics_failed_authentication_total"
    for count in (1, 2):
        reader, writer = await door.plain()
        writer.write(b"".join(frame_request(request, 3, 7, "test")))
        assert await reader.read() == b""
        assert Scrape([ConnectionMetrics(door.broker.edge)])(name, listener="OUTSIDE") == count
        await leave(writer)
    (said,) = caplog.messages
    assert "TLS handshake failed, wrong version number: the peer does not speak" in said


async def test_whoever_tries_the_port_is_not_logged(
    door: Door, caplog: pytest.LogCaptureFixture
) -> None:
    reader, writer = await door.plain()
    writer.write_eof()
    assert await reader.read() == b""
    assert caplog.messages == []
    assert door.broker.edge.doors.unproved == {}
    await leave(writer)


async def test_s_10_a_handshake_has_a_deadline(
    door: Door, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(handshakes, "HANDSHAKE_MS", 20)
    reader, writer = await door.plain()
    writer.write(b"\x16\x03")
    assert await reader.read() == b""
    assert "no TLS handshake within 20 ms" in caplog.text
    await leave(writer)


async def test_s_09_of_too_many_strangers_the_oldest_is_cut_off(
    door: Door, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(handshakes, "STRANGERS_MAX", 2)
    strangers = [await door.plain() for _ in range(3)]
    assert await strangers[0][0].read() == b""
    assert "2 others are in their TLS handshake, and it came first" in caplog.text
    reader, writer = await door.connect()
    assert (await ask(reader, writer)).api_keys
    for _, each in [*strangers, (reader, writer)]:
        await leave(each)


async def test_our_client_meets_a_listener_with_tls(door: Door) -> None:
    connection = await door.open(authority())
    assert connection.is_open
    assert [each.listener.name for each in connections_of(door.broker.edge)] == ["OUTSIDE"]
    await connection.close()


async def test_a_broker_that_the_client_does_not_trust_is_not_tried_again(
    door: Door,
) -> None:
    with pytest.raises(ConnectError) as caught:
        await door.open(authority("stranger"))
    attempt = caught.value.attempt
    assert attempt.phase == HANDSHAKE
    assert attempt.cause.startswith("certificate verify failed: ")
    assert BootstrapError([attempt]).is_final


async def test_a_client_that_is_refused_after_the_handshake_is_told_where_to_look(
    door: Door,
) -> None:
    with pytest.raises(ConnectError, match="closed without an answer; does the broker ask for"):
        await door.open(authority(), make("zoe"))


@pytest.mark.parametrize("loop", ["uvloop", pytest.param("asyncio", marks=pytest.mark.plain_loop)])
async def test_a_client_with_tls_at_a_port_for_plain_text_is_told_so(door: Door, loop: str) -> None:
    listener = Listener("PLAINTEXT")
    server = await asyncio.get_running_loop().create_server(
        lambda: Connection(door.broker.edge, listener, door.broker.apis, None), "127.0.0.1", 0
    )
    door.port = server.sockets[0].getsockname()[1]
    with pytest.raises(ConnectError, match="closed in the TLS handshake; is it a broker's port"):
        await door.open(authority())
    server.close()
