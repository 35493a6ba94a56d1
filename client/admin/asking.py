"""How an admin asks: the broker that takes admin requests, again until it is done or time is over.

Knows no message. A refusal that is final is never repeated.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, TypeVar

from ...protocol.errors import ApiError, ErrorCode, ProtocolError
from ...runtime.runtime import Runtime
from ..config import AdminConfig
from ..errors import AdminError, ClientClosed, ClientError, RequestTimedOut, UnsupportedVersion
from ..metadata import Metadata
from ..net.backoff import Backoff
from ..net.connection import KafkaConnection

T = TypeVar("T")
Outcomes = dict[str, T | ApiError]

TRY_ANOTHER: Final = (
    ErrorCode.NOT_CONTROLLER,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.LEADER_NOT_AVAILABLE,
)
"""Answers that say nothing about what was asked, only about who was asked."""


class Asking:
    """The part of an admin that gets questions answered."""

    config: AdminConfig
    _runtime: Runtime
    _metadata: Metadata
    _is_started: bool
    _is_closed: bool

    async def _request(self, connection: KafkaConnection, request: object) -> Any:
        grace_ms = self.config.request_timeout_ms
        timeout_ms = self.config.default_api_timeout_ms + grace_ms
        return await connection.request(request, timeout_ms=timeout_ms)

    async def _each(
        self,
        names: list[str],
        ask: Callable[[KafkaConnection, list[str]], Awaitable[Outcomes[T]]],
    ) -> dict[str, T]:
        """Ask until each name is done or refused for good."""
        done: dict[str, T] = {}
        errors: dict[str, ApiError] = {}
        left = names
        retriable: dict[str, ApiError] = {}

        async def once(connection: KafkaConnection) -> bool:
            retriable.clear()
            for name, outcome in (await ask(connection, left)).items():
                if not isinstance(outcome, ApiError):
                    done[name] = outcome
                elif outcome.code in TRY_ANOTHER:
                    retriable[name] = outcome
                else:
                    errors[name] = outcome
            left[:] = [name for name in left if name not in done and name not in errors]
            return not left

        if left:
            await self._until(once, None, lambda: str(next(iter(retriable.values()), "no answer")))
        if errors:
            raise AdminError(errors)
        return done

    async def _somebody(
        self, ask: Callable[[KafkaConnection], Awaitable[T]], node_id: int | None = None
    ) -> T:
        answers: list[T] = []

        async def once(connection: KafkaConnection) -> bool:
            answers.append(await ask(connection))
            return True

        await self._until(once, node_id, lambda: "no answer")
        return answers[0]

    async def _until(
        self,
        once: Callable[[KafkaConnection], Awaitable[bool]],
        node_id: int | None,
        trouble: Callable[[], str],
    ) -> None:
        """Ask the controller's broker (or `node_id`) again and again until `once` is content."""
        self._check_open()
        backoff = Backoff(self.config.retry_backoff_ms, self.config.retry_backoff_max_ms)
        why = ""
        failure_count = 0
        try:
            async with asyncio.timeout(self.config.default_api_timeout_ms / 1000):
                while True:
                    try:
                        if await once(await self._connection(node_id)):
                            return
                        why = trouble()
                    except ApiError as error:
                        if error.code not in TRY_ANOTHER:
                            raise
                        why = str(error)
                    except (ClientError, ProtocolError) as error:
                        if isinstance(error, AdminError | UnsupportedVersion):
                            raise
                        why = str(error)
                    failure_count += 1
                    self._metadata.refresh_soon()
                    wait_ms = backoff.after(failure_count, self._runtime.rng)
                    await asyncio.sleep(wait_ms / 1000)
        except TimeoutError:
            waited = self.config.default_api_timeout_ms
            raise RequestTimedOut(f"not done in {waited} ms: {why or trouble()}") from None

    async def _every_broker(
        self, ask: Callable[[KafkaConnection], Awaitable[T]], node_ids: Iterable[int] | None = None
    ) -> dict[int, T]:
        """Ask each of these brokers, or all that are alive, at the same time."""
        self._check_open()
        wanted = sorted(self._metadata.view.brokers) if node_ids is None else list(node_ids)
        answers = await asyncio.gather(*(self._somebody(ask, node_id) for node_id in wanted))
        return dict(zip(wanted, answers, strict=True))

    def _check_open(self) -> None:
        if not self._is_started or self._is_closed:
            raise ClientClosed("the admin is closed" if self._is_closed else "not started")

    async def _connection(self, node_id: int | None) -> KafkaConnection:
        target = self._metadata.view.controller_id if node_id is None else node_id
        if node_id is not None or target in self._metadata.view.brokers:
            return await self._metadata.connection_to(target)
        return await self._metadata.any_connection()
