"""Hosts, links and sockets of the simulated world.

TCP's bytes come in order, but may be late, split anywhere, held back by a network partition, or end
by a refusal or reset; connections may be half-open. UDP's datagrams may be lost, doubled or
reordered. This module never decides when a fault happens.
"""

import asyncio
import errno
import itertools
import random
import socket
from collections.abc import Callable
from typing import Any

from .ear import Ear
from .loop import Process, SimLoop, SimulationError, current_process
from .tcp import Endpoint, Flow
from .trace import Trace
from .udp import DatagramEndpoint

SYN_RETRIES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
ANY = ("0.0.0.0", "::", "", None)
LOOPBACK = ("localhost", "127.0.0.1", "::1")


class Host:
    """A machine: its address, its ports, and whether it has power."""

    def __init__(self, name: str, address: str) -> None:
        self.name = name
        self.address = address
        self.up = True
        self.disk: Any = None
        self.wall_skew_ms = 0
        self.clock_rate = 1.0
        """The speed of the host's monotonic clock; timers fire by the true time."""
        self.listeners: dict[int, SimServer] = {}
        self.datagram_ports: dict[int, DatagramEndpoint] = {}
        self._ephemeral = itertools.cycle(range(32768, 60999))

    def free_port(self, taken: dict[int, Any]) -> int:
        return next(port for port in self._ephemeral if port not in taken)


class SimSocket:
    """The result of `get_extra_info("socket")`: it has names, and ignores options."""

    family = socket.AF_INET
    proto = 0

    def __init__(self, kind: int, name: tuple[str, int], peer: tuple[str, int] | None) -> None:
        self.type = kind
        self._name = name
        self._peer = peer

    def getsockname(self) -> tuple[str, int]:
        return self._name

    def getpeername(self) -> tuple[str, int]:
        if self._peer is None:
            raise OSError(errno.ENOTCONN, "not connected")
        return self._peer

    def setsockopt(self, *args: Any) -> None:
        pass

    def getsockopt(self, *args: Any) -> int:
        return 0

    def fileno(self) -> int:
        return -1


class SimServer(asyncio.AbstractServer):
    """A port of one process, bound at first, and listening from `start_serving` on."""

    def __init__(self, factory: Callable[[], Any], host: Host, port: int, shown: str) -> None:
        self.process = current_process()
        self.context = self.process.context.copy()
        self.host = host
        self.port = port
        self.sockets: tuple[SimSocket, ...] = (SimSocket(socket.SOCK_STREAM, (shown, port), None),)
        self._factory = factory
        self._serving: asyncio.Future[None] | None = None
        self.listens = False
        host.listeners[port] = self
        self._resource = self.process.acquire(self._close_by_kernel)

    def accept(self, endpoint: Endpoint) -> None:
        if self.is_serving():
            endpoint.open(self._factory())
        else:
            endpoint.abort()

    def is_serving(self) -> bool:
        return self.host.listeners.get(self.port) is self

    def close(self) -> None:
        if self.is_serving():
            self._close_by_kernel()
            self.process.release(self._resource)
            self.sockets = ()
            if self._serving is not None and not self._serving.done():
                self._serving.cancel()

    def _close_by_kernel(self) -> None:
        if self.is_serving():
            del self.host.listeners[self.port]

    async def wait_closed(self) -> None:
        await asyncio.sleep(0)

    async def start_serving(self) -> None:
        self.listens = True

    async def serve_forever(self) -> None:
        self._serving = asyncio.get_running_loop().create_future()
        try:
            await self._serving
        finally:
            self.close()

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    def close_clients(self) -> None:
        raise SimulationError("not simulated: Server.close_clients")


