"""Keeps a client's view of the cluster up to date: bootstrap, refresh, choice of the broker to ask.

Updates `ClusterView`, as often as `Staleness` decides, and passes every change to listeners. If a
broker does not answer within `unanswered_request_ms`, the next one is asked as well, and the first
answer is taken.
"""

import asyncio
import contextlib
import logging
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from ..protocol.api import ApiKey
from ..protocol.errors import ErrorCode, ProtocolError
from ..protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ..runtime.owned_task import OwnedTask
from ..runtime.runtime import Runtime
from .cluster import Changes, ClusterView, Staleness
from .config import CommonConfig
from .errors import (
    Attempt,
    BootstrapError,
    ClientClosed,
    ClientError,
    ConnectError,
    UnknownTopic,
)
from .metrics import NOTHING
from .missing_topics import MissingTopics
from .net.address import Address
from .net.backoff import Backoff
from .net.connection import CLOSED, ConnectionOptions, KafkaConnection
from .net.pool import CONTROL, Pool
from .net.traffic import Traffic

log = logging.getLogger(__name__)

T = TypeVar("T")
Listener = Callable[[Changes], None]
NOT_YET: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE)
"""The error codes of a topic that is being created."""
SILENT_MS: Final = 2_000
"""The ms after which a bootstrap that has not succeeded yet is logged."""


def pool_for(runtime: Runtime, config: CommonConfig, traffic: Traffic) -> Pool:
    """Make a client's connection pool by its settings; `traffic` counts its requests."""
    options = ConnectionOptions(
        client_id=config.client_id,
        connect_timeout_ms=config.socket_connection_setup_timeout_ms,
        request_timeout_ms=config.request_timeout_ms,
        security=config.security.steps(runtime),
        traffic=traffic,
    )
    backoff = Backoff(config.reconnect_backoff_ms, config.reconnect_backoff_max_ms)
    return Pool(runtime, options, backoff)


