"""The engine of a consumer: its connections, its view of the cluster, its positions, its fetching.

The engine runs from `start` to `disconnect`. The consumer's other parts share it, and they decide
what is read, handed out and committed.
"""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final

from ...protocol.messages.find_coordinator import CoordinatorType
from ...protocol.types import TopicPartition
from ...runtime.runtime import Runtime
from ..config import ConsumerConfig
from ..coordinator import Coordinator
from ..errors import ClientClosed
from ..metadata import Metadata, pool_for
from ..offsets import ListedOffset, list_offsets
from ..telemetry.reporter import Reporter, Subject
from .commits import Commits
from .consumer_metrics import ConsumerMetrics
from .fetcher import Fetcher
from .positions import RESETS, Positions
from .progress import Progress

CLOSED: Final = "the consumer is closed"


class Engine:
    """The connections, metadata, positions and fetching that a consumer's parts share."""

    def __init__(self, runtime: Runtime, config: ConsumerConfig) -> None:
        self.runtime = runtime
        self.config = config
        self.metrics = ConsumerMetrics(runtime)
        pool = pool_for(runtime, config, self.metrics.network)
        self.metadata = Metadata(runtime, config, pool, auto_create=config.allow_auto_create_topics)
        has_group = config.group_id is not None
        self.positions = Positions(reset=RESETS[config.auto_offset_reset], has_group=has_group)
        self.progress = Progress(self.positions, reads_committed=config.reads_committed)
        self.fetcher = Fetcher(runtime, config, self.metadata, self.positions, self.metrics)
        self.needs_stable_offsets = config.reads_committed
        """True to begin only where no open transaction may still commit offsets (KIP-447)."""
        self.commits = None if config.group_id is None else self._commits_of(config.group_id)
        """The part that commits and fetches the group's offsets; None without group_id."""
        subject = Subject("consumer", self.read_metrics, self.metrics.network, self._labels)
        self.reporter = Reporter(runtime, config, self.metadata, subject)
        """Pushes the consumer's metrics to brokers."""
        self._starting = asyncio.Lock()
        self.is_started = False
        self.is_closing = False
        """True once the user has called `close`: polls are refused, a listener may still commit."""
        self.is_closed = False

    def _commits_of(self, group_id: str) -> Commits:
        coordinator = Coordinator(
            self.runtime, self.config, self.metadata, group_id, CoordinatorType.GROUP
        )
        commits = Commits(self.runtime, self.metadata, coordinator, self.metrics)
        commits.group_instance_id = self.config.group_instance_id
        self.fetcher.lookups.ask_group = lambda partitions, timeout_ms: commits.fetch(
            partitions, timeout_ms=timeout_ms, is_stable=self.needs_stable_offsets
        )
        return commits

    def read_metrics(self) -> dict[str, float]:
        """Return the consumer's metrics, by the names that Kafka's consumer uses."""
        return self.metrics.snapshot(self.runtime.monotonic_ms()) | self.progress.measured()

    def _labels(self) -> dict[str, str | None]:
        """Return the attributes of the consumer that KIP-714 names."""
        membership = None if self.commits is None else self.commits.membership
        return {
            "client_rack": self.config.client_rack,
            "group_id": self.config.group_id,
            "group_instance_id": self.config.group_instance_id,
            "group_member_id": None if membership is None else membership.member_id,
        }

    # -- life

    async def start(self) -> bool:
        """Connect to the cluster; return False if an earlier call has done so.

        Raise BootstrapError after bootstrap_timeout_ms, ClientClosed if the consumer is closed. A
        consumer whose start failed is closed.
        """
        async with self._starting:
            if self.is_closed:
                raise ClientClosed(CLOSED)
            if self.is_started:
                return False
            try:
                await self.metadata.start()
                if self.is_closed:
                    raise ClientClosed(CLOSED)
            except BaseException:
                self.is_closed = True
                await self.disconnect()
                raise
            self.fetcher.start()
            self.is_started = True
            return True

    async def list_offsets(
        self, timestamps: Mapping[TopicPartition, int], timeout_ms: int
    ) -> dict[TopicPartition, ListedOffset]:
        """Look up offsets by timestamp at this consumer's isolation level."""
        level = self.config.isolation_number
        return await list_offsets(
            self.metadata, timestamps, timeout_ms=timeout_ms, isolation_level=level
        )

    def assign(self, partitions: Iterable[TopicPartition], *, start: int | None) -> None:
        """Read these partitions from now on.

        Newly assigned ones without a commit start at the timestamp `start`; see
        `PartitionState.looking_for`.
        """
        self.positions.assign(partitions, start=start)
        self.check_usable()
        self.fetcher.on_positions_changed()

    def check_usable(self) -> None:
        """Raise ClientClosed before `start` and after `close`."""
        if self.is_closed:
            raise ClientClosed(CLOSED)
        if not self.is_started:
            raise ClientClosed("the consumer is not started")

    def check_pollable(self) -> None:
        """Raise ClientClosed before `start`, and from the moment the consumer begins to close."""
        self.check_usable()
        if self.is_closing:
            raise ClientClosed("the consumer is closing")

    def end_polls(self) -> None:
        """Make the poll under way, and every later one, raise ClientClosed."""
        self.is_closing = True
        self.fetcher.buffer.arrived.set()

    async def disconnect(self, timeout_ms: int | None = None) -> None:
        """Push metrics for the last time if they are wanted, stop fetching, close connections."""
        await self.reporter.close(timeout_ms)
        await self.fetcher.close()
        await self.metadata.close()
        await self.metadata.pool.close()
