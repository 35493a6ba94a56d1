"""A stranger on the network: it reads and sends everything, and holds no key of the cluster.

What it sends must change nothing. The checks of that are in seal_checks.py, and here where an
answer shows it.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import asyncio_dgram

from minikafka.client.net.control import ControlConnection
from minikafka.protocol.api import ApiKey
from minikafka.protocol.codec import encode_bytes
from minikafka.protocol.control import messages as m
from minikafka.protocol.control import quorum_messages as q
from minikafka.protocol.control.frames import encode_frame
from minikafka.protocol.control.heartbeat import Heartbeat, encode_heartbeat
from minikafka.protocol.errors import ApiError, ErrorCode
from minikafka.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from minikafka.security.control_keys import ControlKeys
from minikafka.security.control_seal import datagram_tag

from .cluster import CONTROLLER_PORT, FIRST_KEY, KEY_FILE, Cluster, Daemon, key_text
from .ear import THIEF
from .faults import Fault, Faults
from .invariants import Invariants
from .loop import Process
from .promises import Promises
from .seal_checks import STOLEN
from .shape import Shape
from .world import SimRuntime, World

ATTACK_MS = 1000
DISK = b"a stranger's id."
NO_ANSWER = (ErrorCode.NETWORK_EXCEPTION, ErrorCode.REQUEST_TIMED_OUT)
DUE = (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, *NO_ANSWER)


class Stranger:
    """A process on a machine of its own, and all that it tries."""

    def __init__(self, world: World, cluster: Cluster, invariants: Invariants) -> None:
        assert world.network.ear is not None
        self.world = world
        self.cluster = cluster
        self.ear = world.network.ear
        self.invariants = invariants
        self.rng = world.rng("nemesis/stranger")
        self.datagram_count = 0
        """The number of datagrams that the stranger has sent."""
        self.host = world.add_host(THIEF)
        self.host.disk.put(KEY_FILE, key_text(666))

    def start(self, rounds: int) -> Process | None:
        """Begin to attack, unless an attack goes on; return the process."""
        process = self.world.processes.get(THIEF)
        if process is not None and process.alive:
            return None
        return self.world.start(self.host, THIEF, lambda runtime: self.attack(runtime, rounds))

    async def attack(self, runtime: SimRuntime, rounds: int) -> None:
        """Do some of everything, each with a controller of its choice."""
        ways: tuple[Callable[[SimRuntime, Daemon], Awaitable[None]], ...] = (
            self.forge_datagrams,
            self.repeat_datagrams,
            self.repeat_a_session,
            self.speak,
            self.speak_at_once,
        )
        for _ in range(rounds):
            whom = self.rng.choice(list(self.cluster.controllers.values()))
            await self.rng.choice(ways)(runtime, whom)
            await asyncio.sleep(0.3 * self.rng.random())

    # -- datagrams

    async def _throw(self, whom: Daemon, datagrams: list[bytes]) -> None:
        try:
            stream = await asyncio_dgram.connect((whom.name, CONTROLLER_PORT))
        except OSError:
            return
        for datagram in datagrams:
            await stream.send(datagram)
        self.datagram_count += len(datagrams)
        stream.close()

    async def forge_datagrams(self, runtime: SimRuntime, whom: Daemon) -> None:
        """Send heartbeats with true ids, which anybody can read, and numbers of all kinds."""
        image = self.invariants.image
        if image is None or not image.brokers:
            return
        forged = []
        for _ in range(self.rng.randint(1, 60)):
            broker = self.rng.choice(list(image.brokers.values()))
            heartbeat = Heartbeat(
                image.cluster_id or "",
                broker.broker_id,
                broker.broker_epoch,
                broker.incarnation_id,
                self.rng.choice((0, 1, 1000, 1 << 40, (1 << 63) - 1)),
            )
            key = self.rng.randbytes(32)
            tag_of: Callable[[bytes], bytes] | None = None
            if self.rng.random() < 0.7:
                tag_of = self.rng.choice(
                    (lambda content, key=key: datagram_tag(key, content), lambda content: b"x" * 16)
                )
            forged.append(encode_heartbeat(heartbeat, tag_of))
        await self._throw(whom, forged)

    async def repeat_datagrams(self, runtime: SimRuntime, whom: Daemon) -> None:
        """Send datagrams that brokers sent before, in any order, some of them changed."""
        heard = list(self.ear.datagrams)
        if not heard:
            return
        again = [bytearray(self.rng.choice(heard)) for _ in range(self.rng.randint(1, 100))]
        for datagram in again:
            if self.rng.random() < 0.3:
                datagram[self.rng.randrange(len(datagram))] ^= 1 << self.rng.randrange(8)
        await self._throw(whom, [bytes(each) for each in again])

    # -- connections

    async def repeat_a_session(self, runtime: SimRuntime, whom: Daemon) -> None:
        """Send the bytes of a connection that was overheard: only its offer may be answered."""
        if self.ear.sessions:
            heard = self.rng.choice(list(self.ear.sessions.values()))
            await self._send_raw(whom, bytes(heard), "a repeated session")

    async def speak(self, runtime: SimRuntime, whom: Daemon) -> None:
        """Say Hello as any node, with a key of its own or none."""
        keys = None
        if self.rng.random() < 0.5:
            security = self.rng.choice(("psk", "none"))
            keys = ControlKeys.open(runtime, security, KEY_FILE)
        hello, _ = self._words()
        try:
            connection = await ControlConnection.open(
                whom.name, CONTROLLER_PORT, hello, timeout_ms=ATTACK_MS, keys=keys
            )
        except ApiError as error:
            if error.code not in DUE:
                self.world.violation(f"{whom.name} answers a stranger {error}")
        else:
            connection.abort("the attack is over")
            self.world.violation(f"{whom.name} takes a stranger for node {hello.node_id}")

    async def speak_at_once(self, runtime: SimRuntime, whom: Daemon) -> None:
        """Say Hello and make a request in one breath."""
        hello, request = self._words()
        data = encode_frame(0, hello) + encode_frame(1, request)
        await self._send_raw(whom, data, type(request).__name__)

    def _words(self) -> tuple[m.Hello, m.Request[Any]]:
        """Return a Hello and a request with true ids and epochs: whatever would do most harm."""
        image = self.invariants.image
        assert image is not None
        broker = self.rng.choice(list(image.brokers.values()))
        me, epoch = broker.broker_id, broker.broker_epoch
        place = m.Endpoint("PLAINTEXT", THIEF, 9092)
        voter = q.VoterKey(self.rng.choice(list(self.cluster.controllers)))
        topic = CreatableTopic(name=STOLEN, num_partitions=1, replication_factor=1)
        body = encode_bytes(CreateTopicsRequest(topics=[topic]), 7)
        role, request = self.rng.choice(
            (
                (
                    m.ROLE_BROKER,
                    m.RegisterBroker(me, DISK, (DISK,), (place,), None, {}),
                ),
                (m.ROLE_BROKER, m.BrokerHeartbeat(me, epoch, 0, True, False)),
                (m.ROLE_BROKER, m.OfflinePartitions(me, epoch, ())),
                (
                    m.ROLE_BROKER,
                    m.ForwardedRequest(int(ApiKey.CREATE_TOPICS), 7, body, "User:admin", 5000),
                ),
                (m.ROLE_CONTROLLER, q.Vote(None, 1 << 20, voter, voter, 1 << 20, 1 << 40, False)),
                (m.ROLE_CONTROLLER, q.BeginQuorumEpoch(None, 1 << 20, voter, voter)),
            )
        )
        node_id = voter.voter_id if role == m.ROLE_CONTROLLER else me
        return m.Hello(image.cluster_id, 1, 1, node_id, role, broker.incarnation_id), request

    async def _send_raw(self, whom: Daemon, data: bytes, what: str) -> None:
        """Send bytes; more than one frame in return means that something of them was believed."""
        try:
            async with asyncio.timeout(ATTACK_MS / 1000):
                reader, writer = await asyncio.open_connection(whom.name, CONTROLLER_PORT)
        except (OSError, TimeoutError):
            return
        answered = bytearray()
        try:
            writer.write(data)
            async with asyncio.timeout(ATTACK_MS / 1000):
                while part := await reader.read(65_536):
                    answered += part
        except (OSError, TimeoutError):
            pass
        writer.transport.abort()
        frames = 0
        while len(answered) >= 4:
            del answered[: 4 + int.from_bytes(answered[:4], "big")]
            frames += 1
        if frames > 1:
            self.world.violation(f"{whom.name} answers a stranger {frames} times: {what}")


class Attacker(Faults):
    """The faults of a cluster whose control plane is sealed."""

    def __init__(self, world: World, cluster: Cluster, shape: Shape, promises: Promises) -> None:
        super().__init__(world, cluster, shape, promises)
        self.rng = world.rng("nemesis/attacker")
        self._stranger: Stranger | None = None
        if shape.sealed:
            self._stranger = Stranger(world, cluster, promises.invariants)
        self._is_changing = False
        self._key_number = FIRST_KEY

    def table(self) -> dict[str, Fault]:
        return {"stranger": self.stranger, "change-keys": self.change_keys}

    async def stranger(self) -> bool:
        """Let the stranger attack for some seconds."""
        assert self._stranger is not None
        process = self._stranger.start(self.rng.randint(3, 12))
        if process is None:
            return False
        await self._within(60, lambda: not process.alive)
        return True

    async def change_keys(self) -> bool:
        """Give every node another key: first beside the old one, then in its place."""
        if self._is_changing:
            return False
        self._is_changing = True
        old, new = self._key_number, self._key_number + 1
        for numbers in ((old, new), (new,)):
            for host in self.rng.sample(self.cluster.key_hosts, len(self.cluster.key_hosts)):
                host.disk.put(KEY_FILE, key_text(*self.rng.sample(numbers, len(numbers))))
                await asyncio.sleep(0.2 * self.rng.random())
        self._key_number = new
        self._is_changing = False
        return True
