"""Finds the coordinator of a group or transactional id, and sends requests to it.

Consumers, producers and admins use it; they judge the answers to their requests. While a
coordinator does not answer, other brokers are asked who is the coordinator now.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final, TypeVar

from ..protocol.api import ApiKey
from ..protocol.errors import ErrorCode, ProtocolError
from ..protocol.messages.find_coordinator import (
    CoordinatorType,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from ..protocol.schema import shape_of
from ..runtime.runtime import Runtime
from .config import CommonConfig
from .errors import ClientClosed, ClientError, ConnectionLost, RequestTimedOut, UnsupportedVersion
from .metadata import Metadata
from .net.address import Address
from .net.backoff import Backoff
from .net.connection import KafkaConnection
from .refusals import refusal

log = logging.getLogger(__name__)

T = TypeVar("T")
COORDINATOR: Final = "coordinator"
"""The lane of short requests to a coordinator: the pool keeps a connection for each lane."""
BATCH_VERSION: Final = 4
"""From this version on FindCoordinator takes many keys in one request (KIP-699)."""
LOOK_AGAIN_MOST_MS: Final = 5_000
ELSEWHERE: Final = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
)
"""The errors of a broker that is not, or no longer, the coordinator of the key."""
NOT_NOW: Final = (*ELSEWHERE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
"""The errors of a coordinator that cannot answer now; the same request may be sent again."""


class Coordinator:
    """Finds the broker that coordinates one key, and keeps a connection to it."""

    def __init__(
        self,
        runtime: Runtime,
        config: CommonConfig,
        metadata: Metadata,
        key: str,
        key_type: CoordinatorType = CoordinatorType.GROUP,
    ) -> None:
        self.key = key
        self.node_id: int | None = None
        """The id of the coordinator; None while it is not known."""
        self._key_type = key_type
        self._runtime = runtime
        self._config = config
        self._metadata = metadata
        self._backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
        self._address: Address | None = None
        self._finding: asyncio.Task[None] | None = None

    def __str__(self) -> str:
        what = "group" if self._key_type == CoordinatorType.GROUP else "transactional id"
        return f"{what} {self.key}"

    async def ask(
        self,
        message: object,
        judge: Callable[[Any], ErrorCode],
        *,
        timeout_ms: int,
        at_most: int | None = None,
    ) -> Any:
        """Send a request until a coordinator gives a final answer, which may be an error.

        Return that answer. `at_most` is the newest API version to use. `judge` returns the error
        code of an answer. After a code of NOT_NOW, or a lost answer, the request is sent again, to
        a new coordinator if there is one. Raises RequestTimedOut after `timeout_ms`, Refused if the
        brokers refuse to name the coordinator.
        """
        why = "no answer"
        failure_count = 0
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                while True:
                    try:
                        answer = await self.request(message, at_most=at_most)
                        code = judge(answer)
                        if code not in NOT_NOW:
                            return answer
                        why = code.name
                        self.on_refused(code)
                    except (ClientClosed, UnsupportedVersion):
                        raise
                    except (ClientError, ProtocolError) as error:
                        if _is_final(error):
                            raise
                        why = str(error)
                    failure_count += 1
                    await self.rest(failure_count)
        except TimeoutError:
            raise RequestTimedOut(f"{self}: not done in {timeout_ms} ms: {why}") from None

    async def request(
        self,
        message: object,
        *,
        timeout_ms: int | None = None,
        lane: str = COORDINATOR,
        at_most: int | None = None,
    ) -> Any:
        """Send a request to the coordinator once, in a version up to `at_most`.

        Raises ConnectionLost, ConnectError or RequestTimedOut (after `timeout_ms`, by default
        request_timeout_ms); the next call then looks for the coordinator anew. Raises Refused if
        the brokers refuse to name the coordinator.
        """
        connection = await self.connection(lane)
        try:
            key = ApiKey(shape_of(type(message)).api_key)
            version = connection.versions.of(key, at_most)
            future = connection.send(message, version=version, timeout_ms=timeout_ms)
            return await self._watched(future, connection)
        except UnsupportedVersion:
            raise
        except (ClientError, ProtocolError) as error:
            self.forget(str(error))
            raise

    async def connection(self, lane: str = COORDINATOR) -> KafkaConnection:
        """Return a connection to the coordinator, after finding it if necessary; try only once.

        Raise a ClientError if that fails, such as ConnectionLost or ConnectError.
        """
        if self._address is None:
            await self.find()
        address = self._address
        if address is None:
            raise ConnectionLost(f"{self}: its coordinator was found and lost again")
        try:
            return await self._metadata.pool.get(address, lane)
        except ClientError as error:
            self.forget(str(error))
            raise

    def on_refused(self, code: ErrorCode) -> None:
        """Forget the coordinator if `code` says that the broker does not coordinate this key."""
        if code in ELSEWHERE:
            self.forget(code.name)

    def forget(self, why: str) -> None:
        """Forget the coordinator, so that the next request finds it anew; `why` is logged."""
        if self.node_id is not None:
            log.info("%s: broker %d no longer coordinates it: %s", self, self.node_id, why)
        self.node_id = self._address = None

    async def rest(self, failure_count: int) -> None:
        """Wait for the backoff after `failure_count` failures in a row."""
        wait_ms = self._backoff.after(failure_count, self._runtime.rng)
        await asyncio.sleep(wait_ms / 1000)

    # -- finding

    async def find(self) -> None:
        """Ask any broker for the coordinator; concurrent callers share one request.

        Raise ClientError if no broker can be reached or no coordinator is available yet, Refused if
        a broker refuses for good.
        """
        if self._finding is None:
            self._finding = asyncio.get_running_loop().create_task(
                self._find(), name=f"find {self}"
            )
            self._finding.add_done_callback(self._on_found)
        await asyncio.shield(self._finding)

    def _on_found(self, task: "asyncio.Task[None]") -> None:
        self._finding = None
        if not task.cancelled():
            task.exception()  # marks the error as seen, for which no caller may be waiting

    async def _find(self) -> None:
        response = await self._metadata.ask_any(self._ask_for_it)
        found = response.coordinators[0] if response.coordinators else response
        code = ErrorCode(found.error_code)
        if code.retriable or code in NOT_NOW:
            raise ConnectionLost(f"{self}: {code.name}: {code.doc}")
        if code is not ErrorCode.NONE:
            raise refusal(code, f"{self}: {found.error_message or 'finding its coordinator'}")
        if self.node_id != found.node_id:
            log.debug("%s: broker %d coordinates it", self, found.node_id)
        self.node_id, self._address = found.node_id, Address(found.host, found.port)

    async def _ask_for_it(self, connection: KafkaConnection) -> FindCoordinatorResponse:
        version = connection.versions.of(ApiKey.FIND_COORDINATOR)
        request = FindCoordinatorRequest(
            key=self.key, key_type=int(self._key_type), coordinator_keys=[self.key]
        )
        response: FindCoordinatorResponse = await connection.request(request, version=version)
        if version >= BATCH_VERSION and not response.coordinators:
            raise ConnectionLost(f"{connection.address} answered about no coordinator at all")
        return response

    async def _watched(self, future: "asyncio.Future[T]", connection: KafkaConnection) -> T:
        """Wait for the answer; while it is late, ask other brokers who the coordinator is now.

        Raise ConnectionLost if the coordinator has changed.
        """
        asked, patience_ms = self._address, self._config.unanswered_request_ms
        try:
            while True:
                await asyncio.wait([future], timeout=patience_ms / 1000)
                if future.done():
                    return future.result()
                patience_ms = min(2 * patience_ms, LOOK_AGAIN_MOST_MS)
                try:
                    await self.find()
                except (ClientError, ProtocolError) as error:
                    log.debug("%s: %s", self, error)
                if self._address != asked and self._address is not None and not future.done():
                    raise ConnectionLost(f"{connection.address} no longer coordinates {self}")
        finally:
            future.cancel()


def _is_final(error: Exception) -> bool:
    code = getattr(error, "code", None)
    return isinstance(code, ErrorCode) and not code.retriable
