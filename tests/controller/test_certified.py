"""A controller whose control plane has TLS: certificates prove which node each peer is."""

import asyncio
import logging
from collections.abc import AsyncIterator
from dataclasses import fields, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import asyncio_dgram
import pytest

from minikafka.client.config import AdminConfig, configured
from minikafka.client.net import handshakes
from minikafka.client.net.control import ControlConnection
from minikafka.controller.api.table import APIS
from minikafka.protocol.control import messages as m
from minikafka.protocol.control import quorum_messages as q
from minikafka.protocol.control.heartbeat import Heartbeat, decode_heartbeat, encode_heartbeat
from minikafka.protocol.errors import ApiError, ErrorCode
from minikafka.runtime.config import from_mapping
from minikafka.runtime.errors import ConfigError
from minikafka.runtime.runtime import SystemRuntime
from minikafka.security import tls
from minikafka.security.control_keys import ControlKeys
from minikafka.security.control_proof import ControlProof
from minikafka.security.control_seal import datagram_tag
from minikafka.security.control_settings import ControlSettings, ControlTlsConfig
from minikafka.security.control_tls import ControlTls

from ..security.certificates import Made, authority, make
from .conftest import WAIT_MS, FakeBroker, Lab
from .test_sealed import key_file

REFUSED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
CONTROLLER = 9


class Certified:
    """A controller with a certificate, brokers with theirs, and strangers."""

    def __init__(self, lab: Lab, directory: Path) -> None:
        self.lab = lab
        self.directory = directory
        self.runtime = SystemRuntime("node")
        self.opened: list[ControlConnection] = []
        self.trust = directory / "ca.pem"
        self.trust.write_text(authority().certificate_pem)

    def settings(self, name: str, made: Made | None = None) -> dict[str, str]:
        path = (made or make(name)).write(self.directory / f"{name}.pem")
        return {
            "control.ssl.keystore.location": path,
            "control.ssl.truststore.location": str(self.trust),
        }

    async def start(self, **changed: str) -> None:
        await self.lab.server.stop()
        given = {"control.security": "mtls", "super.users": "User:alice"}
        if "control.ssl.keystore.location" not in changed:
            given |= self.settings("controller-9")
        await self.lab.start(given | changed)

    def proof(self, name: str, made: Made | None = None) -> ControlTls:
        config = from_mapping(ControlTlsConfig, self.settings(name, made))
        return ControlTls(self.runtime, config)

    async def connect(
        self,
        keys: ControlProof | None,
        node_id: int = 1,
        role: int = m.ROLE_BROKER,
        *,
        host: str = "localhost",
        port: int = 0,
    ) -> ControlConnection:
        hello = m.Hello(None, 1, 1, node_id, role, bytes(16))
        port = port or self.lab.server.address[1]
        connection = await ControlConnection.open(host, port, hello, timeout_ms=WAIT_MS, keys=keys)
        self.opened.append(connection)
        return connection

    async def broker(self, broker_id: int) -> FakeBroker:
        keys = self.proof(f"broker-{broker_id}")
        broker = FakeBroker(broker_id, await self.connect(keys, broker_id))
        await broker.come_up()
        return broker

    async def close(self) -> None:
        for connection in self.opened:
            connection.abort("the test is over")
            await connection.wait_until_closed()
        self.runtime.close()


@pytest.fixture
async def certified(lab: Lab, tmp_path: Path) -> AsyncIterator[Certified]:
    made = Certified(lab, tmp_path)
    await made.start()
    yield made
    await made.close()


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
async def test_a_node_is_served_as_its_certificate_says(certified: Certified, host: str) -> None:
    broker = FakeBroker(1, await certified.connect(certified.proof("broker-1"), host=host))
    await broker.come_up()
    assert (await broker.create_topic("t", 1, 1)).error_code == 0
    assert certified.lab.server.sessions.unsealed_count == 0


@pytest.mark.plain_loop
async def test_a_node_is_served_on_asyncios_own_loop(certified: Certified) -> None:
    broker = await certified.broker(1)
    assert (await broker.create_topic("t", 1, 1)).error_code == 0


