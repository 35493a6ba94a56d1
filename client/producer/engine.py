"""The engine of a producer: makes, starts and closes the producer's parts.

The parts are the connections, the metadata, the intake, the sender and, with a transactional.id,
the transactions. The engine never handles single records.
"""

import asyncio
import logging
from contextlib import suppress
from typing import Final

from ...runtime.runtime import Runtime
from ..config import ProducerConfig
from ..errors import ClientClosed, ClientError, TransactionMisuse
from ..metadata import Metadata, pool_for
from ..telemetry.reporter import Reporter, Subject
from .delivery import until_settled
from .intake import Intake
from .metrics import FLUSH, TXN_INIT, ProducerMetrics
from .sender import Sender
from .transactions import Transactions

log = logging.getLogger(__name__)

CLOSED: Final = "the producer is closed"


class Engine:
    """The parts of one producer, which are started and closed together."""

    def __init__(self, runtime: Runtime, config: ProducerConfig) -> None:
        self._runtime = runtime
        self._config = config
        self._metrics = ProducerMetrics(runtime)
        self.spent = self._metrics.spent
        """The total time that the user's calls have taken, for each kind of call."""
        self._pool = pool_for(runtime, config, self._metrics.network)
        self.metadata = Metadata(
            runtime, config, self._pool, auto_create=config.allow_auto_create_topics
        )
        self.intake = Intake(runtime, config, self.metadata, self._metrics, self._refusal)
        self._accumulator = self.intake.accumulator
        self.reporter = Reporter(
            runtime,
            config,
            self.metadata,
            Subject("producer", self.metrics, self._metrics.network, self._labels),
        )
        """Pushes the producer's metrics to brokers."""
        self._sender: Sender | None = None
        self._transactions: Transactions | None = None
        self._starting = asyncio.Lock()

    # -- life

    async def start(self) -> None:
        """Start all parts; a second call waits for the first.

        Raises as `Producer.start` does, and ClientClosed after `close`.

        A producer whose start failed is closed.
        """
        async with self._starting:
            if self.intake.is_closed:
                raise ClientClosed(CLOSED)
            if self.intake.wake is not None:
                return
            try:
                sender = await self._reach_cluster()
            except BaseException:
                self.intake.is_closed = True
                await self._stop()
                raise
            sender.start()
            self.intake.wake = sender.wake
            self._on_state()

    async def _reach_cluster(self) -> Sender:
        await self.metadata.start()
        if self.intake.is_closed:
            raise ClientClosed(CLOSED)
        sender = self._sender = Sender(
            self._runtime, self._config, self.metadata, self._accumulator, self._metrics
        )
        sender.on_fatal = self._on_state
        if self._config.transactional_id is not None:
            self._transactions = Transactions(
                self._runtime, self._config, self.metadata, self._accumulator, self._on_state
            )
            with self.spent.counted(TXN_INIT):
                await self._transactions.start()
        return sender

    async def close(self, timeout_ms: int | None) -> None:
        """Close as `Producer.close` does; log how many records were not acknowledged in time."""
        self.intake.is_closed = True
        self.intake.is_usable = False
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                    await self._settle()
            await self.reporter.close(timeout_ms)
        finally:
            lost = await self._stop()
            if lost:
                log.warning("%d records were not acknowledged when the producer was closed", lost)

    async def _settle(self) -> None:
        if self._transactions is not None and self._transactions.state.can_abort:
            log.warning("the producer was closed in a transaction, which is aborted")
            with suppress(ClientError):
                await self._transactions.abort()
        elif self.intake.wake is not None:
            await self.flush(None)

    async def _stop(self) -> int:
        """Stop all parts without flushing; return how many records failed because of that."""
        await self.reporter.close(0)
        if self._transactions is not None:
            await self._transactions.close()
        if self._sender is not None:
            await self._sender.close()
        lost = self._accumulator.fail_all(ClientClosed("the producer was closed before the ack"))
        await self.metadata.close()
        await self._pool.close()
        self.intake.close()
        return sum(loss.record_count for loss in lost)

    # -- what may be sent

    def _on_state(self) -> None:
        """React to the begin or end of a transaction, or to a fatal error of the producer."""
        assert self._sender is not None
        self.intake.is_usable = self._refusal() is None and not self.intake.is_closed
        self._sender.wake()

    def _refusal(self) -> ClientError | None:
        assert self._sender is not None
        if self._sender.fatal is not None or self._transactions is None:
            return self._sender.fatal
        return self._transactions.state.why_not_send

    # -- what users ask for

    async def flush(self, timeout_ms: int | None) -> None:
        """Send all records without lingering and wait until they are acknowledged or failed.

        Raise TimeoutError after `timeout_ms`, and ClientClosed before `start`.
        """
        if self.intake.wake is None:
            raise ClientClosed("not started")
        self._accumulator.flush_count += 1
        self.intake.wake()
        try:
            async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                with self.spent.counted(FLUSH):
                    await until_settled(self._accumulator)
            await asyncio.sleep(0)  # callbacks scheduled by the last answers run first
        finally:
            self._accumulator.flush_count -= 1

    @property
    def transactions(self) -> Transactions:
        """The producer's transactions.

        Raise TransactionMisuse without a transactional_id, ClientClosed before `start` and after
        `close`.
        """
        if self.intake.is_closed or self.intake.wake is None:
            raise ClientClosed(CLOSED if self.intake.is_closed else "not started")
        if self._transactions is None:
            raise TransactionMisuse("transactions need a transactional_id")
        return self._transactions

    def _labels(self) -> dict[str, str | None]:
        return {"transactional_id": self._config.transactional_id}

    def metrics(self) -> dict[str, float]:
        """Return the producer's metrics, by the names of Kafka's producer-metrics."""
        return {
            **self._metrics.read(self._accumulator, self._runtime.monotonic_ms()),
            "requests-in-flight": float(self._pool.in_flight_count),
            "metadata-age": self.metadata.age_ms / 1000,
        }
