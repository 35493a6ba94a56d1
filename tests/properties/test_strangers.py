"""Bytes of somebody who has proved nothing yet: each decoder takes them, or refuses them clearly.

The bytes are valid ones that were changed a little, because those get deeper than bytes at random.
Whoever has not logged in gets no exception but a refusal, no login, and little memory.
"""

import asyncio
import contextlib
import logging
import ssl
import struct
import tracemalloc
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from minikafka.client.net.control import ControlStream
from minikafka.controller.api.session import HELLO_BYTES_MAX, HELLO_ITEMS_MAX
from minikafka.protocol import codec
from minikafka.protocol.control.frames import Frame, decode_frame, encode_frame
from minikafka.protocol.control.heartbeat import Heartbeat, decode_heartbeat, encode_heartbeat
from minikafka.protocol.control.messages import ROLE_BROKER, Hello, SealAccepted, SealOffer
from minikafka.protocol.errors import RemoteProtocolError
from minikafka.protocol.framing import FrameReader
from minikafka.protocol.messages.api_versions import ApiVersionsRequest
from minikafka.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from minikafka.protocol.messages.sasl_handshake import SaslHandshakeRequest
from minikafka.protocol.schema import shape_of
from minikafka.runtime.runtime import SystemRuntime
from minikafka.security.control_seal import (
    NONCE_BYTES,
    DatagramGuards,
    Key,
    Offering,
    accept,
    datagram_tag,
)
from minikafka.security.principal import ANONYMOUS
from minikafka.security.sasl.errors import SaslError
from minikafka.security.sasl.plain import PlainClient, PlainServer
from minikafka.security.sasl.replies import Accepted, Challenge, Refused, ServerEnd
from minikafka.security.sasl.scram import (
    ScramClient,
    ScramMechanism,
    ScramPassword,
    ScramServer,
    ScramUsers,
    credential_of,
    pretended,
)
from minikafka.security.tls import ListenerTls, reason_of

from ..broker.edge_support import FakeBroker
from ..security.certificates import authority, make

pytestmark = pytest.mark.slow

