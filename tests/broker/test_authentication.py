"""A connection to a listener with SASL: nothing passes before the login, and what it then costs."""

import asyncio
import logging
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minikafka.aio import Admin
from minikafka.broker.admission.logins import STRANGERS_MAX
from minikafka.broker.metrics.connections import ConnectionMetrics
from minikafka.broker.net import authentication
from minikafka.broker.net.connection import Connection
from minikafka.client.errors import BootstrapError, ConnectError
from minikafka.client.net.connection import ConnectionOptions, KafkaConnection
from minikafka.client.net.errors import LOG_IN, ConnectionLost
from minikafka.client.net.traffic import Traffic
from minikafka.protocol.control import records as r
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
)
from minikafka.protocol.messages.api_versions import ApiVersionsRequest
from minikafka.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from minikafka.protocol.messages.list_groups import ListGroupsRequest
from minikafka.protocol.messages.metadata import MetadataRequest
from minikafka.protocol.messages.produce import ProduceRequest
from minikafka.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from minikafka.protocol.messages.sasl_handshake import SaslHandshakeRequest
from minikafka.runtime.runtime import Runtime, SystemRuntime
from minikafka.security.client_security import ClientSecurity
from minikafka.security.listener import Listener
from minikafka.security.principal import ANONYMOUS, user
from minikafka.security.sasl.client import Credentials
from minikafka.security.sasl.plain import WRONG
from minikafka.security.sasl.scram import ScramMechanism, credential_of

from ..support.scrape import Scrape
from .conftest import MakeBroker
from .edge_support import Client, FakeBroker

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
GOOD, BAD = b"\0alice\0pw", b"\0alice\0no"
VERSIONS = ApiVersionsRequest(client_software_name="test", client_software_version="1")
PRODUCE = ProduceRequest(acks=1, timeout_ms=1000, topic_data=[])

Locked = Callable[..., FakeBroker]


@pytest.fixture
def locked(make_broker: MakeBroker) -> Locked:
    """Makes a broker with the listener LOCKED, for which alice has a password."""

    def make(**settings: str) -> FakeBroker:
        return make_broker(
            **{
                "listeners": "PLAINTEXT://h:1,LOCKED://h:2",
                "listener_security_protocol_map": "PLAINTEXT:PLAINTEXT,LOCKED:SASL_PLAINTEXT",
                "sasl_enabled_mechanisms": "PLAIN",
                "listener_name_locked_plain_sasl_jaas_config": (
                    f'{MODULE} required user_alice="pw" user_bob="pw";'
                ),
                "connection_failed_authentication_delay_ms": "0",
                **settings,
            }
        )

    return make


def connect(broker: FakeBroker) -> Client:
    return broker.connect("LOCKED")


def handshake(client: Client, mechanism: str = "PLAIN", version: int = 1) -> None:
    response = client.ask(SaslHandshakeRequest(mechanism=mechanism), version)
    assert (response.error_code, response.mechanisms) == (0, ["PLAIN"])


def log_in(client: Client, token: bytes = GOOD) -> None:
    handshake(client)
    response = client.ask(SaslAuthenticateRequest(auth_bytes=token), 2)
    assert (response.error_code, response.auth_bytes) == (0, b"")


async def closed(client: Client) -> None:
    async with asyncio.timeout(10):
        await client.transport.closed.wait()


async def test_a_login_gives_the_connection_its_principal(locked: Locked) -> None:
    broker = locked()
    client = connect(broker)
    assert client.ask(VERSIONS, 4).error_code == 0
    assert client.connection.session.principal == ANONYMOUS
    log_in(client)
    assert client.connection.session.principal == user("alice")
    assert client.connection.guard is None
    assert client.ask(ListGroupsRequest(), 5).error_code == 0
    assert broker.edge.logins is not None
    assert not broker.edge.logins.strangers
    # A login that comes again has no place any more, and the connection goes on.
    for request, version in (
        (SaslHandshakeRequest(mechanism="PLAIN"), 1),
        (SaslAuthenticateRequest(auth_bytes=GOOD), 2),
    ):
        assert client.ask(request, version).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert client.ask(ListGroupsRequest(), 5).error_code == 0


