"""Pushes a client's metrics to a broker of the cluster, as `Pushing` decides.

Pushing begins when a connection is open to a broker that accepts clients' metrics; without such a
broker nothing is pushed. Between two requests there is one timer and no task.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, assert_never

from ...protocol.api import ApiKey
from ...protocol.compression import compress
from ...protocol.errors import ErrorCode, ProtocolError
from ...protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from ...protocol.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from ...protocol.types import uuid_to_text
from ...runtime.owned_task import OwnedTask
from ...runtime.runtime import Runtime
from ..cluster import Changes
from ..config import CommonConfig
from ..errors import ClientClosed, ClientError, RequestTimedOut
from ..metadata import Metadata
from ..net.connection import KafkaConnection
from ..net.pool import CONTROL
from ..network_metrics import NetworkMetrics
from .payloads import Payloads, Reading
from .pushing import Ask, Push, Pushing, Wait

log = logging.getLogger(__name__)

LAST_PUSH_MS: Final = 1_000
"""The most ms that a closing client waits for the answer to its last push."""
INSTANCE_ID_TIMEOUT_MS: Final = 60_000
NS_PER_MS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Subject:
    """The client whose metrics are pushed."""

    kind: str
    """A key of MEASURES."""
    metrics: Callable[[], dict[str, float]]
    network: NetworkMetrics
    labels: Callable[[], dict[str, str | None]]
    """Returns the attributes of the client; those that are None are left out."""


class Reporter:
    """Pushes the metrics of one client, from its first metadata on until `close`."""

    def __init__(
        self, runtime: Runtime, config: CommonConfig, metadata: Metadata, subject: Subject
    ) -> None:
        self._runtime = runtime
        self._metadata = metadata
        self._subject = subject
        self._is_enabled = config.enable_metrics_push
        self._pushing = Pushing()
        self._payloads = Payloads(subject.kind, runtime.wall_ms() * NS_PER_MS)
        self._connection: KafkaConnection | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._task = OwnedTask(runtime, "push metrics")
        self._has_begun = self._is_closed = False
        self._is_known = asyncio.Event()
        """Set once a broker has given this client its id, or the client is closed."""
        if self._is_enabled:
            metadata.listen(self._on_metadata)

    # -- life

    def _on_metadata(self, _: Changes) -> None:
        if not self._has_begun and not self._is_closed and self._find_connection() is not None:
            self._has_begun = True
            self._task.start(self._run)

    async def close(self, timeout_ms: int | None = None) -> None:
        """Stop; if metrics are wanted, push a last time and wait for the answer.

        The wait is `timeout_ms` or LAST_PUSH_MS, whichever is less.
        """
        self._is_closed = True
        self._is_known.set()
        if self._timer is not None:
            self._timer.cancel()
        await self._task.stop()
        last, connection = self._pushing.end(), self._find_connection()
        if last is None or connection is None:
            return
        limit_ms = LAST_PUSH_MS if timeout_ms is None else min(timeout_ms, LAST_PUSH_MS)
        with suppress(ClientError, ProtocolError, TimeoutError):
            async with asyncio.timeout(limit_ms / 1000):
                await self._push(connection, last)

    async def instance_id(self, timeout_ms: int) -> str:
        """Return the id that a broker gave to this client, as text.

        Raise ValueError if enable.metrics.push is false, RequestTimedOut after `timeout_ms`,
        ClientClosed if the client is closed before a broker gave one.
        """
        if not self._is_enabled:
            raise ValueError("a client has no instance id with enable.metrics.push=false")
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_ms / 1000):
                await self._is_known.wait()
        if self._pushing.subscription is None:
            if self._is_closed:
                raise ClientClosed("the client was closed")
            raise RequestTimedOut(
                f"no broker gave this client an id within {timeout_ms} ms: do they take metrics?"
            )
        return uuid_to_text(self._pushing.instance_id)

    # -- pushing

    def _on_timer(self) -> None:
        self._timer = None
        self._task.start(self._run)

    async def _run(self) -> None:
        """Carry out the steps that are due, then set the timer for the next one."""
        while True:
            now_ms = self._runtime.monotonic_ms()
            step = self._pushing.next_step(now_ms)
            match step:
                case None:
                    return
                case Wait():
                    wait_s = (step.until_ms - now_ms) / 1000
                    loop = asyncio.get_running_loop()
                    self._timer = loop.call_later(wait_s, self._on_timer)
                    return
                case Ask() | Push():
                    try:
                        await self._carry_out(step)
                    except (ClientError, ProtocolError) as error:
                        log.debug("metrics could not be pushed, later again: %s", error)
                        now_ms = self._runtime.monotonic_ms()
                        self._pushing.on_failed(now_ms, self._runtime.rng)
                case _:
                    assert_never(step)

    async def _carry_out(self, step: Ask | Push) -> None:
        connection = self._find_connection()
        if connection is None:
            connection = await self._metadata.any_connection()
        if isinstance(step, Ask):
            await self._ask(connection, step)
        else:
            await self._push(connection, step)

    async def _ask(self, connection: KafkaConnection, step: Ask) -> None:
        request = GetTelemetrySubscriptionsRequest(client_instance_id=step.instance_id)
        answer: GetTelemetrySubscriptionsResponse = await connection.request(request)
        runtime, before = self._runtime, self._pushing.subscription
        code = self._pushing.on_subscription(answer, runtime.monotonic_ms(), runtime.rng)
        found = self._pushing.subscription
        if code is not ErrorCode.NONE:
            self._note("what to push was not told", code)
        elif found is not None and found != before:
            self._is_known.set()
            if found.metrics:
                wanted, every_s = ", ".join(found.metrics), found.interval_ms / 1000
                log.info("the cluster asks for metrics every %g s: %.200s", every_s, wanted)

    async def _push(self, connection: KafkaConnection, step: Push) -> None:
        wanted = step.subscription
        data = self._payloads.make(self._read(), wanted)
        request = PushTelemetryRequest(
            client_instance_id=wanted.instance_id,
            subscription_id=wanted.subscription_id,
            terminating=step.is_last,
            compression_type=int(wanted.codec),
            metrics=bytes(compress(wanted.codec, data)),
        )
        answer: PushTelemetryResponse = await connection.request(request)
        code = self._pushing.on_pushed(answer, self._runtime.monotonic_ms())
        if code is ErrorCode.NONE:
            self._payloads.on_taken()
        else:
            self._note("metrics were not taken", code)

    def _note(self, what: str, code: ErrorCode) -> None:
        is_over = self._pushing.next_step(0) is None and not self._is_closed
        level = logging.WARNING if is_over else logging.DEBUG
        end = ", and none are pushed any more" if is_over else ""
        log.log(level, "%s%s: %s: %s", what, end, code.name, code.doc)

    def _read(self) -> Reading:
        nodes = {f"{b.host}:{b.port}": b.node_id for b in self._metadata.view.brokers.values()}
        measured = self._subject.network.latencies()
        return Reading(
            self._runtime.wall_ms() * NS_PER_MS,
            self._subject.metrics(),
            {nodes[address]: each for address, each in measured.items() if address in nodes},
            {key: value for key, value in self._subject.labels().items() if value},
        )

    def _find_connection(self) -> KafkaConnection | None:
        """Return an open connection to a broker that accepts metrics, or None if there is none.

        The connection of the last push is kept while it is open.
        """
        if self._connection is not None and self._connection.is_open:
            return self._connection
        api = ApiKey.GET_TELEMETRY_SUBSCRIPTIONS
        opened = self._metadata.pool.opened(CONTROL)
        fit = [connection for connection in opened if connection.versions.supports(api)]
        self._connection = self._runtime.rng.choice(fit) if fit else None
        return self._connection
