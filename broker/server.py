"""A running broker: starts and stops the parts that `assembly.py` makes.

Start: lock and identify the directories, bind the sockets, register with the controller while the
logs load, catch up with the metadata, accept connections, be unfenced. Stop: hand over leadership,
close listeners and connections, end background work, flush and close logs, leave the controller.
"""

import asyncio
import logging
from collections.abc import Awaitable, Mapping
from typing import Protocol, TypeVar

from ..protocol.errors import ApiError, ErrorCode
from ..runtime.daemon import Stop
from ..runtime.errors import ConfigError, MinikafkaError
from ..runtime.runtime import Runtime
from ..security.listener import Listener
from ..storage.directory import LogDirectory
from .admission.doors import share_descriptors
from .assembly import Alarms, Ground, assemble
from .control.metadata_position import MetadataLost
from .net.arrival import Arriving
from .net.connection import Connection
from .net.greeting import Greetings
from .net.listeners import Listeners
from .settings import Settings
from .upkeep.upkeep import close_directories

T = TypeVar("T")

HAND_OVER_MS = 10_000
"""Milliseconds that a stop waits for the controller to move leadership to other brokers."""
HAND_OVER_ALONE_MS = 500
"""Milliseconds that a stop waits while no controller is connected, because one may come back."""

log = logging.getLogger(__name__)


class Closable(Protocol):
    """A part whose background work must be ended."""

    async def close(self) -> None:
        """End the part's background work."""