async def test_s_01_a_request_before_the_login_is_not_answered(locked: Locked) -> None:
    client = connect(locked())
    client.send(MetadataRequest(topics=None), 12)
    await closed(client)
    assert client.transport.sent == b""


async def test_s_02_a_client_finds_the_version_of_api_versions(locked: Locked) -> None:
    client = connect(locked())
    frame = bytearray(client.frame(VERSIONS, 4))
    struct.pack_into(">h", frame, 6, 99)
    client.asked[1] = (18, 0)
    client.feed(bytes(frame))
    (response,) = client.responses()
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert client.ask(VERSIONS, 4).error_code == 0
    log_in(client)


async def test_s_03_a_mechanism_that_is_not_enabled_is_refused(locked: Locked) -> None:
    client = connect(locked())
    client.send(SaslHandshakeRequest(mechanism="GSSAPI"), 1)
    await closed(client)
    (response,) = client.responses()
    assert response.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert response.mechanisms == ["PLAIN"]


@pytest.mark.parametrize("token", [BAD, b"\0nobody\0no"])
async def test_s_04_the_refusal_of_a_login_is_held_back(locked: Locked, token: bytes) -> None:
    broker = locked(connection_failed_authentication_delay_ms="100")
    client = connect(broker)
    handshake(client)
    began_ms = broker.runtime.monotonic_ms()
    client.send(SaslAuthenticateRequest(auth_bytes=token), 2)
    client.feed(client.frame(SaslAuthenticateRequest(auth_bytes=GOOD), 2))
    assert client.responses() == []
    await closed(client)
    assert broker.runtime.monotonic_ms() - began_ms >= 100
    (response,) = client.responses()
    assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert response.error_message == WRONG
    assert client.connection.session.principal == ANONYMOUS
    assert broker.edge.doors.unproved == {client.connection.listener.name: 1}


async def test_s_05_tokens_without_requests(locked: Locked) -> None:
    client = connect(locked())
    handshake(client, version=0)
    before = len(client.transport.sent)
    client.feed(struct.pack(">i", len(GOOD)) + GOOD)
    assert client.transport.sent[before:] == b"\0\0\0\0"
    assert client.connection.session.principal == user("alice")
    bad = connect(locked())
    handshake(bad, version=0)
    before = len(bad.transport.sent)
    bad.feed(struct.pack(">i", len(BAD)) + BAD)
    await closed(bad)
    assert bad.transport.sent[before:] == b""


async def test_s_09_strangers_take_little_memory(locked: Locked) -> None:
    broker = locked()
    assert broker.edge.logins is not None
    large = connect(broker)
    large.feed(struct.pack(">i", 600_000))
    await closed(large)
    await asyncio.sleep(0)
    first, *others = [connect(broker) for _ in range(STRANGERS_MAX)]
    assert not first.transport.is_closed
    connect(broker)
    assert first.transport.is_aborted
    assert len(broker.edge.logins.strangers) == STRANGERS_MAX
    assert not any(each.transport.is_closed for each in others)
    log_in(others[0])
    assert len(broker.edge.logins.strangers) == STRANGERS_MAX - 1
    # Who is logged in may send larger requests.
    others[0].feed(struct.pack(">i", 600_000))
    assert not others[0].transport.is_closed


async def test_s_10_a_login_has_a_deadline(locked: Locked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authentication, "LOGIN_MS", 10)
    client = connect(locked())
    client.feed(b"\0")
    await closed(client)
    assert client.transport.sent == b""


async def test_s_16_a_handshake_on_a_listener_without_sasl(locked: Locked) -> None:
    client = locked().connect()
    assert client.connection.guard is None
    response = client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    assert (response.error_code, response.mechanisms) == (ErrorCode.ILLEGAL_SASL_STATE, [])
    assert client.ask(ListGroupsRequest(), 5).error_code == 0


@pytest.mark.parametrize(
    ("request_", "version", "is_answered"),
    [(SaslHandshakeRequest(mechanism="PLAIN"), 1, True), (PRODUCE, 12, False)],
)
async def test_another_request_in_the_middle_of_a_login(
    locked: Locked, request_: object, version: int, is_answered: bool
) -> None:
    client = connect(locked())
    handshake(client)
    client.send(request_, version)
    await closed(client)
    codes = [response.error_code for response in client.responses()]
    assert codes == ([ErrorCode.ILLEGAL_SASL_STATE] if is_answered else [])


