"""A controller whose control plane is sealed, and strangers at its port."""

import asyncio
import contextlib
import logging
from base64 import b64encode
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import asyncio_dgram
import pytest

from minikafka.client.net.control import ControlConnection
from minikafka.protocol.api import ApiKey
from minikafka.protocol.codec import encode_bytes
from minikafka.protocol.control import messages as m
from minikafka.protocol.control import quorum_messages as q
from minikafka.protocol.control.frames import decode_frame, encode_frame
from minikafka.protocol.control.heartbeat import Heartbeat, decode_heartbeat, encode_heartbeat
from minikafka.protocol.errors import ApiError, ErrorCode
from minikafka.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from minikafka.runtime.runtime import SystemRuntime
from minikafka.security.control_keys import ControlKeys
from minikafka.security.control_seal import datagram_tag

from .conftest import WAIT_MS, FakeBroker, Lab
from .test_metrics import OWN, scrape

REFUSED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def key_file(path: Path, *secrets: int) -> str:
    path.write_text("\n".join(b64encode(bytes([each]) * 32).decode() for each in secrets))
    path.chmod(0o600)
    return str(path)


class Sealed:
    """A controller that requires its key 1, broker 1 that holds it, and strangers."""

    def __init__(self, lab: Lab, directory: Path) -> None:
        self.lab = lab
        self.path = directory / "control.key"
        self.theirs = directory / "strange.key"
        self.opened: list[ControlConnection] = []
        self.runtime = SystemRuntime("node")

    async def start(self, security: str = "psk") -> None:
        path = key_file(self.path, 1)
        await self.lab.server.stop()
        await self.lab.start({"control.security": security, "control.psk.file": path})

    def keys(self, *secrets: int, security: str = "psk") -> ControlKeys:
        keys = ControlKeys.open(self.runtime, security, key_file(self.theirs, *secrets))
        assert keys is not None
        return keys

    async def connect(
        self, keys: ControlKeys | None, role: int = m.ROLE_BROKER, node_id: int = 1
    ) -> ControlConnection:
        hello = m.Hello(None, 1, 1, node_id, role, bytes(16))
        host, port = self.lab.server.address
        connection = await ControlConnection.open(host, port, hello, timeout_ms=WAIT_MS, keys=keys)
        self.opened.append(connection)
        return connection

    async def broker(self, broker_id: int) -> FakeBroker:
        broker = FakeBroker(broker_id, await self.connect(self.keys(1), node_id=broker_id))
        await broker.come_up()
        return broker

    async def refused(self, data: bytes) -> bytes:
        """Send bytes, and return what came before the connection was closed."""
        reader, writer = await asyncio.open_connection(*self.lab.server.address)
        writer.write(data)
        answered = b""
        with contextlib.suppress(ConnectionResetError):
            answered = await asyncio.wait_for(reader.read(), WAIT_MS / 1000)
        writer.close()
        with contextlib.suppress(ConnectionResetError):
            await writer.wait_closed()
        return answered

    async def close(self) -> None:
        for connection in self.opened:
            connection.abort("the test is over")
            await connection.wait_until_closed()
        self.runtime.close()


@pytest.fixture
async def sealed(lab: Lab, tmp_path: Path) -> AsyncIterator[Sealed]:
    made = Sealed(lab, tmp_path)
    await made.start()
    yield made
    await made.close()


async def test_who_holds_the_key_registers_and_asks(sealed: Sealed) -> None:
    broker = await sealed.broker(1)
    assert (await broker.create_topic("t", 1, 1)).error_code == 0


async def test_s_50_without_the_key_a_controller_is_not_even_asked(
    sealed: Sealed, caplog: pytest.LogCaptureFixture
) -> None:
    """S-50: nothing that a stranger says is answered, and the cluster is not named to it."""
    for keys in (None, sealed.keys(2), sealed.keys(2, security="none")):
        with pytest.raises(ApiError) as refused:
            await sealed.connect(keys)
        assert refused.value.code is REFUSED
        assert "control.psk.file" in str(refused.value)
    assert "does not prove to hold its cluster's key" in caplog.text


@pytest.mark.parametrize("secret", [1, 2])
async def test_a_seal_is_offered_once(sealed: Sealed, secret: int) -> None:
    """A second offer ends the connection, whether the first one was accepted or not."""
    offer = encode_frame(0, sealed.keys(secret).offering().offer)
    answered = await sealed.refused(offer + offer)
    first = decode_frame(answered[4:]).message  # Nothing follows it.
    assert isinstance(first, m.SealAccepted if secret == 1 else m.Refused)


async def test_who_requires_a_seal_believes_no_controller_without_one(
    lab: Lab, tmp_path: Path
) -> None:
    made = Sealed(lab, tmp_path)
    with pytest.raises(ApiError, match=r"cannot prove .* no control.psk.file") as refused:
        await made.connect(made.keys(1))
    assert refused.value.code is REFUSED
    await made.close()


# -- what a stranger tries: each is refused, and changes nothing