class Broker:
    """Everything that one broker process runs."""

    def __init__(
        self,
        ground: Ground,
        stop: Stop,
        directories: list[LogDirectory],
        listeners: Listeners,
    ) -> None:
        """Make the parts but start none. Use `Broker.start` instead."""
        self.runtime = ground.runtime
        self.config = ground.settings.config
        self._stop = stop
        self._listeners = listeners
        self._refused: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        alarms = Alarms(self._on_refused, self._on_metadata_lost, stop.crash)
        self.parts = assemble(ground, directories, listeners.endpoints(), alarms)
        self._greetings = Greetings(self.parts.edge, listeners.tls)

    @classmethod
    async def start(cls, runtime: Runtime, settings: Settings, stop: Stop) -> "Broker":
        """Start a broker, and return it once the controller has unfenced it.

        Raise ConfigError or StorageError if it cannot start.
        """
        ground = Ground.of(runtime, settings)
        directories: list[LogDirectory] = []
        listeners = Listeners(runtime, settings)
        broker: Broker | None = None
        try:
            await _open_directories(runtime, settings, directories)
            made: list[Broker] = []
            await listeners.open(lambda listener: made[0].connect(listener))
            await listeners.resolve_host()
            broker = cls(ground, stop, directories, listeners)
            made.append(broker)
            await broker._live()
        except BaseException:
            await listeners.close()
            if broker is not None:
                await broker._end_work()
            for directory in directories:
                directory.abandon()
            raise
        return broker

    def connect(self, listener: Listener) -> asyncio.BaseProtocol:
        """Make the protocol of a client that has connected to that listener."""
        parts = self.parts

        def make() -> Connection:
            return Connection(parts.edge, listener, parts.apis, parts.told_of.times)

        def serve() -> asyncio.BaseProtocol:
            has_tls = listener.security_protocol.has_tls
            return self._greetings.greet(listener, make) if has_tls else make()

        is_wide = parts.edge.entrance.is_wide
        return serve() if is_wide else Arriving(parts.edge, listener, serve)

    def ready(self) -> Mapping[str, object]:
        """Return the node id, the bound listeners and, if metrics are served, their address."""
        told: dict[str, object] = {
            "node_id": self.config.node_id,
            "listeners": self._listeners.bound(),
        }
        metrics = self.parts.metrics
        return told if metrics is None else told | {"metrics": metrics.address}

    async def stop(self) -> None:
        """Hand over leadership, end all work, flush the logs, and record the clean stop."""
        parts, channel = self.parts, self.parts.channel
        within_ms = HAND_OVER_MS if channel.is_connected else HAND_OVER_ALONE_MS
        hands_over = self.config.controlled_shutdown_enable
        if hands_over and not await channel.shut_down(within_ms):
            log.warning("the controller did not let us go within %d ms", within_ms)
        await self._listeners.close()
        self._greetings.close()
        parts.edge.entrance.close()
        parts.edge.doors.close()
        await self._end_work(keep_channel=True)
        await parts.position.save()
        await close_directories(parts.partitions, broker_epoch=channel.broker_epoch)
        await channel.close()
        parts.deadlines.close()

    # Start, step by step.

    async def _live(self) -> None:
        parts, channel = self.parts, self.parts.channel
        if parts.metrics is not None:
            await parts.metrics.open()
        if parts.edge.logins is not None:
            await parts.edge.logins.issuers.open()
        channel.start()
        await parts.partitions.load()
        await self._unless_refused(channel.wait_until_registered())
        await self._join()
        parts.follower.start()
        await self._unless_refused(parts.follower.wait_until_caught_up())
        parts.partitions.store.quarantine_strays()
        await parts.position.save()
        await self._listeners.start()
        parts.upkeep.start()
        parts.scrub.start()
        parts.compaction.start()
        channel.on_recovered()
        await self._unless_refused(channel.wait_until_unfenced())
        parts.edge.producer_ids.stock_up()

    async def _join(self) -> None:
        """Make every directory one of the cluster that the controller has named."""
        cluster_id = self.parts.channel.cluster_id
        assert cluster_id is not None
        for directory in self.parts.partitions.store.directories:
            await directory.join(cluster_id)

    async def _unless_refused(self, waiting: Awaitable[T]) -> T:
        """Return the awaited result; raise if the controller refuses this broker for good."""
        task = asyncio.ensure_future(waiting)
        await asyncio.wait((task, self._refused), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            task.cancel()
            await self._refused
        return await task

    # What happens while it runs.

    def _on_refused(self, error: ApiError) -> None:
        if self._refused.done():
            return
        if error.code is ErrorCode.INCONSISTENT_CLUSTER_ID:
            where = ",".join(self.config.log_dirs)
            refused: MinikafkaError = ConfigError("log.dirs", where, error.detail)
        else:
            refused = ConfigError("node.id", self.config.node_id, str(error))
        self._refused.set_exception(refused)

    def _on_metadata_lost(self, error: MetadataLost) -> None:
        self._stop.request(1, str(error))
        if not self._refused.done():
            self._refused.set_exception(error)

    async def _end_work(self, *, keep_channel: bool = False) -> None:
        """End all background work, and all connections unless `keep_channel`.

        `keep_channel` keeps the connections and the channel to the controller open.
        """
        parts, edge = self.parts, self.parts.edge
        working: tuple[Closable, ...] = (
            parts.follower,
            parts.upkeep,
            parts.scrub,
            parts.compaction,
            parts.forwarder,
            edge.audit_feed,
            edge.audit_writer,
            edge.moves,
            parts.repairs,
            parts.fetchers,
            parts.proposals,
            parts.log_ends,
            parts.lost,
            edge.transactions,
            parts.told_of.lag,
            edge.tracing,
            parts.peers,
            edge.producer_ids,
            edge.groups,
            parts.partitions.group_flush,
        )
        if parts.metrics is not None:
            await parts.metrics.close()
        if edge.logins is not None:
            await edge.logins.issuers.close()
        for each in working:
            await each.close()
        if not keep_channel:
            self._greetings.close()
            edge.entrance.close()
            edge.doors.close()
            await parts.channel.close()
            parts.deadlines.close()
            self._refused.cancel()


async def _open_directories(
    runtime: Runtime, settings: Settings, opened: list[LogDirectory]
) -> None:
    """Open and lock every log directory; all must belong to the same node and cluster."""
    config = settings.config
    cluster_id = config.cluster_id
    budget = share_descriptors(runtime.descriptor_limit(), len(config.log_dirs))
    for path in config.log_dirs:
        directory = await LogDirectory.open(
            runtime,
            path,
            node_id=config.node_id,
            cluster_id=cluster_id,
            max_open_files=budget.files,
        )
        opened.append(directory)
        cluster_id = cluster_id or directory.cluster_id
