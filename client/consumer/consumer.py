"""The asyncio consumer: what users call.

Here are its settings and its life. How it reads, what, from where, and what it commits is in the
classes it is made of; `Fetcher` keeps records coming.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Generic, Self, Unpack

from ...protocol.messages.find_coordinator import CoordinatorType
from ...protocol.types import TopicPartition
from ...runtime.runtime import Runtime, SystemRuntime
from ..config import ConsumerConfig, ConsumerSettings, Servers, configured
from ..coordinator import Coordinator
from ..errors import ClientClosed
from ..group_types import OffsetAndMetadata
from ..metadata import Metadata, pool_for
from ..milliseconds import check_ms
from ..records import ConsumerRecord
from ..serialization import Deserializer, K, V
from .commits import Commits
from .consumer_metrics import ConsumerMetrics
from .fetcher import Fetcher
from .interceptors import ConsumerInterceptor
from .polling import Polling
from .positions import RESETS, Positions
from .subscribing import CLOSE_TIMEOUT_MS, NO_LISTENER

log = logging.getLogger(__name__)


class Consumer(Polling[K, V], Generic[K, V]):
    """Reads records of topics.

        async with Consumer("localhost:9092", group_id="billing") as consumer:
            await consumer.subscribe(["flights"])
            async for record in consumer:
                print(record.partition, record.offset, record.key, record.value)

    Or in batches: `for record in await consumer.poll(timeout_ms=1000): ...`. Records of one
    partition come in order of offset, each once; there is no order across partitions. Reading goes
    on by itself when leaders move. Settings are keyword arguments named as Kafka's, with
    underscores; an unknown one is a ConfigError that names the nearest.

    With group_id, members share the partitions and go on where the group has committed. By default
    polling commits what earlier polls returned: a crash has records read again, none is skipped.
    Leaving the block commits too, unless an exception leaves it: then what the last poll returned
    is read again.

    Keys and values are bytes, or what `key_deserializer` and `value_deserializer` make of them.
    """

    def __init__(
        self,
        bootstrap_servers: Servers | None = None,
        *,
        key_deserializer: Deserializer[K] | None = None,
        value_deserializer: Deserializer[V] | None = None,
        interceptors: Sequence[ConsumerInterceptor[K, V]] = (),
        runtime: Runtime | None = None,
        **settings: Unpack[ConsumerSettings],
    ) -> None:
        self.config = configured(ConsumerConfig, bootstrap_servers, settings)
        self._runtime = runtime or SystemRuntime("consumer")
        self._pool = pool_for(self._runtime, self.config)
        self._metadata = Metadata(
            self._runtime,
            self.config,
            self._pool,
            auto_create=self.config.allow_auto_create_topics,
        )
        has_group = self.config.group_id is not None
        self._positions = Positions(
            reset=RESETS[self.config.auto_offset_reset], has_group=has_group
        )
        self._key_deserializer = key_deserializer
        self._value_deserializer = value_deserializer
        self._interceptors = list(interceptors)
        self._metrics = ConsumerMetrics(self._runtime.monotonic_ms())
        self._subscription, self._pattern, self._listener = (), None, NO_LISTENER
        self._coordinator = self._commits = self._group = self._auto_commit = None
        self._auto_commit_at_ms = 0
        self._fetcher: Fetcher | None = None
        self._iterated: deque[ConsumerRecord[K, V]] = deque()
        self._in_hand: dict[TopicPartition, OffsetAndMetadata] = {}
        """Where each partition of the newest poll's records was before it."""
        self._is_closed = self._is_closing = self._is_started = self._is_polling = False

    @classmethod
    def from_config(cls, config: Mapping[str, Any], **arguments: Any) -> Self:
        """Make a consumer from a mapping with Kafka's dotted keys, and arguments as above."""
        return cls(**dict(config), **arguments)

    # -- life

    async def start(self) -> Self:
        """Reach the cluster; `async with` does it. BootstrapError after bootstrap_timeout_ms."""
        if self._is_closed:
            raise ClientClosed("the consumer is closed")
        if self._fetcher is None:
            try:
                await self._metadata.start()
            except BaseException:
                await self._pool.close()
                raise
            self._fetcher = Fetcher(
                self._runtime, self.config, self._metadata, self._positions, self._metrics
            )
            if self.config.group_id is not None:
                self._start_committing(self.config.group_id, self._fetcher)
            self._metadata.listen(self._on_metadata)
            self._fetcher.start()
            self._is_started = True
        return self

    def _start_committing(self, group_id: str, fetcher: Fetcher) -> None:
        self._coordinator = Coordinator(
            self._runtime, self.config, self._metadata, group_id, CoordinatorType.GROUP
        )
        self._commits = commits = Commits(
            self._runtime, self._metadata, self._coordinator, self._metrics
        )
        commits.group_instance_id = self.config.group_instance_id
        is_stable = self.config.isolation_level == "read_committed"
        fetcher.lookups.ask_group = lambda partitions, timeout_ms: commits.fetch(
            partitions, timeout_ms=timeout_ms, is_stable=is_stable
        )
        self._auto_commit_at_ms = self._runtime.monotonic_ms() + self.config.auto_commit_interval_ms

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is not None:
            self.forget_in_hand()
        await self.close()

    def forget_in_hand(self) -> None:
        """What the newest poll returned was not dealt with: do not commit it by closing."""
        for partition, before in self._in_hand.items():
            state = self._positions.states.get(partition)
            if state is not None and state.is_known and state.position >= before.offset:
                state.jump(before.offset, before.leader_epoch)
        self._in_hand.clear()
        self._iterated.clear()

    async def close(self, timeout_ms: int = CLOSE_TIMEOUT_MS) -> None:
        """End: commit what polls returned (where that is automatic), leave the group, disconnect.

        A poll under way raises ClientClosed. Takes `timeout_ms` at most where the coordinator
        cannot be reached.
        """
        check_ms(timeout_ms)
        if self._is_closing:
            return
        self._is_closing = True  # No poll any more; but whoever loses partitions may still commit.
        try:
            if self._fetcher is not None:
                self._fetcher.buffer.arrived.set()
                await self._leave(timeout_ms, commits=True)
        finally:
            self._is_closed = True
            await self._disconnect()

    async def _disconnect(self) -> None:
        if self._auto_commit is not None:
            self._auto_commit.cancel()
            await asyncio.wait([self._auto_commit])
        if self._fetcher is not None:
            await self._fetcher.close()
        await self._metadata.close()
        await self._pool.close()

    # -- what was counted

    def metrics(self) -> dict[str, float]:
        """Give what the consumer has counted, by the names Kafka's consumer uses.

        Totals since it was made; rates, averages and maxima are of the last 30 to 60 seconds, NaN
        where there was nothing.
        """
        found = self._metrics.snapshot(self._runtime.monotonic_ms())
        lags = [self._lag_of(state) for state in self._positions.states.values()]
        known = [lag for lag in lags if lag is not None]
        found["records-lag-max"] = max(known, default=float("nan"))
        found["assigned-partitions"] = len(lags)
        return found