class Metadata:
    """The cluster view of one client, refreshed in the background between `start` and `close`."""

    def __init__(
        self, runtime: Runtime, config: CommonConfig, pool: Pool, *, auto_create: bool = False
    ) -> None:
        self.view = ClusterView()
        self.pool = pool
        self._runtime = runtime
        self._config = config
        self._auto_create = auto_create
        self._bootstrap = [Address.parse(server) for server in config.bootstrap_servers]
        backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
        self._staleness = Staleness(config.metadata_max_age_ms, backoff)
        self.topic_names: tuple[str, ...] | None = None
        """The names of all topics in the newest answer; None unless `watch_all` is on."""
        self._topics: dict[str, None] = {}
        self._awaited: Counter[str] = Counter()
        """The topics that `wait_for_topics` waits for, each with the number of waiting calls."""
        self._watches_all = False
        self._listeners: list[Listener] = []
        self._waiters: list[asyncio.Future[None]] = []
        self._wake = asyncio.Event()
        self._avoid: int | None = None
        self._errors: dict[str, ErrorCode] = {}
        self._missing = MissingTopics(auto_create=auto_create)
        self._task = OwnedTask(runtime, "metadata")
        self._is_cut_off = False

    async def start(self) -> None:
        """Connect and start refreshing; raise BootstrapError after bootstrap_timeout_ms."""
        if self._task.is_running:
            return
        deadline_ms = self._runtime.monotonic_ms() + self._config.bootstrap_timeout_ms
        attempts: list[Attempt] = []
        loop = asyncio.get_running_loop()
        still_trying = loop.call_later(
            SILENT_MS / 1000, _say_still_trying, attempts, self._bootstrap
        )
        try:
            async with asyncio.timeout(self._config.bootstrap_timeout_ms / 1000):
                while self._runtime.monotonic_ms() < deadline_ms:
                    try:
                        self._staleness.on_asked(self._runtime.monotonic_ms(), self._runtime.rng)
                        await self._refresh_once(attempts)
                        break
                    except BootstrapError as error:
                        if error.is_final:
                            raise
                        await asyncio.sleep(self._config.reconnect_backoff_ms / 1000)
        except TimeoutError:
            pass
        finally:
            still_trying.cancel()
        if not self.view.brokers:
            late = "no answer in the time allowed"
            raise BootstrapError(_last_of_each(attempts, self._bootstrap, late))
        self._task.start(self._run)

    @property
    def age_ms(self) -> float:
        """The ms since the newest answer of a broker; NaN before the first answer."""
        then_ms = self._staleness.refreshed_at_ms
        return NOTHING if then_ms is None else self._runtime.monotonic_ms() - then_ms

    async def close(self) -> None:
        """Stop refreshing; all waiting calls raise ClientClosed."""
        await self._task.stop()
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_exception(ClientClosed("the client was closed"))

    # -- what is watched, who listens

    def listen(self, listener: Listener) -> None:
        """Call `listener` on the loop with the changes of each metadata answer, in order."""
        self._listeners.append(listener)

    def watch(self, topic: str) -> None:
        """Include a topic in every refresh from now on; refresh soon if it is new."""
        if topic not in self._topics:
            self._topics[topic] = None
            self._staleness.on_new_question()
            self._wake.set()

    def forget(self, topic: str) -> None:
        """Leave a topic out of refreshes from now on, unless `wait_for_topics` waits for it."""
        if topic not in self._awaited:
            self._topics.pop(topic, None)

    def watch_all(self, wanted: bool) -> None:
        """Include all topics of the cluster in every refresh, or only the watched ones again."""
        if wanted and not self._watches_all:
            self._staleness.on_new_question()
            self._wake.set()
        if not wanted:
            self.topic_names = None
        self._watches_all = wanted

    def error_of(self, topic: str) -> ErrorCode:
        """Return the error code of a watched topic in the newest answer, NONE if it had none."""
        return self._errors.get(topic, ErrorCode.NONE)

    def refresh_soon(self, *, avoid: int | None = None) -> None:
        """Refresh as soon as the backoff allows, preferably from another broker than `avoid`."""
        if avoid is not None:
            self._avoid = avoid
        self._staleness.on_found_stale()
        self._wake.set()

    async def wait_until_refreshed(self) -> None:
        """Wait until the next refresh has succeeded or failed; raise ClientClosed if closed."""
        if not self._task.is_running:
            raise ClientClosed("the client is closed")
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        await waiter

    async def wait_for_topics(
        self, topics: Sequence[str], timeout_ms: int, *, refresh: bool = False
    ) -> None:
        """Return once all topics are in the view; raise UnknownTopic after `timeout_ms`.

        With `refresh`, refresh the view first; if no broker answers, the view stays as it is.
        """
        for topic in topics:
            self.watch(topic)
        self._awaited.update(topics)
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                if refresh:
                    self.refresh_soon()
                    await self.wait_until_refreshed()
                while missing := [topic for topic in topics if topic not in self.view.topics]:
                    for topic in missing:
                        code = self.error_of(topic)
                        if code is not ErrorCode.NONE and not code.retriable:
                            raise UnknownTopic(topic, code.doc)
                    self.refresh_soon()
                    await self.wait_until_refreshed()
        except TimeoutError:
            pass
        finally:
            self._awaited -= Counter(topics)
        missing = [topic for topic in topics if topic not in self.view.topics]
        for topic in missing:
            self.forget(topic)
        if missing:
            said = self._missing.said_of(missing[0])
            raise UnknownTopic(missing[0]) if said is None else UnknownTopic(missing[0], said)

    # -- connections

    async def connection_to(self, node_id: int, lane: str = CONTROL) -> KafkaConnection:
        """Return a connection to a broker; raise ConnectError if the broker cannot be reached."""
        broker = self.view.brokers.get(node_id)
        if broker is None:
            raise ConnectError(Attempt(f"broker {node_id}", "resolve", "not in the metadata"))
        return await self.pool.get(broker.address, lane)

    async def any_connection(self) -> KafkaConnection:
        """Return a connection to any broker; raise BootstrapError if none can be reached."""

        async def itself(connection: KafkaConnection) -> KafkaConnection:
            return connection

        return await self.ask_any(itself)

    async def ask_any(self, ask: Callable[[KafkaConnection], Awaitable[T]]) -> T:
        """Call `ask` with connections to one broker after the other until one answers.

        While a broker is slow, the next one is asked as well. Raise BootstrapError if none answers.
        """
        return await self._first(ask, [])

    # -- refreshing

    async def _run(self) -> None:
        while True:
            wait_ms = self._staleness.next_ask_ms() - self._runtime.monotonic_ms()
            if wait_ms > 0:
                self._wake.clear()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(wait_ms / 1000):
                        await self._wake.wait()
                continue
            self._staleness.on_asked(self._runtime.monotonic_ms(), self._runtime.rng)
            try:
                await self._refresh_once([])
            except BootstrapError as error:
                # Warn once per outage: while it lasts, connecting is tried many times a second.
                level = logging.DEBUG if self._is_cut_off else logging.WARNING
                log.log(level, "no broker tells who leads: %s", error)
                self._is_cut_off = True
                self._staleness.on_found_stale()
            else:
                self._is_cut_off = False
            waiters, self._waiters = self._waiters, []
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)
            if not self._is_cut_off:
                await self._say_missing()

    async def _say_missing(self) -> None:
        now_ms = self._runtime.monotonic_ms()
        due = self._missing.on_answer(self._errors, self._topics, now_ms)
        if not due:
            return
        names: Sequence[str] = self.topic_names or ()
        if not names:
            with contextlib.suppress(BootstrapError):
                names = await self.ask_any(_ask_names)
        for topic in due:
            log.warning("%s", self._missing.say(topic, names))

    async def _refresh_once(self, attempts: list[Attempt]) -> None:
        is_complete = self._watches_all
        response = await self._first(self._ask, attempts)
        self._avoid = None
        self._staleness.on_refreshed(self._runtime.monotonic_ms())
        if response.error_code == ErrorCode.REBOOTSTRAP_REQUIRED:
            self.view.brokers = {}
            self._staleness.on_found_stale()
            return
        changes = self.view.on_metadata(response)
        self._errors = changes.errors
        if is_complete and self._watches_all:
            self.topic_names = tuple(changes.topics)
            missing = (topic for topic in self._topics if topic not in self.view.topics)
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            self._errors = dict.fromkeys(missing, unknown) | changes.errors
        if any(code in NOT_YET for code in changes.errors.values()):
            self._staleness.on_found_stale()
        self.pool.retain([*self._bootstrap, *(b.address for b in self.view.brokers.values())])
        for listener in self._listeners:
            listener(changes)

    def _candidates(self) -> list[Address]:
        """Return the addresses to ask: first brokers likely to answer, bootstrap servers last."""
        brokers = list(self.view.brokers.values())
        self._runtime.rng.shuffle(brokers)

        def unlikely(node_id: int, address: Address) -> tuple[bool, bool, bool]:
            is_connected = self.pool.ready(address, CONTROL) is not None
            return node_id == self._avoid, self.pool.is_failing(address), not is_connected

        brokers.sort(key=lambda broker: unlikely(broker.node_id, broker.address))
        return list(dict.fromkeys([*(b.address for b in brokers), *self._bootstrap]))

    async def _ask(self, connection: KafkaConnection) -> MetadataResponse:
        version = connection.versions.of(ApiKey.METADATA)
        # Version 0 has no null; in it an empty list asks for all topics.
        named = [MetadataRequestTopic(name=topic) for topic in self._topics]
        everything: list[MetadataRequestTopic] | None = None if version else []
        request = MetadataRequest(
            topics=everything if self._watches_all else named,
            allow_auto_topic_creation=self._auto_create,
        )
        response: MetadataResponse = await connection.request(request, version=version)
        if not response.brokers:
            raise ConnectError(
                Attempt(connection.address, "metadata", "it knows no live broker yet")
            )
        return response

    async def _first(
        self, ask: Callable[[KafkaConnection], Awaitable[T]], attempts: list[Attempt]
    ) -> T:
        """Ask the addresses in turn; ask the next one when an earlier one has failed or is slow.

        Return the first answer; raise BootstrapError if all failed.
        """

        async def attempt(address: Address) -> T:
            return await ask(await self.pool.get(address, CONTROL))

        waiting = deque(self._candidates())
        running: dict[asyncio.Future[T], Address] = {}
        slow_s = self._config.unanswered_request_ms / 1000
        try:
            while waiting or running:
                if waiting:
                    address = waiting.popleft()
                    running[asyncio.ensure_future(attempt(address))] = address
                timeout_s = slow_s if waiting else None
                await asyncio.wait(running, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
                for task in [task for task in running if task.done()]:
                    address = running.pop(task)
                    error = task.exception()
                    if error is None:
                        return task.result()
                    attempts.append(_as_attempt(address, error))
        finally:
            for task in running:
                task.cancel()
            if running:
                await asyncio.wait(running)
        raise BootstrapError(attempts)


async def _ask_names(connection: KafkaConnection) -> list[str]:
    version = connection.versions.of(ApiKey.METADATA)
    request = MetadataRequest(topics=None if version else [], allow_auto_topic_creation=False)
    response: MetadataResponse = await connection.request(request, version=version)
    return [topic.name for topic in response.topics if topic.name is not None]


def _as_attempt(address: Address, error: BaseException) -> Attempt:
    if isinstance(error, ConnectError):
        return error.attempt
    if isinstance(error, (ClientError, ProtocolError)):
        cause = str(error).removeprefix(f"{address}: ")
        if cause == CLOSED:
            cause += "; does its listener ask for a login by SASL?"
        return Attempt(str(address), "metadata", cause)
    raise error


def _say_still_trying(attempts: Sequence[Attempt], configured: Sequence[Address]) -> None:
    so_far = _last_of_each(attempts, configured, "no answer yet")
    log.warning("still trying: %s", BootstrapError(so_far))


def _last_of_each(
    attempts: Sequence[Attempt], configured: Sequence[Address], late: str
) -> list[Attempt]:
    last = {attempt.address: attempt for attempt in attempts}
    for address in configured:
        pending = Attempt(str(address), "open", late)
        last.setdefault(str(address), pending)
    return list(last.values())


def suspect(metadata: Metadata, node_id: int, lane: str) -> None:
    """Refresh the metadata soon, because a broker leaves something unanswered for long.

    Do nothing if it throttles the connection of that lane, as it answers later then.
    """
    broker = metadata.view.brokers.get(node_id)
    if broker is None or not metadata.pool.is_throttled(broker.address, lane):
        metadata.refresh_soon(avoid=node_id)
