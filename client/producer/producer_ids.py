"""Asks brokers for a producer id, until one gives an id or refuses for good.

Brokers get ids in blocks from the active controller. If there is no active controller for long,
brokers run out of ids, and nothing can be sent. A warning says so once.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from ...protocol.errors import ApiError, ErrorCode, ProtocolError
from ...protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ...runtime.owned_task import OwnedTask
from ...runtime.runtime import Runtime
from ..errors import ClientError, UnsupportedVersion
from ..metadata import Metadata
from ..net.backoff import Backoff
from .batch import ProducerIdentity

log = logging.getLogger(__name__)

NO_TIMEOUT_MS: Final = 0x7FFFFFFF
SAY_AFTER_MS: Final = 3_000
"""The ms without a producer id after which one warning is logged."""


class ProducerIds:
    """Allocates producer ids in the background, one at a time."""

    def __init__(
        self,
        runtime: Runtime,
        metadata: Metadata,
        backoff: Backoff,
        on_result: Callable[[ProducerIdentity | ClientError], None],
        on_trouble: Callable[[str], None],
    ) -> None:
        """`on_result` is called with the new identity, or with the error of a final refusal.

        `on_trouble` is called with the reason each time an attempt fails and is repeated.
        """
        self._runtime = runtime
        self._metadata = metadata
        self._backoff = backoff
        self._on_result = on_result
        self._on_trouble = on_trouble
        self._task = OwnedTask(runtime, "producer id")

    def allocate(self) -> None:
        """Start to ask for a producer id, unless that is under way."""
        self._task.start(self._allocate)

    async def close(self) -> None:
        """Stop asking for producer ids."""
        await self._task.stop()

    async def _allocate(self) -> None:
        failure_count, is_said = 0, False
        begun_ms = self._runtime.monotonic_ms()
        while True:
            try:
                given = await self._ask()
            except UnsupportedVersion as error:
                self._on_result(error)
                return
            except (ClientError, ProtocolError, ApiError) as error:
                why = f"no producer id: {error}"
                if isinstance(error, ApiError) and not error.code.retriable:
                    self._on_result(ClientError(why))
                    return
                self._on_trouble(why)
                waited_ms = self._runtime.monotonic_ms() - begun_ms
                is_late = waited_ms >= SAY_AFTER_MS and not is_said
                is_said |= is_late
                level = logging.WARNING if is_late else logging.DEBUG
                log.log(level, "nothing can be sent after %d ms: %s", waited_ms, why)
            else:
                self._on_result(given)
                return
            failure_count += 1
            await asyncio.sleep(self._backoff.after(failure_count, self._runtime.rng) / 1000)

    async def _ask(self) -> ProducerIdentity:
        """Ask one broker for a producer id; raise ApiError if the broker gives none."""
        connection = await self._metadata.any_connection()
        request = InitProducerIdRequest(transaction_timeout_ms=NO_TIMEOUT_MS)
        answer: InitProducerIdResponse = await connection.request(request)
        code = ErrorCode(answer.error_code)
        if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            detail = f"{connection.address} has none left and gets none from a controller"
            raise ApiError(code, f"{detail}: is one running?")
        if code is not ErrorCode.NONE:
            raise ApiError(code, f"{connection.address} refused")
        return ProducerIdentity(answer.producer_id, answer.producer_epoch)