@pytest.mark.parametrize(
    "body", [b"", b"\0", b"\xff" * 9, b"\0\x24\0\x07\0\0\0\1\xff\xff", b"\0\x63" + bytes(9)]
)
async def test_bytes_that_are_no_request_end_the_connection(locked: Locked, body: bytes) -> None:
    client = connect(locked())
    client.feed(struct.pack(">i", len(body)) + body)
    await closed(client)
    assert client.transport.sent == b""


FRAMES = st.one_of(
    st.binary(max_size=60),
    st.builds(
        lambda key, version, body: struct.pack(">hhih", key, version, 1, -1) + body,
        st.sampled_from([17, 18, 36, 0, 3, 99]),
        st.sampled_from([0, 1, 2, 3, 4, 99]),
        st.one_of(
            st.binary(max_size=40),
            st.sampled_from([b"\0\5PLAIN", b"\0\0\0\2hi", b"\0\0\0\0\0\0", b"\0\3hi\0"]),
        ),
    ),
)


async def test_s_09_no_bytes_before_a_login_get_in_or_break_anything(
    locked: Locked, caplog: pytest.LogCaptureFixture
) -> None:
    broker = locked()

    @settings(max_examples=300, deadline=None)
    @given(st.lists(FRAMES, max_size=5), st.integers(1, 64))
    def play(frames: list[bytes], at_once: int) -> None:
        client = connect(broker)
        data = b"".join(struct.pack(">i", len(frame)) + frame for frame in frames)
        client.feed(data, at_once=at_once)
        assert client.connection.session.principal == ANONYMOUS
        assert client.connection.guard is not None
        client.connection.connection_lost(None)

    play()
    assert [each.message for each in caplog.records if each.levelno >= logging.ERROR] == []
    assert broker.edge.logins is not None
    assert not broker.edge.logins.strangers