@pytest.mark.parametrize(
    ("name", "made", "words"),
    [
        ("broker-1", make("broker-1", by=authority("another")), "its log says why"),
        ("broker-2", None, "its certificate is that of 'broker-2', not of 'broker-1'"),
        ("alice", None, "its certificate is that of 'alice', not of 'broker-1'"),
        ("broker-01", None, "its certificate is that of 'broker-01', not of 'broker-1'"),
        ("controller-1", None, "its certificate is that of 'controller-1', not of 'broker-1'"),
    ],
)
async def test_a_wrong_certificate_is_refused_in_one_line_at_both_ends(
    certified: Certified,
    caplog: pytest.LogCaptureFixture,
    name: str,
    made: Made | None,
    words: str,
) -> None:
    caplog.clear()
    with pytest.raises(ApiError) as refused:
        await certified.connect(certified.proof(name, made))
    (line,) = str(refused.value).splitlines()
    assert words in line
    (said,) = [each for each in caplog.messages if "connection from" in each]
    assert len(said.splitlines()) == 1
    sessions = certified.lab.server.sessions
    assert sessions.unproved_count == 1


async def test_an_expired_certificate_is_refused_in_one_line(
    certified: Certified, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    expired = make("broker-1", days=-1)
    with pytest.raises(ConfigError, match="certificate has expired") as at_start:
        certified.proof("broker-1", expired)
    assert len(str(at_start.value).splitlines()) == 1
    monkeypatch.setattr(tls, "LOOK_MS", 0)
    proof = certified.proof("broker-1")
    certified.settings("broker-1", expired)
    caplog.clear()
    with pytest.raises(ApiError):
        await certified.connect(proof)
    (said,) = [each for each in caplog.messages if "connection from" in each]
    assert "certificate verify failed: certificate has expired" in said


async def test_a_broker_cannot_be_a_controller(
    certified: Certified, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither where it connects nor where it is connected to, under any id."""
    proof = certified.proof("broker-9")
    with pytest.raises(ApiError, match="is that of 'broker-9', not of 'controller-9'"):
        await certified.connect(proof, CONTROLLER, m.ROLE_CONTROLLER)
    told: list[object] = []
    monkeypatch.setattr(ControlConnection, "call", told.append)
    server = await asyncio.start_server(
        lambda _, writer: writer.close(), "127.0.0.1", 0, ssl=proof.server_context
    )
    async with server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(ApiError, match="is no controller, but its certificate is that of"):
            await certified.connect(certified.proof("broker-1"), port=port)
    assert not told


async def test_who_shows_no_certificate_or_speaks_no_tls_is_told_nothing(
    certified: Certified, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(ApiError) as refused:
        await certified.connect(None)
    assert refused.value.code is ErrorCode.NETWORK_EXCEPTION
    assert "the peer does not speak TLS" in caplog.text
    assert certified.lab.server.sessions.unproved_count == 1


async def test_a_controller_must_be_who_it_says_it_is(
    certified: Certified, monkeypatch: pytest.MonkeyPatch
) -> None:
    strange = make("controller-9", by=authority("another"))
    await certified.start(**certified.settings("controller-9", strange))
    with pytest.raises(ApiError, match="certificate verify failed") as refused:
        await certified.connect(certified.proof("broker-1"))
    assert refused.value.code is REFUSED
    await certified.start()
    config = certified.lab.server.config
    monkeypatch.setattr(certified.lab.server, "config", replace(config, node_id=8))
    words = "is 'controller-8', but its certificate is that of 'controller-9'"
    with pytest.raises(ApiError, match=words):
        await certified.connect(certified.proof("broker-1"))


async def test_a_controllers_certificate_must_name_the_host_that_was_dialled(
    certified: Certified,
) -> None:
    elsewhere = make("controller-9", alternatives=())
    await certified.start(**certified.settings("controller-9", elsewhere))
    with pytest.raises(ApiError, match="certificate verify failed"):
        await certified.connect(certified.proof("broker-1"))


async def test_a_node_speaks_for_itself_alone(certified: Certified) -> None:
    broker, other = await certified.broker(1), await certified.broker(2)
    for request in (
        m.BrokerHeartbeat(2, other.epoch, 0, True, False),
        m.AllocateProducerIds(2, other.epoch),
        m.OfflinePartitions(2, other.epoch, ()),
    ):
        with pytest.raises(ApiError, match=r"node 1 cannot send \w+ for node 2") as refused:
            await broker.call(request)
        assert refused.value.code is REFUSED
    assert not (await other.beat()).is_fenced


async def test_a_voter_votes_for_itself_alone(certified: Certified) -> None:
    keys = certified.proof("controller-10")
    voter = await certified.connect(keys, 10, m.ROLE_CONTROLLER)
    before = certified.lab.server.controller.quorum.epoch
    other, asked = q.VoterKey(11, b"d" * 16), q.VoterKey(CONTROLLER, b"v" * 16)
    for request in (
        q.Vote(None, before + 5, other, asked, before + 4, 1 << 40, False),
        q.BeginQuorumEpoch(None, before + 5, other, asked),
    ):
        with pytest.raises(ApiError, match="for node 11"):
            await voter.call(request, timeout_ms=WAIT_MS)
    assert certified.lab.server.controller.quorum.epoch == before


@pytest.mark.parametrize(("name", "may"), [("alice", True), ("broker-1", True), ("bob", False)])
async def test_a_tool_is_a_node_or_a_super_user(certified: Certified, name: str, may: bool) -> None:
    keys = certified.proof(name)
    if may:
        assert (await certified.connect(keys, -1, m.ROLE_TOOL)).is_open
        return
    with pytest.raises(ApiError, match="User:bob is neither"):
        await certified.connect(keys, -1, m.ROLE_TOOL)


async def test_heartbeats_count_with_the_key_of_their_session_alone(certified: Certified) -> None:
    broker = await certified.broker(1)
    server = certified.lab.server
    lease, cluster_id = server.controller.leases[1], server.controller.cluster_id or ""
    key = broker.connection.datagram_key
    other = (await certified.connect(certified.proof("broker-2"), 2)).datagram_key
    assert key is not None
    assert other is not None
    assert key != other
    heartbeat = Heartbeat(cluster_id, 1, broker.epoch, lease.incarnation_id, 7)

    def sealed_with(secret: bytes) -> bytes:
        return encode_heartbeat(heartbeat, lambda content: datagram_tag(secret, content))

    for datagram in (encode_heartbeat(heartbeat), sealed_with(other)):
        assert not server.guards.admits(decode_heartbeat(datagram))
    sender = await asyncio_dgram.connect(server.address)
    await sender.send(sealed_with(key))
    sender.close()
    for _ in range(WAIT_MS):
        if lease.sequence >= 7:
            break
        await asyncio.sleep(0.001)
    assert lease.sequence == 7


async def test_new_certificates_are_used_without_a_restart(
    certified: Certified, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(tls, "LOOK_MS", 0)
    first = await certified.broker(1)
    new = authority("new")
    certified.trust.write_text(authority().certificate_pem + new.certificate_pem)
    certified.settings("controller-9", make("controller-9", by=new))
    second = await certified.broker(2)
    end = second.connection._stream.tls_end
    assert end is not None
    assert "new" in str((end.getpeercert() or {})["issuer"])
    assert not (await first.beat()).is_fenced  # Its connection lives on.
    (certified.directory / "controller-9.pem").write_text("nothing")
    await certified.broker(3)
    assert "are used on" in caplog.text
    certified.trust.write_text(new.certificate_pem)
    certified.settings("controller-9", make("controller-9", by=new))
    with pytest.raises(ApiError):
        await certified.connect(certified.proof("broker-1"))
    renewed = certified.proof("broker-1", make("broker-1", by=new))
    assert (await certified.connect(renewed)).is_open


def test_a_daemons_own_certificate_must_be_its_own(certified: Certified) -> None:
    config = from_mapping(ControlTlsConfig, certified.settings("broker-3"))
    with pytest.raises(ConfigError) as refused:
        ControlTls(certified.runtime, config, "broker-1")
    (line,) = str(refused.value).splitlines()
    assert line.startswith("control.ssl.keystore.location=")
    assert "its certificate is that of 'broker-3', not of 'broker-1'" in line


def test_a_store_that_cannot_be_used_is_named_with_its_key(
    certified: Certified, tmp_path: Path
) -> None:
    given = certified.settings("broker-1")
    given["control.ssl.truststore.location"] = str(tmp_path / "missing.pem")
    with pytest.raises(ConfigError, match=r"control\.ssl\.truststore\.location=.*missing"):
        ControlTls(certified.runtime, from_mapping(ControlTlsConfig, given))


@pytest.mark.parametrize(
    ("security", "path", "given", "words"),
    [
        ("mtls", None, {}, "control.security=mtls: needs control.ssl.keystore.location"),
        ("mtls", "a.key", {}, "control.security=mtls: needs control.ssl.keystore.location"),
        (None, "a.key", {"keystore", "truststore"}, "control.security must say which of them"),
        ("psk", None, {"keystore", "truststore"}, "control.security=psk: needs control.psk.file"),
        ("none", None, {"keystore", "truststore"}, "has no effect with control.security=none"),
        ("mtls", None, {"keystore"}, "need each other"),
        ("mtls", None, {"truststore"}, "need each other"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(
    security: str | None, path: str | None, given: set[str], words: str
) -> None:
    properties: dict[str, Any] = {f"control.ssl.{each}.location": "f.pem" for each in given}
    with pytest.raises(ConfigError) as refused:
        ControlSettings(security, path, from_mapping(ControlTlsConfig, properties)).check()
    assert words in str(refused.value)
    assert len(str(refused.value).splitlines()) == 1


# -- a change from the one mode to the other, while the cluster runs

ROUNDS = (
    {"control.security": "psk", "key": True, "certificates": False},
    {"control.security": "psk", "key": True, "certificates": True},
    {"control.security": "mtls", "key": True, "certificates": True},
    {"control.security": "mtls", "key": False, "certificates": True},
)
"""The settings of a node before the change and after each of its rounds of restarts."""


def of_round(settings: dict[str, Any]) -> ControlSettings:
    stores = {f"control.ssl.{each}.location": "f.pem" for each in ("keystore", "truststore")}
    given = stores if settings["certificates"] else {}
    path = "control.key" if settings["key"] else None
    stated = from_mapping(ControlTlsConfig, given)
    made = ControlSettings(settings["control.security"], path, stated)
    made.check()
    return made


def understand(one: ControlSettings, other: ControlSettings) -> bool:
    return all(any(way in b.takes for way in a.shows) for a in (one, other) for b in (one, other))


def test_the_nodes_of_two_rounds_understand_each_other() -> None:
    """So a rolling change stops nothing, in either direction; rounds that are left out do."""
    rounds = [of_round(each) for each in ROUNDS]
    for before, after in pairwise(rounds):
        assert understand(before, after)
    assert not understand(rounds[0], rounds[2])
    assert not understand(rounds[1], rounds[3])


@pytest.mark.parametrize("security", ["psk", "mtls"])
async def test_during_a_change_a_controller_takes_both(
    certified: Certified, caplog: pytest.LogCaptureFixture, security: str
) -> None:
    path = key_file(certified.directory / "control.key", 1)
    await certified.start(**{"control.security": security, "control.psk.file": path})
    by_certificate = await certified.broker(1)
    keys = ControlKeys.open(certified.runtime, "psk", path)
    by_key = FakeBroker(2, await certified.connect(keys, 2))
    await by_key.come_up()
    assert (await by_certificate.create_topic("t", 1, 2)).error_code == 0
    server = certified.lab.server
    for broker in (by_certificate, by_key):
        key = broker.connection.datagram_key or b""
        incarnation = server.controller.leases[broker.broker_id].incarnation_id
        cluster_id = server.controller.cluster_id or ""
        beat = Heartbeat(cluster_id, broker.broker_id, broker.epoch, incarnation, 7)
        sealed = encode_heartbeat(beat, partial(datagram_tag, key))
        assert not server.guards.admits(decode_heartbeat(encode_heartbeat(beat)))
        assert server.guards.admits(decode_heartbeat(sealed))
    with pytest.raises(ApiError, match="does not prove to hold its cluster's key"):
        await certified.connect(None, 3)
    strange = ControlKeys.open(certified.runtime, "psk", key_file(certified.directory / "x", 2))
    with pytest.raises(ApiError, match=r"no key of our control\.psk\.file"):
        await certified.connect(strange, 3)
    assert server.sessions.unsealed_count == 0


@pytest.mark.plain_loop
async def test_on_asyncios_own_loop_a_controller_takes_both_too(certified: Certified) -> None:
    path = key_file(certified.directory / "control.key", 1)
    await certified.start(**{"control.psk.file": path})
    await certified.broker(1)
    keys = ControlKeys.open(certified.runtime, "psk", path)
    await FakeBroker(2, await certified.connect(keys, 2)).come_up()


async def test_during_a_change_who_sends_nothing_is_cut_off(
    certified: Certified, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = key_file(certified.directory / "control.key", 1)
    await certified.start(**{"control.psk.file": path})
    monkeypatch.setattr(handshakes, "HANDSHAKE_MS", 20)
    reader, writer = await asyncio.open_connection(*certified.lab.server.address)
    assert await asyncio.wait_for(reader.read(), WAIT_MS / 1000) == b""
    assert "no TLS handshake within 20 ms" in caplog.text
    writer.close()


async def test_during_a_change_who_only_tries_the_port_is_forgotten(
    certified: Certified, caplog: pytest.LogCaptureFixture
) -> None:
    path = key_file(certified.directory / "control.key", 1)
    await certified.start(**{"control.psk.file": path})
    caplog.clear()
    _, writer = await asyncio.open_connection(*certified.lab.server.address)
    writer.close()
    await certified.broker(1)
    under_way = certified.lab.server._handshakes._open
    for _ in range(WAIT_MS):
        if not under_way:
            break
        await asyncio.sleep(0.001)
    assert not under_way
    assert not [each for each in caplog.messages if "connection from" in each]
    assert certified.lab.server.sessions.unproved_count == 0


def test_a_tool_is_given_a_key_or_a_certificate() -> None:
    stores = {f"control.ssl.{each}.location": "f.pem" for each in ("keystore", "truststore")}
    for given in ({"control.psk.file": "f.key"}, stores):
        assert configured(AdminConfig, ["b:1"], given).control.shows != ("none",)
    with pytest.raises(ConfigError, match=r"cannot be set together with control\.ssl\.keystore"):
        configured(AdminConfig, ["b:1"], {"control.psk.file": "f.key", **stores})


async def test_there_are_no_other_roles(certified: Certified) -> None:
    with pytest.raises(ApiError, match="there is no role 7"):
        await certified.connect(certified.proof("broker-1"), 1, 7)


def test_each_request_of_a_node_names_its_sender_or_needs_none() -> None:
    """A new request that names its sender by another field would not be compared."""
    needs_none = {m.FetchMetadata, m.FetchSnapshot, m.ForwardedRequest}
    for request in APIS:
        names = {each.name for each in fields(request)}
        named = names & {"broker_id", "candidate", "leader", "replica"}
        assert len(named) == (request not in needs_none), request


async def test_an_operator_may_map_the_names_of_certificates(certified: Certified) -> None:
    rules = r"RULE:^CN=host-([0-9]+)$/broker-$1/,RULE:^CN=(.*)$/$1/"
    await certified.start(**{"control.ssl.principal.mapping.rules": rules})
    broker = FakeBroker(1, await certified.connect(certified.proof("host-1")))
    await broker.come_up()
    assert broker.epoch > 0