class Network:
    """The links between hosts. All randomness comes from one generator."""

    def __init__(self, loop: SimLoop, rng: random.Random, trace: Trace) -> None:
        self.loop = loop
        self.rng = rng
        self.trace = trace
        self.hosts: dict[str, Host] = {}
        self.names: dict[str, str] = {}
        self.blocked: dict[tuple[str, str], None] = {}
        self.delays: dict[tuple[str, str], float] = {}
        """Extra seconds on the way from one address to another."""
        self.flows: dict[int, Flow] = {}
        self.flow_ids = itertools.count()
        self.ear: Ear | None = None
        """The stranger's ear (attacker.py), which hears everything; None if nobody listens."""
        self.latency_min = 0.0001
        self.latency_spread = 0.0008
        self.stall_chance = 0.002
        """The probability that a TCP segment is lost and arrives with its retransmission."""
        self.datagram_loss = 0.01
        self.datagram_duplication = 0.01
        self.datagram_spread = 0.0
        """The most seconds of random delay of a datagram, by which datagrams are reordered."""
        self.bytes_per_second = 500e6
        loop.network = self

    # -- topology ---------------------------------------------------------------------------

    def add_host(self, name: str) -> Host:
        host = Host(name, f"10.0.0.{len(self.hosts) + 1}")
        self.hosts[host.address] = host
        self.names[name] = host.address
        return host

    def resolve(self, source: Host, name: str | None) -> str:
        if name in LOOPBACK or name in ANY:
            return source.address
        assert name is not None
        address = self.names.get(name, name)
        if address not in self.hosts and address[:1].isalpha():
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return address

    def latency(self, source: Host, target: Host) -> float:
        """Return the seconds that the next packet takes from one host to the other."""
        rng = self.rng
        delay = self.latency_min + self.latency_spread * rng.random() ** 3
        if rng.random() < self.stall_chance:
            delay += 0.2 * (0.5 + rng.random())
        if self.delays:
            delay += self.delays.get((source.address, target.address), 0.0)
        return delay

    def is_blocked(self, source: Host, target: Host) -> bool:
        return (source.address, target.address) in self.blocked

    def block(self, source: Host, target: Host) -> None:
        """Let nothing pass from source to target; the other direction is not changed."""
        self.blocked[source.address, target.address] = None
        self.trace.emit("network", "block", source.name, "->", target.name)

    def unblock(self, source: Host, target: Host) -> None:
        if self.blocked.pop((source.address, target.address), True) is None:
            self.trace.emit("network", "unblock", source.name, "->", target.name)
            self.retransmit()

    def heal(self) -> None:
        if self.blocked:
            self.blocked.clear()
            self.trace.emit("network", "heal")
            self.retransmit()

    def delay(self, source: Host, target: Host, seconds: float) -> None:
        """Delay everything from source to target by `seconds` from now on; 0 ends the delay."""
        self.trace.emit("network", "delay", source.name, "->", target.name, seconds)
        self.delays[source.address, target.address] = seconds
        if not seconds:
            del self.delays[source.address, target.address]

    def retransmit(self) -> None:
        """Send what TCP held back, within its retransmission time: a path may be open again."""
        for flow in list(self.flows.values()):
            flow.retransmit()

    def break_connections(self, one: Host, other: Host) -> int:
        """Make the connections between two hosts half-open, without notice to either end."""
        broken = 0
        for flow in self.flows.values():
            if flow.joins(one, other) and not flow.is_broken:
                flow.is_broken = True
                broken += 1
        return broken

    def power_off(self, host: Host) -> None:
        host.up = False
        host.listeners.clear()
        host.datagram_ports.clear()

    def power_on(self, host: Host) -> None:
        host.up = True
        self.retransmit()

    # -- TCP --------------------------------------------------------------------------------

    async def create_server(
        self,
        factory: Callable[[], Any],
        host: str | list[str] | tuple[str, ...] | None = None,
        port: int | None = None,
        *,
        ssl: Any = None,
        sock: Any = None,
        start_serving: bool = True,
        **ignored: Any,
    ) -> SimServer:
        if ssl is not None or sock is not None:
            raise SimulationError("not simulated: ssl=, sock=")
        if isinstance(host, list | tuple):
            (host,) = host
        here: Host = current_process().host
        self._check_bindable(here, host)
        if not port:
            port = here.free_port(here.listeners)
        if port in here.listeners:
            raise OSError(errno.EADDRINUSE, f"address already in use: ({host!r}, {port})")
        shown = host or "0.0.0.0"
        server = SimServer(factory, here, port, self.names.get(shown, shown))
        server.listens = start_serving
        return server

    def _check_bindable(self, here: Host, name: str | None) -> None:
        if name not in ANY and self.resolve(here, name) != here.address:
            raise OSError(errno.EADDRNOTAVAIL, f"cannot assign requested address: {name!r}")

    async def create_connection(
        self,
        factory: Callable[[], Any],
        host: str | None = None,
        port: int | None = None,
        *,
        ssl: Any = None,
        sock: Any = None,
        **ignored: Any,
    ) -> tuple[Endpoint, Any]:
        if ssl is not None or sock is not None or port is None:
            raise SimulationError("not simulated: ssl=, sock=")
        process = current_process()
        answer: asyncio.Future[Endpoint] = self.loop.create_future()
        attempt = Connect(self, process, answer)
        attempt.start(self.resolve(process.host, host), port)
        try:
            endpoint = await answer
        except asyncio.CancelledError:
            attempt.abandon()
            raise
        protocol = factory()
        opened: asyncio.Future[None] = self.loop.create_future()
        endpoint.open(protocol, opened)
        try:
            await opened
        except asyncio.CancelledError:
            endpoint.abort()
            raise
        return endpoint, protocol

    # -- UDP --------------------------------------------------------------------------------

    async def create_datagram_endpoint(
        self,
        factory: Callable[[], Any],
        local_addr: tuple[str, int] | None = None,
        remote_addr: tuple[str, int] | None = None,
        *,
        sock: Any = None,
        **ignored: Any,
    ) -> tuple[DatagramEndpoint, Any]:
        if sock is not None:
            raise SimulationError("not simulated: sock=")
        process = current_process()
        here: Host = process.host
        port = 0
        shown = here.address
        if local_addr is not None:
            shown, port = local_addr
            self._check_bindable(here, shown)
            if port in here.datagram_ports:
                raise OSError(errno.EADDRINUSE, f"address already in use: {local_addr}")
        if not port:
            port = here.free_port(here.datagram_ports)
        peer = None
        if remote_addr is not None:
            peer = (self.resolve(here, remote_addr[0]), remote_addr[1])
        protocol = factory()
        name = (self.names.get(shown, shown), port)
        endpoint = DatagramEndpoint(self, process, protocol, name, peer)
        self.loop.call_soon(protocol.connection_made, endpoint)
        await asyncio.sleep(0)
        return endpoint, protocol


