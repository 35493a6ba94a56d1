"""Connections to the other voters: one to each, opened again when it is lost.

This module owns connecting and deadlines. It reports two events: a connection ended, and the host
refuses a new one, because nothing listens there any more.
"""

import asyncio
import errno
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

from ...client.net.backoff import Backoff
from ...client.net.control import ControlConnection
from ...protocol.control.messages import Endpoint, FetchSnapshot, Hello, Request, SnapshotId
from ...protocol.errors import ApiError, ErrorCode
from ...runtime.runtime import Runtime
from ...security.control_proof import ControlProof

A = TypeVar("A")

AGAIN: Final = Backoff(first_ms=15, most_ms=500, steady_count=6)
AT_ONCE_MS: Final = 2
SNAPSHOT_PART_BYTES: Final = 1 << 20

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Peering:
    """How the controllers of a quorum reach each other."""

    endpoints: Mapping[int, Endpoint] = field(default_factory=dict)
    """The address of each controller, as far as it is known."""
    keys: ControlProof | None = None
    """The proof that this node shows to the others; None if it shows none."""


@dataclass(frozen=True, slots=True)
class PeerEvents:
    """The callbacks for connections; each gets the voter's id."""

    hello: Callable[[], Hello]
    """Makes the Hello that introduces this node on a new connection."""
    on_lost: Callable[[int], None]
    on_refused: Callable[[int], None]


class Peer:
    """The connection to one other voter."""

    def __init__(
        self,
        runtime: Runtime,
        voter_id: int,
        peering: Peering,
        events: PeerEvents,
        connect_timeout_ms: int,
    ) -> None:
        self.voter_id = voter_id
        self._runtime = runtime
        self._endpoint = peering.endpoints[voter_id]
        self._keys = peering.keys
        self._events = events
        self._timeout_ms = connect_timeout_ms
        self._connection: ControlConnection | None = None
        self._connected = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Connect, and stay connected."""
        self._task = self._runtime.spawn(self._run(), f"voter {self.voter_id}")

    async def close(self) -> None:
        """Close the connection and open no other."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        if self._connection is not None:
            self._connection.close()

    async def call(self, request: Request[A], *, timeout_ms: int) -> A:
        """Send a request and return its answer; wait for a connection first if there is none.

        Raise ApiError as from `ControlConnection.call`; REQUEST_TIMED_OUT if no connection came.
        """
        deadline_ms = self._runtime.monotonic_ms() + timeout_ms
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                while (connection := self._connection) is None or not connection.is_open:
                    self._connected.clear()
                    await self._connected.wait()
        except TimeoutError:
            detail = f"no connection to voter {self.voter_id} in {timeout_ms} ms"
            raise ApiError(ErrorCode.REQUEST_TIMED_OUT, detail) from None
        left_ms = max(1, deadline_ms - self._runtime.monotonic_ms())
        try:
            return await connection.call(request, timeout_ms=left_ms)
        except ApiError as error:
            if error.code is ErrorCode.REQUEST_TIMED_OUT:
                # The host or the network is silent. TCP itself would wait for minutes.
                connection.abort("no answer")
            raise

    async def fetch_snapshot(self, snapshot: SnapshotId, timeout_ms: int) -> bytes:
        """Fetch a snapshot's file in parts, `timeout_ms` for each.

        Raise ApiError if a part is refused or does not come in time.
        """
        data, size = bytearray(), 1
        while len(data) < size:
            request = FetchSnapshot(snapshot, len(data), SNAPSHOT_PART_BYTES)
            part = await self.call(request, timeout_ms=timeout_ms)
            if part.error or not part.data:
                raise ApiError(ErrorCode(part.error or ErrorCode.INVALID_RECORD), part.message)
            data += part.data
            size = part.size
        return bytes(data)

    async def _run(self) -> None:
        failures = 0
        while True:
            try:
                host, port = self._endpoint.host, self._endpoint.port
                hello = self._events.hello()
                connection = await ControlConnection.open(
                    host, port, hello, timeout_ms=self._timeout_ms, keys=self._keys
                )
            except ApiError as error:
                failures += 1
                level = logging.INFO if failures == 1 else logging.DEBUG
                log.log(level, "voter %d: %s", self.voter_id, error)
                if is_refusal(error.__cause__):
                    self._events.on_refused(self.voter_id)
            else:
                failures = 0
                await self._use(connection)
            # After a loss, connect again at once: only a refusal shows that the process died too.
            pause_ms = AGAIN.after(failures, self._runtime.rng) if failures else AT_ONCE_MS
            await asyncio.sleep(pause_ms / 1000)

    async def _use(self, connection: ControlConnection) -> None:
        self._connection = connection
        self._connected.set()
        try:
            why = await connection.wait_until_closed()
        finally:
            connection.abort("given up")
        log.info("connection to voter %d lost: %s", self.voter_id, why)
        self._events.on_lost(self.voter_id)


def is_refusal(error: BaseException | None) -> bool:
    """True if the host refused the connection, at any address of its name."""
    return isinstance(error, ConnectionRefusedError) or (
        isinstance(error, OSError) and f"[Errno {errno.ECONNREFUSED}]" in str(error)
    )
