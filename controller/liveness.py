"""The I/O of liveness: receives heartbeats, sends probes, keeps one timer.

`Leases` decides, and this module carries out its effects. `DatagramGuards` says which heartbeats
reach `Leases`. The queue of asyncio-dgram has no bound, so one task empties it as soon as datagrams
arrive, and nothing of a datagram is kept but what the lease of a known broker notes.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any, Final, assert_never

import asyncio_dgram

from ..protocol.control.heartbeat import Datagram, decode_heartbeat
from ..protocol.control.messages import Endpoint
from ..protocol.errors import RemoteProtocolError
from ..runtime.datagrams import opened
from ..runtime.runtime import Runtime
from ..runtime.waiting import end_tasks, happens_within
from .leases import LeaseEffect, LeaseExpired, Leases, Probe, ProbeOutcome, Warning
from .quorum.peers import is_refusal

PROBE_WAIT_MS: Final = 500
PROBE_STAYS_MS: Final = 50
PROBE_AGAIN_MS: Final = 10

log = logging.getLogger(__name__)


class Liveness:
    """Feeds the leases with heartbeats, time and probes, and carries out their effects."""

    def __init__(
        self,
        runtime: Runtime,
        leases: Leases,
        *,
        admits: Callable[[Datagram], bool],
        on_expired: Callable[[LeaseExpired], None],
        endpoint_of: Callable[[int], Endpoint | None],
    ) -> None:
        """`admits` says whether a datagram counts; `endpoint_of` returns the listener to probe."""
        self._runtime = runtime
        self._leases = leases
        self._admits = admits
        self._on_expired = on_expired
        self._endpoint_of = endpoint_of
        self._stream: Any = None
        self._receiving: asyncio.Task[None] | None = None
        self._probes: dict[asyncio.Task[None], None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._due_ms: int | None = None
        self._is_closed = False

    async def listen(self, host: str, port: int) -> None:
        """Receive heartbeats at this address; raise OSError if it is not available."""
        self._stream = await opened(asyncio_dgram.bind((host, port)))
        self._receiving = self._runtime.spawn(self._receive(), "heartbeats")

    async def close(self) -> None:
        """Stop receiving and probing, and cancel the timer; later effects are ignored."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._stream is not None:
            self._stream.close()
        await end_tasks([*self._probes, *((self._receiving,) if self._receiving else ())])

    async def _receive(self) -> None:
        while True:
            try:
                # Does not yield while datagrams are queued: the queue empties in one go.
                datagram, _ = await self._stream.recv()
            except asyncio_dgram.TransportClosed:
                return
            except OSError:
                # An ICMP message about a datagram: the peer is down, but our socket still works.
                continue
            try:
                read = decode_heartbeat(datagram)
            except RemoteProtocolError:
                continue
            if self._admits(read):
                self._leases.on_heartbeat(read.heartbeat, self._runtime.monotonic_ms())

    def carry_out(self, effects: Sequence[LeaseEffect]) -> None:
        """Carry out the effects of the leases, then set the timer for their next deadline."""
        if self._is_closed:
            return
        for effect in effects:
            match effect:
                case Probe():
                    task = self._runtime.spawn(self._probe(effect), f"probe {effect.broker_id}")
                    self._probes[task] = None
                    task.add_done_callback(self._probes.pop)
                case LeaseExpired():
                    self._on_expired(effect)
                case Warning():
                    log.warning("%s", effect.text)
                case _:
                    assert_never(effect)
        self.set_timer()

    def set_timer(self) -> None:
        """Set the timer for the leases' next deadline, unless it is set for that or earlier."""
        due = self._leases.next_deadline_ms()
        if due is None or self._is_closed or (self._due_ms is not None and self._due_ms <= due):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._due_ms = due
        delay = max(0, due - self._runtime.monotonic_ms()) / 1000
        self._timer = asyncio.get_running_loop().call_later(delay, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = self._due_ms = None
        self.carry_out(self._leases.on_deadline(self._runtime.monotonic_ms()))

    async def _probe(self, probe: Probe) -> None:
        endpoint = self._endpoint_of(probe.broker_id)
        outcome = ProbeOutcome.SILENT if endpoint is None else await self._connect(endpoint)
        self.carry_out(self._leases.on_probed(probe, outcome))

    async def _connect(self, endpoint: Endpoint) -> ProbeOutcome:
        try:
            async with asyncio.timeout(PROBE_WAIT_MS / 1000):
                while not await self._is_open_door(endpoint):
                    pass
        except TimeoutError:
            return ProbeOutcome.SILENT
        except OSError as error:
            return ProbeOutcome.REFUSED if is_refusal(error) else ProbeOutcome.SILENT
        return ProbeOutcome.ANSWERED

    @staticmethod
    async def _is_open_door(endpoint: Endpoint) -> bool:
        """True if a connection is accepted and stays open.

        While a killed process is torn down, its listener may outlive its other sockets by some
        milliseconds. The kernel still accepts connections then, and resets them.
        """
        loop = asyncio.get_running_loop()
        try:
            transport, door = await loop.create_connection(_Door, endpoint.host, endpoint.port)
        except ConnectionResetError:
            await asyncio.sleep(PROBE_AGAIN_MS / 1000)
            return False
        try:
            if not await happens_within(door.closed, PROBE_STAYS_MS):
                return True
        finally:
            transport.abort()
        await asyncio.sleep(PROBE_AGAIN_MS / 1000)
        return False


class _Door(asyncio.Protocol):
    """The protocol of a probe's connection, which notes its end."""

    def __init__(self) -> None:
        self.closed = asyncio.Event()

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that the loop has closed the connection."""
        self.closed.set()