MANY = settings(
    max_examples=400,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SPLICES = (
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\xff",
    b"\x80\0\0\0",
    b"\x7f\xff",
    b"\xff\xff\xff\xff\x07",
    b"\xdd\x7f\xff\xff\xff",
    b"\xdf\xff\xff\xff\xff",
    b"\xc6\x7f\xff\xff\xff",
    b"\x91" * 1000,
    b"\xdc\x40\0" * 300,
    b"\0",
    b",",
    b"=",
    b"\xc3\x28",
)
"""Lengths of all encodings that promise more than there is, deep nesting, and what parts texts."""
MEMORY_MAX = 256 << 10
"""The most bytes that the decoding of one frame may take at once."""


@st.composite
def damaged(draw: st.DrawFn, valid: bytes, most: int = 3) -> bytes:
    """The bytes with up to `most` changes; perhaps as they are."""
    data = bytearray(valid)
    for _ in range(draw(st.integers(0, most))):
        at = draw(st.integers(0, len(data)))
        match draw(st.integers(0, 4)):
            case 0:
                data[at : at + 1] = bytes((draw(st.integers(0, 255)),))
            case 1:
                splice = draw(st.sampled_from(SPLICES))
                data[at : at + len(splice)] = splice
            case 2:
                data[at:at] = draw(st.sampled_from(SPLICES))
            case 3:
                del data[at : at + draw(st.integers(1, 9))]
            case _:
                data[at:at] = data[at : at + 20]
    return bytes(data)


def spliced(valid: bytes) -> Iterable[bytes]:
    """The bytes with each splice at each position."""
    for at in range(len(valid) + 1):
        for splice in SPLICES:
            yield valid[:at] + splice + valid[at + len(splice) :]
            yield valid[:at] + splice + valid[at:]


def peak_of(decode: Callable[[bytes], object], cases: Iterable[bytes]) -> int:
    """Run a decoder, which may refuse its bytes, and return the most that it took for one case."""
    peak = 0
    tracemalloc.start()
    try:
        for data in cases:
            tracemalloc.reset_peak()
            before, _ = tracemalloc.get_traced_memory()
            with contextlib.suppress(RemoteProtocolError):
                decode(data)
            peak = max(peak, tracemalloc.get_traced_memory()[1] - before)
    finally:
        tracemalloc.stop()
    return peak


def framed(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


# Clients of a broker.

REQUESTS: list[Any] = [
    ApiVersionsRequest(client_software_name="a-client", client_software_version="1.2.3"),
    SaslHandshakeRequest(mechanism="PLAIN"),
    SaslAuthenticateRequest(auth_bytes=b"\0alice\0pw"),
]
CLASSES: list[type] = [type(request) for request in REQUESTS]
BODIES = [
    b"".join(codec.frame_request(request, version, 7, "a-client"))[4:]
    for request in REQUESTS
    for version in shape_of(type(request)).versions
]
LOGIN = [
    b"".join(codec.frame_request(request, version, 7, "a-client"))[4:]
    for request, version in zip(REQUESTS, (4, 1, 2), strict=True)
]


def read(body: bytes) -> object:
    """Read a request as a connection does before the login."""
    view = memoryview(body)
    header, position = codec.decode_request_header(view)
    cls = next((each for each in CLASSES if shape_of(each).api_key == header.api_key), None)
    if cls is None or header.api_version not in shape_of(cls).versions:
        return None
    return codec.decode_at(cls, header.api_version, view, position)


def test_s_09_no_length_before_a_login_is_believed() -> None:
    for body in BODIES:
        read(body)  # The decoders are compiled first.
    cases = [each for body in BODIES for each in spliced(body)]
    assert peak_of(read, cases) < MEMORY_MAX


async def test_a_login_whose_bytes_were_changed_is_refused_or_it_is_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    settings_ = {
        "listeners": "PLAINTEXT://h:1,LOCKED://h:2",
        "listener_security_protocol_map": "PLAINTEXT:PLAINTEXT,LOCKED:SASL_PLAINTEXT",
        "sasl_enabled_mechanisms": "PLAIN,SCRAM-SHA-256",
        "listener_name_locked_plain_sasl_jaas_config": f'{MODULE} required user_alice="pw";',
        "connection_failed_authentication_delay_ms": "0",
        "sasl_server_max_receive_size": "4096",
    }
    broker = FakeBroker(**settings_)
    seen = {True: 0, False: 0}

    @MANY
    @given(st.tuples(*map(damaged, LOGIN)), st.integers(1, 200), st.permutations(range(3)))
    def play(frames: tuple[bytes, ...], at_once: int, order: list[int]) -> None:
        client = broker.connect("LOCKED")
        if at_once % 4:
            order = [0, 1, 2]
        sent = b"".join(framed(frames[index]) for index in order)
        client.feed(sent, at_once=at_once)
        is_in = client.connection.session.principal != ANONYMOUS
        seen[is_in] += 1
        if is_in:
            assert b"\0alice\0pw" in sent
        assert client.connection.inbox.reader.capacity <= 128 << 10
        client.connection.connection_lost(None)

    play()
    assert all(seen.values()), "some get in, and some do not"
    assert [each.message for each in caplog.records if each.levelno >= logging.ERROR] == []
    assert broker.edge.logins is not None
    assert not broker.edge.logins.strangers
    broker.close()


def scram_server(mechanism: ScramMechanism) -> ScramServer:
    credential = credential_of(mechanism, SALTED[mechanism], b"salt of 16 bytes", 4096)
    users = ScramUsers(
        mechanism,
        lambda name: credential if name == "alice" else None,
        lambda name: pretended(b"s" * 32, credential, name),
    )
    return ScramServer(users, "server-nonce")


SALTED = {each: each.salted("pw", b"salt of 16 bytes", 4096) for each in ScramMechanism}


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_a_scram_login_counts_only_as_it_was_meant(mechanism: ScramMechanism) -> None:
    password = ScramPassword(mechanism, "alice", "pw")

    @MANY
    @given(st.data())
    def play(data: st.DataObject) -> None:
        client, server = ScramClient(password, "client-nonce"), scram_server(mechanism)
        first = client.first()
        sent = data.draw(damaged(first, 1))
        reply: object = server.step(sent)
        assert isinstance(reply, Challenge | Refused)
        if not isinstance(reply, Challenge):
            return
        final: bytes | None = b"c=biws,r=client-nonceserver-nonce,p=" + b"A" * 43 + b"="
        with contextlib.suppress(SaslError):  # The client may refuse what its message has become.
            final = client.step(reply.token)
        assert final is not None
        changed = data.draw(damaged(final, 2))
        reply = server.step(changed)
        assert isinstance(reply, Accepted | Refused)
        assert isinstance(reply, Accepted) == (sent == first and changed == final)

    play()


def test_a_plain_login_counts_only_as_it_was_meant() -> None:
    valid = PlainClient("alice", "pw").first()

    @MANY
    @given(damaged(valid))
    def play(token: bytes) -> None:
        server: ServerEnd = PlainServer({"alice": "pw"})
        reply = server.step(token)
        assert isinstance(reply, Accepted | Refused)
        assert isinstance(reply, Accepted) == (token in (valid, b"alice" + valid))

    play()


# TLS.


def client_hello() -> bytes:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    end = ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        end.do_handshake()
    return outgoing.read()


HELLO = client_hello()


@MANY
@given(damaged(HELLO))
def test_tls_at_a_port_for_plain_text_is_refused_or_waited_for(data: bytes) -> None:
    reader = FrameReader(1 << 20)
    rest = data
    with contextlib.suppress(RemoteProtocolError):
        while rest:
            room = reader.get_buffer()
            size = min(len(room), len(rest))
            room[:size], rest = rest[:size], rest[size:]
            for frame in reader.feed(size):
                assert len(frame) <= len(data)
    assert reader.capacity <= 64 << 10


def test_a_handshake_whose_bytes_were_changed_ends_with_a_reason(tmp_path: Path) -> None:
    properties = {
        "ssl.keystore.location": make("broker-1").write(tmp_path / "server.pem"),
        "ssl.truststore.certificates": authority().certificate_pem,
        "ssl.client.auth": "required",
    }
    runtime = SystemRuntime("broker-1")
    tls = ListenerTls(runtime, properties, "OUTSIDE")

    @MANY
    @given(damaged(HELLO))
    def play(data: bytes) -> None:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        end = tls.context.wrap_bio(incoming, outgoing, server_side=True)
        incoming.write(data)
        try:
            end.do_handshake()
        except ssl.SSLWantReadError:
            return
        except ssl.SSLError as error:
            why = reason_of(error)
            assert why
            assert why.isprintable()
        else:
            pytest.fail("nobody has shown a certificate")

    play()
    runtime.close()


# The control plane.

KEY = Key.of(b"k" * 32)
OFFER = Offering((KEY, Key.of(b"o" * 32)), b"r" * NONCE_BYTES).offer
GREETING = Hello("a-cluster", 1, 1, 3, ROLE_BROKER, bytes(range(16)))
BEGINNINGS = [encode_frame(1, OFFER), encode_frame(2, GREETING)]
BEAT = Heartbeat("a-cluster", 3, 17, bytes(range(16)), 5)
DATAGRAMS = [
    encode_heartbeat(BEAT),
    encode_heartbeat(BEAT, lambda content: datagram_tag(KEY.secret, content)),
]


class FakeTransport(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__({"peername": ("10.0.0.9", 5555)})
        self.is_closed = False

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_closed = True

    def write(self, data: Any) -> None: ...

    def get_write_buffer_size(self) -> int:
        return 0


def test_no_length_before_hello_is_believed() -> None:
    def read_frame(body: bytes) -> Frame:
        return decode_frame(body, HELLO_ITEMS_MAX)

    for frame in BEGINNINGS:
        read_frame(frame[4:])
    deep = b"\x93" + b"\xdc\xf0\0" * 1000 + bytes(HELLO_BYTES_MAX - 4000)
    cases = [*(each for frame in BEGINNINGS for each in spliced(frame[4:])), deep]
    datagrams = [each for datagram in DATAGRAMS for each in spliced(datagram)]
    assert peak_of(read_frame, cases) < 4 * MEMORY_MAX
    assert peak_of(decode_heartbeat, datagrams) < MEMORY_MAX


@MANY
@given(st.tuples(*map(damaged, BEGINNINGS)), st.integers(1, 400), st.booleans())
def test_a_control_connection_begins_or_is_refused(
    frames: tuple[bytes, ...], at_once: int, is_sealed: bool
) -> None:
    begun: list[object] = []
    refused: list[str] = []

    def on_frame(frame: Frame) -> None:
        message = frame.message
        if isinstance(message, SealOffer):
            accepted = accept((KEY,), message, b"n" * NONCE_BYTES)
            assert accepted is None or isinstance(accepted[0], SealAccepted)
            if is_sealed and accepted is not None:
                stream.seal = accepted[1]
        elif isinstance(message, Hello):
            assert stream.seal is None, "no frame here has a seal"
            begun.append(message)
        else:
            raise RemoteProtocolError(f"{type(message).__name__} before Hello")

    stream = ControlStream(on_frame, refused.append, say_refused=lambda _, why: refused.append(why))
    stream.limit_frames(HELLO_BYTES_MAX, HELLO_ITEMS_MAX)
    stream.connection_made(transport := FakeTransport())
    rest = memoryview(b"".join(frames))
    while rest and not transport.is_closed:
        room = cast("memoryview", stream.get_buffer(-1))
        size = min(len(room), len(rest), at_once)
        room[:size], rest = rest[:size], rest[size:]
        stream.buffer_updated(size)
    assert transport.is_closed == bool(refused)
    assert all(len(why) < 300 for why in refused), "a stranger fills no log"
    assert stream.held_bytes <= 2 * HELLO_BYTES_MAX


@MANY
@given(st.sampled_from(DATAGRAMS).flatmap(damaged))
def test_a_datagram_counts_only_as_it_was_sealed(data: bytes) -> None:
    guards = DatagramGuards(is_required=True)
    guards.on_session(BEAT.broker_id, KEY.secret)
    datagram = None
    with contextlib.suppress(RemoteProtocolError):
        datagram = decode_heartbeat(data)
    if datagram is None:
        return
    counts = guards.admits(datagram)
    # What follows the tag says nothing.
    assert counts == (
        (datagram.heartbeat, datagram.tag)
        == (BEAT, datagram_tag(KEY.secret, encode_heartbeat(BEAT)))
    )
    assert not guards.admits(datagram), "once at most"
