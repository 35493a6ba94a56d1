"""The broker's connection to the active controller: registration, heartbeats and calls.

The channel owns the connection and opens a new one when the connection is lost. Any configured
controller can be asked first. It names the active controller, or delays its answer until there is
one. A connection is used for calls from its first answered heartbeat on, because only the active
controller answers heartbeats. The broker registers once for each start of the process; a new
connection continues under the same broker epoch. `Lifecycle` decides what the heartbeats say.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Protocol, TypeVar, assert_never, cast

from ...client.net.backoff import Backoff
from ...client.net.control import ControlConnection
from ...protocol.control.heartbeat import Heartbeat
from ...protocol.control.messages import (
    PROTOCOL_VERSION_MAX,
    PROTOCOL_VERSION_MIN,
    ROLE_BROKER,
    AllocateProducerIds,
    BrokerHeartbeat,
    ForwardedRequest,
    Hello,
    RegisterBroker,
    Request,
)
from ...protocol.errors import ApiError, ErrorCode
from ...runtime.owned_task import OwnedTask
from ...runtime.runtime import Runtime
from ...runtime.waiting import happens_within
from ...security.control_proof import ControlProof
from ...security.principal import Origin
from ..config import BrokerConfig, controller_addresses
from ..replica.lease import LeaderLease
from .clock_ahead import ClockAhead
from .controller_addresses import ControllerAddresses
from .heartbeats import Heartbeats
from .lifecycle import Fenced, Lifecycle, LifecycleEffect, MayStop, Unfenced

A = TypeVar("A")

RECONNECT: Final = Backoff(first_ms=20, most_ms=1000, steady_count=10)
CONNECT_TIMEOUT_MS: Final = 1_500
REGISTERED_WITHIN_MS: Final = 60_000
"""Milliseconds to keep trying to register while another process with this broker id is registered
and alive."""
FATAL: Final = (
    ErrorCode.INCONSISTENT_CLUSTER_ID,
    ErrorCode.INVALID_REGISTRATION,
    ErrorCode.UNSUPPORTED_VERSION,
    ErrorCode.INVALID_REQUEST,
)
"""Errors after which asking again cannot help: somebody must change the configuration."""
CONNECTION_GONE: Final = (ErrorCode.NETWORK_EXCEPTION, ErrorCode.NOT_CONTROLLER)

log = logging.getLogger(__name__)


class ActiveController(Protocol):
    """Calls to the active controller; both raise ApiError if no controller answers in time."""

    async def forward(
        self, api_key: int, api_version: int, body: bytes, origin: Origin | None = None
    ) -> bytes:
        """Have the controller carry out an admin request; return the body of the answer.

        The request is made in the name of the client `origin`, or of the broker if that is None.
        """

    async def allocate_producer_ids(self) -> tuple[int, int]:
        """Reserve a range of producer ids; return the first of them and their number."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity of this start of a broker, and its proof."""

    registration: RegisterBroker
    """The request that registers this start."""
    cluster_id: str | None = None
    """The cluster's id; None if it is not known yet."""
    keys: ControlProof | None = None
    """The proof to controllers; None if nothing is sealed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reports:
    """The callbacks that give the channel facts about its broker, and one for a refusal."""

    metadata_offset: Callable[[], int]
    """Returns the offset of the newest metadata record that the broker holds."""
    offline_directory_ids: Callable[[], tuple[bytes, ...]]
    on_refused: Callable[[ApiError], None]
    """Called when the controller refuses this broker for good; the channel then ends."""


class ControllerChannel:
    """The connection to the controller, and the state of this broker's registration with it."""

    def __init__(
        self,
        runtime: Runtime,
        config: BrokerConfig,
        identity: Identity,
        reports: Reports,
        clock: ClockAhead,
    ) -> None:
        self._runtime = runtime
        self._config = config
        self._registration = identity.registration
        self._keys = identity.keys
        self.broker_id = identity.registration.broker_id
        self.incarnation_id = identity.registration.incarnation_id
        """The id of this start of the broker, which only brokers and controllers are told."""
        self.cluster_id = identity.cluster_id
        self.broker_epoch = -1
        self.lifecycle = Lifecycle(config.broker_heartbeat_interval_ms)
        self.lease = LeaderLease()
        self._clock = clock
        self._reports = reports
        self._connection: ControlConnection | None = None
        self._addresses = ControllerAddresses(controller_addresses(config))
        self._connected, self._registered = asyncio.Event(), asyncio.Event()
        self._unfenced, self._may_stop = asyncio.Event(), asyncio.Event()
        self._poked = asyncio.Event()
        self._task = OwnedTask(runtime, "controller channel")
        self._heartbeats = Heartbeats(runtime, config.broker_heartbeat_interval_ms)

    # What others ask of it.

    def start(self) -> None:
        """Begin to connect to the controller."""
        self._task.start(self._run)

    async def close(self) -> None:
        """Close the connection. Call `shut_down` first to hand over leadership."""
        await self._task.stop()
        await self._heartbeats.close()

    async def wait_until_registered(self) -> int:
        """Wait until this broker is registered, and return its broker epoch."""
        await self._registered.wait()
        return self.broker_epoch

    async def wait_until_unfenced(self) -> None:
        """Return once the controller has unfenced this broker."""
        await self._unfenced.wait()

    @property
    def is_connected(self) -> bool:
        """True if a connection to a controller is open at this moment."""
        return self._connection is not None and self._connection.is_open

    def poke(self) -> None:
        """Send a heartbeat now, because the controller should learn something at once."""
        self._poked.set()

    def on_recovered(self) -> None:
        """Report to the controller that logs are recovered and the metadata is caught up."""
        self.lifecycle.on_recovered()
        self.poke()

    async def shut_down(self, within_ms: int) -> bool:
        """Hand over leadership; return False if the controller did not permit the stop in time."""
        self.lifecycle.on_stop_requested()
        self.poke()
        if await happens_within(self._may_stop, within_ms):
            return True
        self._carry_out(self.lifecycle.on_out_of_time())
        return False

    async def call(self, request: Request[A], *, timeout_ms: int | None = None) -> A:
        """Wait for a connection, and send the controller a request once.

        Wait and answer together take at most `timeout_ms`, by default request.timeout.ms. Raise
        ApiError with REQUEST_TIMED_OUT, NETWORK_EXCEPTION or the controller's refusal.
        """
        timeout_ms = self._config.request_timeout_ms if timeout_ms is None else timeout_ms
        deadline_ms = self._runtime.monotonic_ms() + timeout_ms
        connection = await self._connection_until(deadline_ms)
        left_ms = max(1, deadline_ms - self._runtime.monotonic_ms())
        try:
            return await connection.call(request, timeout_ms=left_ms)
        except ApiError as error:
            if error.code is ErrorCode.NOT_CONTROLLER:
                self.poke()  # The next heartbeat will say where the active one is.
            raise

    async def forward(
        self, api_key: int, api_version: int, body: bytes, origin: Origin | None = None
    ) -> bytes:
        """Have the controller carry out an admin request; send it again if a connection is lost.

        The request is made in the name of the client `origin`, or of the broker if that is None.
        Every try has the same idempotency key, so that only one is carried out. Raise ApiError if
        the controller refuses the request, or if none answers within request.timeout.ms.
        """
        deadline_ms = self._runtime.monotonic_ms() + self._config.request_timeout_ms
        request = _asked_by(origin)(
            api_key=api_key,
            api_version=api_version,
            body=body,
            deadline_ms=self._config.request_timeout_ms,
            idempotency_key=self._runtime.rng.randbytes(16),
        )
        answer = await self._call_until(deadline_ms, request)
        if answer.error:
            raise ApiError(ErrorCode(answer.error), answer.message)
        return answer.body

    async def allocate_producer_ids(self) -> tuple[int, int]:
        """Reserve a range of producer ids; return the first of them and their number.

        Raise ApiError if the controller refuses, or if none answers within request.timeout.ms.
        """
        await self._registered.wait()
        deadline_ms = self._runtime.monotonic_ms() + self._config.request_timeout_ms
        request = AllocateProducerIds(self._registration.broker_id, self.broker_epoch)
        answer = await self._call_until(deadline_ms, request)
        if answer.error:
            raise ApiError(ErrorCode(answer.error), answer.message)
        return answer.first_id, answer.count

    async def _call_until(self, deadline_ms: int, request: Request[A]) -> A:
        """Send an idempotent request repeatedly until it is answered or `deadline_ms` has passed.

        Raise ApiError as `call` does, and NOT_CONTROLLER if the controller was replaced.
        """
        failures = 0
        while True:
            left_ms = max(1, deadline_ms - self._runtime.monotonic_ms())
            if isinstance(request, ForwardedRequest):
                request = cast(Request[A], replace(request, deadline_ms=left_ms))
            try:
                answer = await self.call(request, timeout_ms=left_ms)
                if getattr(answer, "error", 0) != ErrorCode.NOT_CONTROLLER:
                    return answer
                # It was active when we asked; the next controller knows the outcome.
                raise ApiError(ErrorCode.NOT_CONTROLLER, "the controller was replaced")
            except ApiError as error:
                now_ms = self._runtime.monotonic_ms()
                if error.code not in CONNECTION_GONE or now_ms >= deadline_ms:
                    raise
            failures += 1
            await asyncio.sleep(RECONNECT.after(failures, self._runtime.rng) / 1000)

    async def _connection_until(self, deadline_ms: int) -> ControlConnection:
        while True:
            connection = self._connection
            if connection is not None and connection.is_open:
                return connection
            self._connected.clear()
            left_ms = deadline_ms - self._runtime.monotonic_ms()
            if not await happens_within(self._connected, max(0, left_ms)):
                raise ApiError(ErrorCode.REQUEST_TIMED_OUT, "no controller could be reached")

    # The task.

    async def _run(self) -> None:
        failures, started_ms = 0, self._runtime.monotonic_ms()
        said: dict[tuple[object, ...], None] = {}
        while True:
            address = self._addresses.next()
            try:
                await self._connect_and_use(address)
            except ApiError as error:
                had_worked, self._connection = self._connection is not None, None
                if had_worked:
                    said.clear()
                # Each cause is logged once per outage, as there are many tries a second. A hint
                # to another controller must not hide the error of that one.
                cause = (*address, error.code)
                level = logging.DEBUG if cause in said else logging.WARNING
                said[cause] = None
                log.log(level, "controller %s:%d: %s", *address, error)
                if self._is_final(error, started_ms):
                    self._reports.on_refused(error)
                    return
                failures = 0 if had_worked else failures + 1
            if self._addresses.pause_comes_after(failures):
                await asyncio.sleep(RECONNECT.after(failures, self._runtime.rng) / 1000)

    def _is_final(self, error: ApiError, started_ms: int) -> bool:
        """True if another try cannot succeed; never after registration: the broker continues."""
        if self._registered.is_set():
            return False
        if error.code is ErrorCode.DUPLICATE_BROKER_REGISTRATION:
            waited_ms = self._runtime.monotonic_ms() - started_ms
            return waited_ms >= REGISTERED_WITHIN_MS
        return error.code in FATAL

    async def _connect_and_use(self, address: tuple[str, int]) -> None:
        """Use one connection until it fails, and raise ApiError with the reason."""
        connection = await self._connect(address)
        connection.on_closed = self.poke
        peer = connection.peer
        try:
            if peer.active_controller is not None and peer.active_id != peer.node_id:
                connection.redirect = peer.active_controller
                detail = f"node {peer.active_id} is the active controller"
                raise ApiError(ErrorCode.NOT_CONTROLLER, detail)
            await self._use(connection, address)
        finally:
            redirect = connection.redirect
            if redirect is not None and (redirect.host, redirect.port) != address:
                self._addresses.redirect = (redirect.host, redirect.port)
            connection.abort("given up")

    async def _connect(self, address: tuple[str, int]) -> ControlConnection:
        hello = Hello(
            cluster_id=self.cluster_id,
            min_version=PROTOCOL_VERSION_MIN,
            max_version=PROTOCOL_VERSION_MAX,
            node_id=self._registration.broker_id,
            role=ROLE_BROKER,
            incarnation_id=self._registration.incarnation_id,
        )
        host, port = address
        return await ControlConnection.open(
            host, port, hello, timeout_ms=CONNECT_TIMEOUT_MS, keys=self._keys
        )

    async def _use(self, connection: ControlConnection, address: tuple[str, int]) -> None:
        """Register if needed, then send heartbeats until the connection is closed.

        Raise ApiError with the reason when it is closed.
        """
        if self.cluster_id is None:
            self.cluster_id = connection.peer.cluster_id
        if self.broker_epoch < 0:
            await self._register(connection)
        while connection.is_open:
            self._poked.clear()
            await self._heartbeat(connection)
            if self._connection is None:
                self._connection = connection
                self._connected.set()
                log.info("controller is at %s:%d", *address)
                self._heartbeats.aim(address, connection.datagram_key)
            await happens_within(self._poked, self.lifecycle.pause_ms())
        raise ApiError(ErrorCode.NETWORK_EXCEPTION, await connection.wait_until_closed())

    async def _register(self, connection: ControlConnection) -> None:
        timeout_ms = self._config.request_timeout_ms
        answer = await connection.call(self._registration, timeout_ms=timeout_ms)
        if answer.error:
            raise ApiError(ErrorCode(answer.error), answer.message)
        self.broker_epoch = answer.broker_epoch
        assert self.cluster_id is not None
        me = self._registration
        self._heartbeats.identify(
            Heartbeat(self.cluster_id, me.broker_id, self.broker_epoch, me.incarnation_id, 0)
        )
        log.info("registered with broker epoch %d", self.broker_epoch)
        self._registered.set()

    async def _heartbeat(self, connection: ControlConnection) -> None:
        lifecycle, sent_ms = self.lifecycle, self._runtime.monotonic_ms()
        if lifecycle.wants_fence or lifecycle.wants_shutdown:
            self.lease.give_up(sent_ms)
        request = BrokerHeartbeat(
            broker_id=self._registration.broker_id,
            broker_epoch=self.broker_epoch,
            metadata_offset=self._reports.metadata_offset(),
            want_fence=lifecycle.wants_fence,
            want_shutdown=lifecycle.wants_shutdown,
            offline_directory_ids=self._reports.offline_directory_ids(),
            wall_ms=self._runtime.wall_ms(),
        )
        # A controller that takes longer is as good as gone: another connection may find it alive.
        timeout_ms = max(1000, self._config.broker_session_timeout_ms // 3)
        answer = await connection.call(request, timeout_ms=timeout_ms)
        if answer.error in (ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED):
            log.warning("the controller does not know this start of the broker: registering anew")
            self.broker_epoch = -1
            await self._register(connection)
        elif answer.error:
            raise ApiError(ErrorCode(answer.error), answer.message)
        else:
            self.lease.on_heartbeat_answered(sent_ms, answer.lease_ms)
            self._clock.on_heartbeat_answered(answer.clock_ahead_ms)
            self._carry_out(lifecycle.on_heartbeat_answered(answer))

    def _carry_out(self, effects: tuple[LifecycleEffect, ...]) -> None:
        for effect in effects:
            match effect:
                case Unfenced():
                    log.info("unfenced: may lead and follow in sync")
                    self._unfenced.set()
                case Fenced():
                    log.warning("fenced by the controller: it had not heard from us in time")
                    self._unfenced.clear()
                case MayStop():
                    self._may_stop.set()
                case _:
                    assert_never(effect)


def _asked_by(origin: Origin | None) -> partial[ForwardedRequest]:
    """Return the maker of requests in the name of `origin`, or of the broker if that is None."""
    if origin is None:
        return partial(ForwardedRequest, principal="")
    return partial(
        ForwardedRequest,
        principal=str(origin.principal),
        host=origin.host,
        listener=origin.listener,
        client_id=origin.client_id,
    )