class TestReauthentication:
    async def test_s_14_nothing_is_appended_after_the_end_of_a_session(
        self, locked: Locked
    ) -> None:
        broker = locked(listener_name_locked_connections_max_reauth_ms="1")
        client = connect(broker)
        handshake(client)
        response = client.ask(SaslAuthenticateRequest(auth_bytes=GOOD), 1)
        assert response.session_lifetime_ms == 1
        assert client.connection.guard is not None
        await asyncio.sleep(0.002)
        sent = bytes(client.transport.sent)
        client.send(PRODUCE, 12)
        await closed(client)
        assert bytes(client.transport.sent) == sent

    @pytest.mark.moves(
        "kafka_server_socket_server_metrics_successful_authentication_total",
        "kafka_server_socket_server_metrics_successful_reauthentication_total",
    )
    async def test_a_client_may_log_in_again(
        self, locked: Locked, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("minikafka.security.sasl.server.BETWEEN_LOGINS_MS", 0)
        broker = locked(connections_max_reauth_ms="60000")
        client = connect(broker)
        name = "kafka_server_socket_server_metrics_successful_{}authentication_total"
        for count in (1, 2, 3):
            log_in(client)
            assert client.ask(ListGroupsRequest(), 5).error_code == 0
            scrape = Scrape([ConnectionMetrics(broker.edge)])
            assert scrape(name.format(""), listener="LOCKED") == 1
            if count > 1:
                assert scrape(name.format("re"), listener="LOCKED") == count - 1
        log_in(connect(broker))
        scrape = Scrape([ConnectionMetrics(broker.edge)])
        assert scrape(name.format(""), listener="LOCKED") == 2
        handshake(client)
        client.send(SaslAuthenticateRequest(auth_bytes=b"\0bob\0pw"), 2)
        await closed(client)
        (response,) = client.responses()
        assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


Open = Callable[..., Awaitable[KafkaConnection]]


@asynccontextmanager
async def opening(broker: FakeBroker) -> AsyncIterator[Open]:
    """Our own client's connections to the broker, over a socket."""
    server = await asyncio.get_running_loop().create_server(
        lambda: Connection(broker.edge, Listener("LOCKED"), broker.apis), "127.0.0.1", 0
    )
    port = server.sockets[0].getsockname()[1]

    async def open_(
        security: ClientSecurity | None,
        runtime: Runtime | None = None,
        traffic: Traffic | None = None,
    ) -> KafkaConnection:
        options = ConnectionOptions(security=security, traffic=traffic)
        runtime = runtime or SystemRuntime("test")
        return await KafkaConnection.open(runtime, "127.0.0.1", port, options)

    yield open_
    broker.edge.doors.close()
    server.close()
    await server.wait_closed()


async def test_our_client_logs_in(locked: Locked) -> None:
    async with opening(locked()) as open_:
        connection = await open_(ClientSecurity(Credentials("PLAIN", "alice", "pw")))
        assert (await connection.request(ListGroupsRequest())).error_code == 0
        await connection.close()


@pytest.mark.parametrize(
    ("credentials", "why"),
    [
        (Credentials("PLAIN", "alice", "no"), WRONG),
        (Credentials("SCRAM-SHA-256", "alice", "pw"), "does not offer SCRAM-SHA-256, but PLAIN"),
    ],
)
async def test_our_client_tells_why_its_login_failed(
    locked: Locked, credentials: Credentials, why: str
) -> None:
    async with opening(locked()) as open_:
        with pytest.raises(ConnectError, match=why) as caught:
            await open_(ClientSecurity(credentials))
        assert caught.value.attempt.phase == LOG_IN


async def test_our_client_without_a_login_is_told_that_there_must_be_one(locked: Locked) -> None:
    async with opening(locked()) as open_:
        address = (await open_(None)).address
        with pytest.raises(BootstrapError, match="does its listener ask for a login by SASL"):
            await Admin(address, bootstrap_timeout_ms=200).start()


class Later(SystemRuntime):
    """A runtime whose clock a test can set forward."""

    ahead_ms = 0

    def monotonic_ms(self) -> int:
        return super().monotonic_ms() + self.ahead_ms


class Sent:
    """Counts the requests that a client sends."""

    count = 0

    def on_opened(self, address: str) -> None: ...
    def on_closed(self, address: str) -> None: ...
    def on_sent(self, size: int) -> None:
        self.count += 1

    def on_answered(self, address: str, size: int, sent_ms: int) -> None: ...


class TestNextLogin:
    """Our client logs in again on the open connection, before the session ends or after."""

    @pytest.fixture(autouse=True)
    def soon(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("minikafka.security.sasl.server.BETWEEN_LOGINS_MS", 0)

    async def test_requests_wait_for_it_and_are_answered(self, locked: Locked) -> None:
        async with opening(locked(connections_max_reauth_ms="60000")) as open_:
            alice = ClientSecurity(Credentials("PLAIN", "alice", "pw"))
            runtime, sent = Later("test"), Sent()
            connection = await open_(alice, runtime, sent)
            runtime.ahead_ms = 50_000
            assert (await connection.request(ListGroupsRequest())).error_code == 0
            assert sent.count == 4
            for ahead_ms in (52_000, 300_000):
                before, runtime.ahead_ms = sent.count, ahead_ms
                asked = [connection.send(ListGroupsRequest()) for _ in range(3)]
                raw = connection.send_raw(ListGroupsRequest())
                assert [(await each).error_code for each in asked] == [0, 0, 0]
                assert len(await raw) > 0
                assert sent.count == before + 2 + 4
            assert (await connection.request(ListGroupsRequest())).error_code == 0
            assert sent.count == before + 2 + 5

    async def test_it_passes_where_no_more_requests_may_be_in_flight(self, locked: Locked) -> None:
        async with opening(locked(connections_max_reauth_ms="60000")) as open_:
            runtime = Later("test")
            alice = ClientSecurity(Credentials("PLAIN", "alice", "pw"))
            connection = await open_(alice, runtime)
            asked = [connection.send(ListGroupsRequest()) for _ in range(50)]
            runtime.ahead_ms = 52_000
            asked += [connection.send(ListGroupsRequest()) for _ in range(50)]
            with pytest.raises(ConnectionLost, match="too many requests in flight"):
                connection.send(ListGroupsRequest())
            assert (await connection.request(ListGroupsRequest())).error_code == 0
            assert [each.result().error_code for each in asked] == [0] * 100

    async def test_what_waits_is_told_why_it_is_refused(self, locked: Locked) -> None:
        broker = TestScram().locked(locked, connections_max_reauth_ms="60000")
        async with opening(broker) as open_:
            runtime = Later("test")
            alice = ClientSecurity(Credentials("SCRAM-SHA-256", "alice", "pw"))
            connection = await open_(alice, runtime)
            broker.image.apply(r.RemoveScramCredentialRecord("alice", 1), 102)
            runtime.ahead_ms = 52_000
            with pytest.raises(ConnectionLost, match=r"another session failed: .* credentials"):
                await connection.request(ListGroupsRequest())
            assert not connection.is_open


class TestScram:
    """Users whose passwords the cluster keeps."""

    def locked(self, locked: Locked, **settings: str) -> FakeBroker:
        broker = locked(sasl_enabled_mechanisms="SCRAM-SHA-256,SCRAM-SHA-512", **settings)
        for mechanism in ScramMechanism:
            salted = mechanism.salted("pw", b"salt of 16 bytes", 4096)
            made = credential_of(mechanism, salted, b"salt of 16 bytes", 4096)
            broker.image.apply(r.ScramCredentialRecord("alice", mechanism.value, *made), 100)
        broker.image.apply(r.ScramSecretRecord(b"s" * 32), 101)
        return broker

    @pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
    async def test_our_client_logs_in(self, locked: Locked, mechanism: str) -> None:
        async with opening(self.locked(locked)) as open_:
            connection = await open_(ClientSecurity(Credentials(mechanism, "alice", "pw")))
            assert (await connection.request(ListGroupsRequest())).error_code == 0
            for name, password in (("alice", "no"), ("nobody", "pw")):
                with pytest.raises(ConnectError, match="invalid credentials with SASL mechanism"):
                    await open_(ClientSecurity(Credentials(mechanism, name, password)))

    async def test_s_17_a_user_who_is_deleted_stays_connected_and_cannot_come_again(
        self, locked: Locked
    ) -> None:
        broker = self.locked(locked)
        alice = ClientSecurity(Credentials("SCRAM-SHA-256", "alice", "pw"))
        async with opening(broker) as open_:
            connection = await open_(alice)
            broker.image.apply(r.RemoveScramCredentialRecord("alice", 1), 102)
            assert (await connection.request(ListGroupsRequest())).error_code == 0
            with pytest.raises(ConnectError, match="invalid credentials"):
                await open_(alice)

    async def test_an_unknown_user_has_a_salt_that_stays(self, locked: Locked) -> None:
        broker = self.locked(locked)
        challenges = []
        for name in ("nobody", "nobody", "noone"):
            client = connect(broker)
            request = SaslHandshakeRequest(mechanism="SCRAM-SHA-256")
            assert client.ask(request, 1).error_code == 0
            first = f"n,,n={name},r=x".encode()
            token = client.ask(SaslAuthenticateRequest(auth_bytes=first), 2).auth_bytes
            challenges.append(token.partition(b",")[2])
        assert challenges[0] == challenges[1] != challenges[2]
        assert all(each.endswith(b",i=4096") for each in challenges)

    async def test_credentials_are_described_without_secrets(self, locked: Locked) -> None:
        client = self.locked(locked).connect()
        for users in (None, [UserName(name="alice")]):
            (result,) = client.ask(DescribeUserScramCredentialsRequest(users=users), 0).results
            infos = [(each.mechanism, each.iterations) for each in result.credential_infos]
            assert (result.user, infos) == ("alice", [(1, 4096), (2, 4096)])
        named = [UserName(name=name) for name in ("alice", "alice", "bob")]
        results = client.ask(DescribeUserScramCredentialsRequest(users=named), 0).results
        assert [(each.user, each.error_code) for each in results] == [
            ("alice", ErrorCode.DUPLICATE_RESOURCE),
            ("bob", ErrorCode.RESOURCE_NOT_FOUND),
        ]

    async def test_changes_are_forwarded(self, locked: Locked) -> None:
        broker = self.locked(locked)
        client = broker.connect()
        deletion = ScramCredentialDeletion(name="bob", mechanism=1)
        client.send(AlterUserScramCredentialsRequest(deletions=[deletion], upsertions=[]), 0)
        (response,) = await client.next_responses()
        (result,) = response.results
        assert (result.user, result.error_code) == ("bob", ErrorCode.NOT_CONTROLLER)