VOTER = q.VoterKey(9)
TOPIC = encode_bytes(
    CreateTopicsRequest(
        topics=[CreatableTopic(name="stolen", num_partitions=1, replication_factor=1)]
    ),
    7,
)
FORWARDED = m.ForwardedRequest(int(ApiKey.CREATE_TOPICS), 7, TOPIC, "User:admin", WAIT_MS)


def register(broker: FakeBroker) -> m.RegisterBroker:
    endpoint = m.Endpoint("PLAINTEXT", "127.0.0.1", 2)
    return m.RegisterBroker(broker.broker_id, b"s" * 16, (b"s" * 16,), (endpoint,), None, {})


async def forged(sealed: Sealed, role: int, request: m.Request[Any], node_id: int = 1) -> None:
    """Send a request with a false Hello, and see that only the Hello is answered, by a refusal."""
    server = sealed.lab.server
    before = server.controller.cluster.image.offset
    hello = encode_frame(0, m.Hello(None, 1, 1, node_id, role, bytes(16)))
    answered = await sealed.refused(hello + encode_frame(1, request))
    refusal = decode_frame(answered[4:]).message  # No other frame follows it.
    assert isinstance(refusal, m.HelloAnswer)
    assert (refusal.error, refusal.cluster_id, refusal.active_id) == (REFUSED, None, -1)
    assert server.controller.cluster.image.offset == before


async def test_forged_a_stranger_registers_as_a_live_broker(sealed: Sealed) -> None:
    broker = await sealed.broker(1)
    await forged(sealed, m.ROLE_BROKER, register(broker))
    assert not (await broker.beat()).is_fenced


async def test_forged_a_stranger_registers_as_a_broker_that_is_down(sealed: Sealed) -> None:
    broker = await sealed.broker(2)
    broker.connection.abort("gone")
    one = await sealed.broker(1)
    await one.follow_until(lambda image: image.brokers[2].fenced)
    await forged(sealed, m.ROLE_BROKER, register(broker), node_id=2)
    await one.follow()
    assert one.image.brokers[2].broker_epoch == broker.epoch


async def test_forged_a_stranger_votes_and_leads(sealed: Sealed) -> None:
    epoch = sealed.lab.server.controller.quorum.epoch
    candidate = q.VoterKey(10, b"d" * 16)
    for request in (
        q.Vote(None, epoch + 5, candidate, VOTER, epoch + 4, 1 << 40, False),
        q.BeginQuorumEpoch(None, epoch + 5, candidate, VOTER),
        q.FetchQuorumLog(None, epoch, candidate, 0, 0, 0, 0, 1 << 20),
    ):
        await forged(sealed, m.ROLE_CONTROLLER, request, node_id=10)
    assert sealed.lab.server.controller.quorum.epoch == epoch
    assert sealed.lab.server.controller.quorum.is_leader


async def test_forged_a_stranger_shrinks_an_isr(sealed: Sealed) -> None:
    one, two = await sealed.broker(1), await sealed.broker(2)
    assert (await one.create_topic("t", 1, 2)).error_code == 0
    topic = one.image.topic("t")
    assert topic is not None
    state = topic.partitions[0]
    leader = one if state.leader == 1 else two
    alone = (m.IsrMember(leader.broker_id, leader.epoch),)
    change = m.PartitionChange(topic.topic_id, 0, state.leader_epoch, state.partition_epoch, alone)
    request = m.AlterPartitions(leader.broker_id, leader.epoch, (change,))
    await forged(sealed, m.ROLE_BROKER, request, node_id=leader.broker_id)
    # The same from the leader itself is carried out.
    assert not (await leader.call(request)).partitions[0].error


async def test_forged_a_stranger_forwards_as_another_principal(sealed: Sealed) -> None:
    broker = await sealed.broker(1)
    await forged(sealed, m.ROLE_BROKER, FORWARDED)
    await broker.follow()
    assert broker.image.topic("stolen") is None


async def test_a_tool_that_holds_the_key_forwards_questions_only(sealed: Sealed) -> None:
    """A tool is nobody's broker: what it says of a principal proves nothing."""
    tool = await sealed.connect(sealed.keys(1), m.ROLE_TOOL, node_id=-1)
    broker = await sealed.broker(1)
    for request in (FORWARDED, register(broker), m.AllocateProducerIds(1, broker.epoch)):
        with pytest.raises(ApiError, match="ask a broker") as refused:
            await tool.call(request, timeout_ms=WAIT_MS)
        assert refused.value.code is REFUSED
    controller = await sealed.connect(sealed.keys(1), m.ROLE_CONTROLLER, node_id=9)
    with pytest.raises(ApiError, match="only brokers send ForwardedRequest"):
        await controller.call(FORWARDED, timeout_ms=WAIT_MS)


