"""Datagrams: each may be lost, duplicated or reordered; a full queue drops them."""

import asyncio
import errno
import socket
from typing import TYPE_CHECKING, Any

from .loop import Process

if TYPE_CHECKING:
    from .network import Host, Network

QUEUE_LIMIT = 200


class DatagramEndpoint(asyncio.DatagramTransport):
    """The transport of one bound (and perhaps connected) datagram socket."""

    def __init__(
        self,
        network: "Network",
        process: Process,
        protocol: Any,
        name: tuple[str, int],
        peer: tuple[str, int] | None,
    ) -> None:
        from .network import SimSocket

        extra: dict[str, Any] = {
            "sockname": name,
            "socket": SimSocket(socket.SOCK_DGRAM, name, peer),
        }
        if peer is not None:
            extra["peername"] = peer
        super().__init__(extra)
        self._network = network
        self._process = process
        self._protocol = protocol
        self._context = process.context.copy()
        self._port = name[1]
        self._peer = peer
        self._closing = False
        self._queued = 0
        process.host.datagram_ports[self._port] = self
        self._resource = process.acquire(self._release)

    def _release(self) -> None:
        ports = self._process.host.datagram_ports
        if ports.get(self._port) is self:
            del ports[self._port]

    def sendto(self, data: Any, addr: Any = None) -> None:
        if not self._process.alive or self._closing:
            return
        if not data:
            return
        network = self._network
        target = self._peer if addr is None else addr
        if self._peer is not None and addr is not None and tuple(addr) != self._peer:
            raise ValueError(f"Invalid address: must be None or {self._peer}")
        if target is None:
            raise ValueError("a datagram needs an address")
        here = self._process.host
        address = network.resolve(here, target[0])
        there = network.hosts.get(address)
        if there is None:
            return
        if network.ear is not None:
            network.ear.on_datagram(here.name, bytes(data))
        copies = 2 if network.rng.random() < network.datagram_duplication else 1
        for _ in range(copies):
            if network.rng.random() >= network.datagram_loss:
                when = network.loop.time() + network.latency(here, there)
                if network.datagram_spread:
                    when += network.datagram_spread * network.rng.random()
                network.loop.call_at(
                    when, self._arrive, bytes(data), there, target[1], context=network.loop.kernel
                )

    def _arrive(self, data: bytes, there: "Host", port: int) -> None:
        network, here = self._network, self._process.host
        if not there.up or network.is_blocked(here, there):
            return
        endpoint = there.datagram_ports.get(port)
        if endpoint is not None:
            endpoint._receive(data, (here.address, self._port))
        elif self._peer is not None and not network.is_blocked(there, here):
            when = network.loop.time() + network.latency(there, here)
            network.loop.call_at(when, self._refused, context=network.loop.kernel)

    def _receive(self, data: bytes, source: tuple[str, int]) -> None:
        if self._peer is not None and source != self._peer:
            return
        if self._queued < QUEUE_LIMIT:
            self._queued += 1
            self._network.trace.note(2, self._port, len(data))
            self._network.loop.call_soon(self._deliver, data, source, context=self._context)

    def _deliver(self, data: bytes, source: tuple[str, int]) -> None:
        self._queued -= 1
        if not self._closing:
            self._protocol.datagram_received(data, source)

    def _refused(self) -> None:
        self._network.loop.call_soon(self._report_refusal, context=self._context)

    def _report_refusal(self) -> None:
        if not self._closing:
            self._protocol.error_received(
                ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
            )

    def is_closing(self) -> bool:
        return self._closing or not self._process.alive

    def abort(self) -> None:
        self.close()

    def close(self) -> None:
        if self._closing or not self._process.alive:
            return
        self._closing = True
        self._release()
        self._process.release(self._resource)
        self._network.loop.call_soon(self._protocol.connection_lost, None, context=self._context)