class Connect:
    """One attempt to connect: SYN is sent, and repeated until it is answered."""

    def __init__(
        self, network: Network, process: Process, answer: "asyncio.Future[Endpoint]"
    ) -> None:
        self._network = network
        self._process = process
        self._answer = answer
        self._tries = iter(SYN_RETRIES)
        self._endpoint: Endpoint | None = None
        self._abandoned = False

    def start(self, address: str, port: int) -> None:
        self._address, self._port = address, port
        self._send()

    def abandon(self) -> None:
        self._abandoned = True
        if self._endpoint is not None:
            self._endpoint.abort()

    def _later(self, delay: float, callback: Callable[[], None]) -> None:
        loop = self._network.loop
        loop.call_at(loop.time() + delay, callback, context=loop.kernel)

    def _send(self) -> None:
        if self._abandoned or not self._process.alive:
            return
        if self._address not in self._network.hosts:
            self._fail(OSError(errno.EHOSTUNREACH, f"no route to host: {self._address}"))
            return
        there = self._network.hosts[self._address]
        self._later(self._network.latency(self._process.host, there), self._arrive)

    def _arrive(self) -> None:
        network, here = self._network, self._process.host
        there = network.hosts[self._address]
        if self._abandoned or not self._process.alive:
            return
        lost = not there.up or network.is_blocked(here, there) or network.is_blocked(there, here)
        if lost:
            self._retry()
            return
        server = there.listeners.get(self._port)
        if server is None or not server.listens:
            self._later(network.latency(there, here), self._refuse)
            return
        local = (here.address, here.free_port({}))
        client = Endpoint(network, self._process, local, (there.address, self._port))
        served = Endpoint(network, server.process, (there.address, self._port), local)
        client.join(served)
        network.trace.note(1, local[1], self._port)
        network.loop.call_soon(server.accept, served, context=server.context)
        self._endpoint = client
        self._later(network.latency(there, here), self._succeed)

    def _retry(self) -> None:
        delay = next(self._tries, None)
        if delay is None:
            self._fail(OSError(errno.ETIMEDOUT, f"connect timed out: {self._address}"))
        else:
            self._later(delay, self._send)

    def _refuse(self) -> None:
        address = (self._address, self._port)
        self._fail(ConnectionRefusedError(errno.ECONNREFUSED, f"Connect call failed {address}"))

    def _fail(self, error: OSError) -> None:
        if not self._answer.done():
            self._answer.set_exception(error)

    def _succeed(self) -> None:
        if not self._answer.done() and self._endpoint is not None:
            self._answer.set_result(self._endpoint)