async def test_forged_datagrams_change_nothing(sealed: Sealed) -> None:
    """The highest number, a stop, a stale incarnation, the key of another session."""
    broker = await sealed.broker(1)
    lease = sealed.lab.server.controller.leases[1]
    cluster_id = sealed.lab.server.controller.cluster_id or ""
    key = broker.connection.datagram_key
    assert key is not None
    true = Heartbeat(cluster_id, 1, broker.epoch, lease.incarnation_id, 7)

    def sealed_with(secret: bytes, heartbeat: Heartbeat) -> bytes:
        return encode_heartbeat(heartbeat, lambda content: datagram_tag(secret, content))

    high = replace(true, sequence=(1 << 63) - 1)
    stranger = await asyncio_dgram.connect(sealed.lab.server.address)
    for datagram in (
        encode_heartbeat(high),
        sealed_with(b"x" * 32, high),
        encode_heartbeat(high, lambda content: b""),
        sealed_with(key, replace(true, incarnation_id=b"stale incarnatio", sequence=1)),
        sealed_with(key, replace(true, broker_epoch=broker.epoch - 1, sequence=2)),
        sealed_with(key, true),
    ):
        await stranger.send(datagram)
    for _ in range(WAIT_MS):
        if lease.sequence >= 7:
            break
        await asyncio.sleep(0.001)
    stranger.close()
    assert lease.sequence == 7
    assert lease.is_live


async def test_s_53_keys_change_under_a_broker_that_works(sealed: Sealed) -> None:
    """S-53: the file gets a second key, then loses the first; connections that are open stay."""
    old = await sealed.broker(1)
    key_file(sealed.path, 1, 2)
    new = FakeBroker(2, await sealed.connect(sealed.keys(2), node_id=2))
    await new.come_up()
    key_file(sealed.path, 2)
    assert (await old.create_topic("t", 1, 2)).error_code == 0
    with pytest.raises(ApiError):
        await sealed.connect(sealed.keys(1))


@pytest.mark.parametrize("with_key", [True, False])
async def test_while_a_cluster_changes_to_psk_those_without_a_key_are_served(
    lab: Lab, tmp_path: Path, with_key: bool
) -> None:
    made = Sealed(lab, tmp_path)
    await made.start(security="none")
    keys = made.keys(1, security="none") if with_key else None
    broker = FakeBroker(1, await made.connect(keys))
    await broker.come_up()
    assert (broker.connection.datagram_key is not None) is with_key
    assert (await broker.create_topic("t", 1, 1)).error_code == 0
    other = FakeBroker(2, await made.connect(made.keys(2, security="none"), node_id=2))
    await other.come_up()
    assert other.connection.datagram_key is None
    await made.close()


async def test_a_frame_changed_on_its_way_ends_the_connection(
    sealed: Sealed, caplog: pytest.LogCaptureFixture
) -> None:
    broker = await sealed.broker(1)
    seal = broker.connection._stream.seal
    assert seal is not None
    seal.close(b"a frame that never arrives")
    with pytest.raises(ApiError):
        await broker.beat()
    assert "wrong seal" in caplog.text
    again = FakeBroker(1, await sealed.connect(sealed.keys(1)), epoch=broker.epoch)
    assert not (await again.beat()).error


async def test_s_55_no_key_is_in_what_a_controller_logs_or_shows(
    sealed: Sealed, caplog: pytest.LogCaptureFixture
) -> None:
    """S-55: handshakes that work, that fail, and a key file that is damaged."""
    caplog.set_level(logging.DEBUG)
    broker = await sealed.broker(1)
    key = sealed.path.read_text()
    for keys in (sealed.keys(2), None):
        with pytest.raises(ApiError):
            await sealed.connect(keys)
    sealed.path.write_text(f"{key}, and more")
    again = await sealed.connect(sealed.keys(1))
    server = sealed.lab.server
    texts = [caplog.text, repr(server.ground), repr(again._stream.seal), repr(server.guards)]
    texts += [f"{each.msg!r} {each.args!r}" for each in caplog.records]
    raw = broker.connection.datagram_key
    assert raw is not None
    secrets = (key, repr(raw), repr(bytes([1]) * 32), raw.hex())
    assert not [text for text in texts if any(secret in text for secret in secrets)]
    assert "the keys that were read before are used on" in caplog.text


@pytest.mark.moves(
    "minikafka_controller_unsealed_connections",
    "minikafka_controller_unproved_connections_total",
    "minikafka_controller_refused_heartbeats_total",
)
async def test_strangers_are_counted_and_so_are_connections_without_a_seal(
    sealed: Sealed,
) -> None:
    lab, names = sealed.lab, ("unproved_connections_total", "refused_heartbeats_total")
    broker = await sealed.broker(1)
    assert [scrape(lab)(OWN + name) for name in names] == [0, 0]
    for keys in (None, sealed.keys(2)):
        with pytest.raises(ApiError):
            await sealed.connect(keys)
    true = Heartbeat(lab.server.controller.cluster_id or "", 1, broker.epoch, bytes(16), 1)
    assert not lab.server.guards.admits(decode_heartbeat(encode_heartbeat(true)))
    assert [scrape(lab)(OWN + name) for name in names] == [2, 1]
    assert scrape(lab)(f"{OWN}unsealed_connections") == 0
    await sealed.start(security="none")
    await sealed.connect(None)
    assert scrape(lab)(f"{OWN}unsealed_connections") == 1
