"""Sends an admin's requests, and repeats each until it is done, refused for good or too late.

The callers build the requests and read the answers.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

from ...protocol.errors import ApiError, ErrorCode, LocalProtocolError, ProtocolError
from ...protocol.messages.find_coordinator import CoordinatorType
from ...protocol.types import TopicPartition
from ...runtime.runtime import Runtime
from ..config import AdminConfig
from ..coordinator import Coordinator
from ..errors import AdminError, ClientClosed, ClientError, RequestTimedOut, UnsupportedVersion
from ..metadata import Metadata, pool_for
from ..net.backoff import Backoff
from ..net.connection import KafkaConnection
from ..network_metrics import NetworkMetrics
from ..offsets import ask_leaders
from ..outcomes import Outcomes, done_of
from ..telemetry.reporter import Reporter, Subject
from .coordinators import Coordinators

T = TypeVar("T")
Q = TypeVar("Q")

TRY_AGAIN: Final = (
    ErrorCode.NOT_CONTROLLER,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.THROTTLING_QUOTA_EXCEEDED,
)
"""The errors of a broker that cannot answer now; the request may succeed later or elsewhere. With
the last one comes a throttle time, for which the pool holds the connection back."""
CLOSED: Final = "the admin is closed"
NO_ANSWER: Final = "no answer"


class Asking:
    """Sends the requests of one admin to brokers, leaders and coordinators."""

    def __init__(self, runtime: Runtime, config: AdminConfig) -> None:
        self.config = config
        self._runtime = runtime
        self._network = NetworkMetrics(runtime.monotonic_ms)
        self._pool = pool_for(runtime, config, self._network)
        self.metadata = Metadata(runtime, config, self._pool)
        subject = Subject("admin", self.metrics, self._network, dict)
        self.reporter = Reporter(runtime, config, self.metadata, subject)
        """Pushes the admin's metrics to brokers."""
        self.coordinators = Coordinators(runtime, config, self.metadata)
        self._starting = asyncio.Lock()
        self._is_started = self._is_closed = False

    async def start(self) -> None:
        """Connect to the cluster; a second call waits for the first.

        Raise BootstrapError after bootstrap_timeout_ms, or ClientClosed after `close`. An admin
        whose start failed is closed.
        """
        async with self._starting:
            if self._is_closed:
                raise ClientClosed(CLOSED)
            if self._is_started:
                return
            try:
                await self.metadata.start()
                if self._is_closed:
                    raise ClientClosed(CLOSED)
            except BaseException:
                await self.close()
                raise
            self._is_started = True

    async def close(self) -> None:
        """Disconnect; calls under way fail, and later ones raise ClientClosed."""
        self._is_closed = True
        await self.reporter.close()
        await self.metadata.close()
        await self._pool.close()

    @property
    def is_closed(self) -> bool:
        """True once `close` has ended, or the start has failed."""
        return self._pool.is_closed

    def metrics(self) -> dict[str, float]:
        """Return the metrics of the admin's connections."""
        return self._network.read()

    def check_open(self) -> None:
        """Raise ClientClosed before `start` and after `close`."""
        if not self._is_started or self._is_closed:
            raise ClientClosed(CLOSED if self._is_closed else "not started")

    async def request(self, connection: KafkaConnection, request: object) -> Any:
        """Send a request once; wait default_api_timeout_ms plus request_timeout_ms at most.

        The broker itself is allowed default_api_timeout_ms for its work.
        """
        grace_ms = self.config.request_timeout_ms
        timeout_ms = self.config.default_api_timeout_ms + grace_ms
        return await connection.request(request, timeout_ms=timeout_ms)

    def random_bytes(self, count: int) -> bytes:
        """Return `count` random bytes."""
        return self._runtime.rng.randbytes(count)

    def wall_ms(self) -> int:
        """Return the wall clock's time in ms since the epoch."""
        return self._runtime.wall_ms()

    # -- brokers

    async def each(
        self,
        names: list[str],
        ask: Callable[[KafkaConnection, list[str]], Awaitable[Outcomes[T]]],
    ) -> dict[str, T]:
        """Ask the broker that takes admin requests about the names, until each has a final outcome.

        `ask` gets the names that have no final outcome yet. Raise AdminError with the names that
        were refused; the others are done.
        """
        return done_of(await self.outcomes(names, ask))

    async def outcomes(
        self,
        names: list[str],
        ask: Callable[[KafkaConnection, list[str]], Awaitable[Outcomes[T]]],
        node_id: int | None = None,
    ) -> Outcomes[T]:
        """Work as `each`, but return the errors too; ask broker `node_id` if it is given."""
        final: Outcomes[T] = {}
        left = names

        async def once(connection: KafkaConnection) -> None:
            again: list[ApiError] = []
            for name, outcome in (await ask(connection, left)).items():
                if isinstance(outcome, ApiError) and outcome.code in TRY_AGAIN:
                    again.append(outcome)
                else:
                    final[name] = outcome
            left[:] = [name for name in left if name not in final]
            if left:
                raise again[0] if again else ClientError(NO_ANSWER)

        if left:
            await self.one_broker(once, node_id)
        return final

    async def one_broker(
        self, ask: Callable[[KafkaConnection], Awaitable[T]], node_id: int | None = None
    ) -> T:
        """Ask one broker, `node_id` or the one that takes admin requests, until it answers.

        `ask` is called again after a ClientError, or an ApiError with a code of TRY_AGAIN. Raise
        RequestTimedOut after default_api_timeout_ms, and LocalProtocolError if the request
        cannot be encoded.
        """
        self.check_open()
        backoff = Backoff(self.config.retry_backoff_ms, self.config.retry_backoff_max_ms)
        why = NO_ANSWER
        failure_count = 0
        try:
            async with asyncio.timeout(self.config.default_api_timeout_ms / 1000):
                while True:
                    try:
                        return await ask(await self._connection(node_id))
                    except ApiError as error:
                        if error.code not in TRY_AGAIN:
                            raise
                        why = str(error)
                    except (ClientError, ProtocolError) as error:
                        if isinstance(error, AdminError | UnsupportedVersion | LocalProtocolError):
                            raise
                        why = str(error)
                    failure_count += 1
                    self.metadata.refresh_soon()
                    wait_ms = backoff.after(failure_count, self._runtime.rng)
                    await asyncio.sleep(wait_ms / 1000)
        except TimeoutError:
            waited = self.config.default_api_timeout_ms
            raise RequestTimedOut(f"not done in {waited} ms: {why}") from None

    async def every_broker(
        self, ask: Callable[[KafkaConnection], Awaitable[T]], node_ids: Iterable[int] | None = None
    ) -> dict[int, T]:
        """Ask each of these brokers, or all in the metadata, at the same time; see `one_broker`."""
        self.check_open()
        wanted = sorted(self.metadata.view.brokers) if node_ids is None else list(node_ids)
        answers = await asyncio.gather(*(self.one_broker(ask, node_id) for node_id in wanted))
        return dict(zip(wanted, answers, strict=True))

    async def at_once(
        self,
        questions: Mapping[int, Mapping[TopicPartition, Q]],
        ask: Callable[
            [KafkaConnection, Mapping[TopicPartition, Q]],
            Awaitable[Mapping[TopicPartition, T | ApiError]],
        ],
        *,
        at_most: int,
        timeout_ms: int | None,
    ) -> dict[int, dict[TopicPartition, T | ApiError]]:
        """Ask these brokers once, at the same time, about up to `at_most` partitions per request.

        A broker that fails, or takes longer than `timeout_ms` (default request_timeout_ms), gives
        an ApiError for each of its partitions.
        """
        self.check_open()
        usual_ms = min(self.config.request_timeout_ms, self.config.default_api_timeout_ms)
        limit_ms = usual_ms if timeout_ms is None else timeout_ms

        async def one(node_id: int) -> dict[TopicPartition, T | ApiError]:
            asked = questions[node_id]
            names, found = list(asked), dict[TopicPartition, T | ApiError]()
            try:
                async with asyncio.timeout(limit_ms / 1000):
                    connection = await self.metadata.connection_to(node_id)
                    for at in range(0, len(names), at_most):
                        part = {name: asked[name] for name in names[at : at + at_most]}
                        found.update(await ask(connection, part))
            except ClientClosed:
                raise
            except (ApiError, ClientError, ProtocolError, TimeoutError) as error:
                self.metadata.refresh_soon()
                return dict.fromkeys(names, _told(error))
            return found

        return dict(zip(questions, await asyncio.gather(*map(one, questions)), strict=True))

    async def _connection(self, node_id: int | None) -> KafkaConnection:
        target = self.metadata.view.controller_id if node_id is None else node_id
        if node_id is not None or target in self.metadata.view.brokers:
            return await self.metadata.connection_to(target)
        return await self.metadata.any_connection()

    # -- leaders

    async def leaders(
        self,
        questions: Mapping[TopicPartition, Q],
        ask: Callable[
            [KafkaConnection, Mapping[TopicPartition, Q]],
            Awaitable[Mapping[TopicPartition, T | ApiError]],
        ],
    ) -> dict[TopicPartition, T]:
        """Ask each partition's leader until it has answered.

        Raise AdminError with the partitions whose leaders refuse for good.
        """
        self.check_open()
        return await ask_leaders(self.metadata, questions, ask, self.config.default_api_timeout_ms)

    # -- coordinators

    async def coordinated(
        self,
        coordinator: Coordinator,
        request: object,
        code_of: Callable[[Any], int],
        *,
        at_most: int | None = None,
        timeout_ms: int | None = None,
    ) -> Any:
        """Ask a coordinator until it answers, also if the coordinator moves; return the answer.

        The answer may hold an error, which `code_of` reads. `at_most` is the newest API version to
        use. `timeout_ms` replaces default_api_timeout_ms.
        """
        self.check_open()
        return await coordinator.ask(
            request,
            lambda answer: ErrorCode(code_of(answer)),
            timeout_ms=self.config.default_api_timeout_ms if timeout_ms is None else timeout_ms,
            at_most=at_most,
        )

    async def each_coordinated(
        self,
        kind: CoordinatorType,
        keys: Iterable[str],
        ask: Callable[[Coordinator, str], Awaitable[T]],
    ) -> dict[str, T]:
        """Ask the coordinators of all keys at the same time.

        Raise AdminError with the keys that are refused.
        """
        names = list(dict.fromkeys(keys))
        answers = await asyncio.gather(
            *(ask(self.coordinators.of(kind, name), name) for name in names),
            return_exceptions=True,
        )
        outcomes: Outcomes[T] = {}
        for name, answer in zip(names, answers, strict=True):
            if isinstance(answer, BaseException) and not isinstance(answer, ApiError):
                raise answer
            outcomes[name] = answer
        return done_of(outcomes)


def _told(error: Exception) -> ApiError:
    """Return the ApiError that `at_once` returns for a broker if asking it raised `error`."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, UnsupportedVersion):
        return ApiError(ErrorCode.UNSUPPORTED_VERSION, str(error))
    if isinstance(error, TimeoutError | RequestTimedOut):
        return ApiError(ErrorCode.REQUEST_TIMED_OUT, str(error) or "no answer in the time allowed")
    return ApiError(ErrorCode.NETWORK_EXCEPTION, str(error))
