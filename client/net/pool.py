"""The open connections of one client, one per address and lane.

A lane is a purpose of requests, such as fetching, with connections of its own. A broker answers a
connection's requests in order, so without lanes long polls would delay short requests. After each
attempt to connect, the next one to the same address waits for a backoff.
"""

import asyncio
from dataclasses import dataclass
from typing import Final

from ...runtime.runtime import Runtime
from .address import Address
from .backoff import Backoff
from .connection import ConnectionOptions, KafkaConnection
from .errors import ClientClosed

CONTROL: Final = "control"
PRODUCE: Final = "produce"
FETCH: Final = "fetch"


@dataclass(slots=True)
class _Slot:
    connection: KafkaConnection | None = None
    opening: "asyncio.Task[KafkaConnection] | None" = None
    failure_count: int = 0
    rest_until_ms: int = 0


class Pool:
    """Connections by address and lane, opened on demand."""

    def __init__(self, runtime: Runtime, options: ConnectionOptions, backoff: Backoff) -> None:
        self._runtime = runtime
        self._options = options
        self._backoff = backoff
        self._slots: dict[tuple[Address, str], _Slot] = {}
        self._is_closing = False
        self.is_closed = False
        """True once `close` has ended."""

    def ready(self, address: Address, lane: str) -> KafkaConnection | None:
        """Return the open connection; None if there is none now, or if it is throttled."""
        connection = self._open_one(address, lane)
        return None if connection is None or self._throttle_ms(connection) else connection

    def is_throttled(self, address: Address, lane: str) -> bool:
        """True if a connection is open, but the broker does not read it for a while (KIP-219)."""
        connection = self._open_one(address, lane)
        return connection is not None and self._throttle_ms(connection) > 0

    def _open_one(self, address: Address, lane: str) -> KafkaConnection | None:
        slot = self._slots.get((address, lane))
        if slot is None or slot.connection is None or not slot.connection.is_open:
            return None
        return slot.connection

    def _throttle_ms(self, connection: KafkaConnection) -> int:
        """Return the ms for which the broker will read nothing from the connection (KIP-219)."""
        until_ms = connection.throttle.until_ms
        return max(until_ms - self._runtime.monotonic_ms(), 0) if until_ms else 0

    def is_failing(self, address: Address) -> bool:
        """True if the last attempt to connect to this address failed, in any lane."""
        return any(slot.failure_count for (at, _), slot in self._slots.items() if at == address)

    def opened(self, lane: str) -> list[KafkaConnection]:
        """List the open connections of a lane."""
        connections = [slot.connection for (_, of), slot in self._slots.items() if of == lane]
        return [one for one in connections if one is not None and one.is_open]

    @property
    def in_flight_count(self) -> int:
        """The number of unanswered requests on all connections."""
        connections = (slot.connection for slot in self._slots.values())
        return sum(one.in_flight_count for one in connections if one is not None)

    async def get(self, address: Address, lane: str) -> KafkaConnection:
        """Return the open connection, or open one after the address's backoff.

        If the broker throttles the connection, wait until the throttle ends. Raises ConnectError if
        none can be opened. Concurrent callers share one attempt.
        """
        connection = self.ready(address, lane)
        if connection is not None:
            return connection
        return await asyncio.shield(self.start(address, lane))

    def start(self, address: Address, lane: str) -> "asyncio.Task[KafkaConnection]":
        """Return the task that opens a connection; it is started unless one is under way.

        If a connection is open, the task ends once the broker no longer throttles it. Raise
        ClientClosed if the pool is closed.
        """
        if self._is_closing:
            raise ClientClosed("the client is closed")
        slot = self._slots.setdefault((address, lane), _Slot())
        if slot.opening is None:
            coro = self._open(address, slot)
            name = f"connect {lane} to {address}"
            slot.opening = asyncio.get_running_loop().create_task(coro, name=name)
            slot.opening.add_done_callback(_retrieve)
        return slot.opening

    async def _open(self, address: Address, slot: _Slot) -> KafkaConnection:
        try:
            while (current := slot.connection) is not None and current.is_open:
                throttle_ms = self._throttle_ms(current)
                if not throttle_ms:
                    return current
                await current.lost_within(throttle_ms / 1000)
            rest_ms = slot.rest_until_ms - self._runtime.monotonic_ms()
            if rest_ms > 0:
                await asyncio.sleep(rest_ms / 1000)
            # The attempt counts as failed until it succeeds, also if it is cancelled.
            slot.failure_count += 1
            wait_ms = self._backoff.after(slot.failure_count, self._runtime.rng)
            try:
                connection = await KafkaConnection.open(
                    self._runtime, address.host, address.port, self._options
                )
            finally:
                slot.rest_until_ms = self._runtime.monotonic_ms() + wait_ms
            slot.failure_count = 0
            slot.connection = connection
            return connection
        finally:
            slot.opening = None

    def retain(self, addresses: "list[Address]") -> None:
        """Close idle connections to addresses that are not in `addresses`."""
        kept = dict.fromkeys(addresses)
        for key in [key for key in self._slots if key[0] not in kept]:
            slot = self._slots[key]
            if slot.opening is not None or (slot.connection and slot.connection.in_flight_count):
                continue
            if slot.connection is not None:
                slot.connection.abort("the cluster no longer names this address")
            del self._slots[key]

    async def close(self) -> None:
        """Close all connections, and cancel attempts under way."""
        self._is_closing = True
        try:
            for slot in self._slots.values():
                if slot.opening is not None:
                    slot.opening.cancel()
                    await asyncio.wait([slot.opening])
            connections = [s.connection for s in self._slots.values() if s.connection is not None]
            await asyncio.gather(*(connection.close() for connection in connections))
            self._slots.clear()
        finally:
            self.is_closed = True


def _retrieve(task: "asyncio.Task[KafkaConnection]") -> None:
    """Mark the task's error as retrieved, because perhaps no caller waits for the task."""
    if not task.cancelled():
        task.exception()
