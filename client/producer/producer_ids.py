"""Where a producer's number comes from: any broker, asked until one gives it or refuses for good.

Never numbers a batch.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from ...protocol.errors import ApiError, ErrorCode, ProtocolError
from ...protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ...runtime.runtime import Runtime
from ..errors import ClientError, UnsupportedVersion
from ..metadata import Metadata
from ..net.backoff import Backoff
from .batch import ProducerIdentity

log = logging.getLogger(__name__)

NO_TIMEOUT_MS: Final = 0x7FFFFFFF


class ProducerIds:
    """One allocation at a time, in the background."""

    def __init__(
        self,
        runtime: Runtime,
        metadata: Metadata,
        backoff: Backoff,
        on_result: Callable[[ProducerIdentity | ClientError], None],
    ) -> None:
        """`on_result` gets the new identity, or why there will never be one."""
        self._runtime = runtime
        self._metadata = metadata
        self._backoff = backoff
        self._on_result = on_result
        self._task: asyncio.Task[None] | None = None

    def allocate(self) -> None:
        """Ask for an identity, unless that is under way."""
        if self._task is None or self._task.done():
            self._task = self._runtime.spawn(self._allocate(), "producer id")

    async def close(self) -> None:
        """Stop asking."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _allocate(self) -> None:
        failure_count = 0
        request = InitProducerIdRequest(transaction_timeout_ms=NO_TIMEOUT_MS)
        while True:
            try:
                connection = await self._metadata.any_connection()
                answer: InitProducerIdResponse = await connection.request(request)
            except UnsupportedVersion as error:
                self._on_result(error)
                return
            except (ClientError, ProtocolError) as error:
                log.debug("no producer id: %s", error)
            else:
                code = ErrorCode(answer.error_code)
                if code is ErrorCode.NONE:
                    self._on_result(ProducerIdentity(answer.producer_id, answer.producer_epoch))
                    return
                if not code.retriable:
                    self._on_result(ClientError(f"no producer id: {ApiError(code)}"))
                    return
                log.debug("no producer id: %s", code.name)
            failure_count += 1
            await asyncio.sleep(self._backoff.after(failure_count, self._runtime.rng) / 1000)
