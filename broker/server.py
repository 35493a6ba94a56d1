"""A running broker: how its parts are put together, started and stopped.

Order of start: directories (lock, identity), sockets bound, logs loaded while the controller is
told of us, metadata caught up, doors opened, unfenced. Order of stop: leadership handed over,
doors, connections, everything that works by itself, logs flushed and closed, controller left.
"""

import asyncio
import logging
from collections.abc import Awaitable, Mapping
from typing import TypeVar

from ..protocol.control.messages import RegisterBroker
from ..protocol.control.records import SUPPORTED_FEATURES
from ..protocol.errors import ApiError, ErrorCode
from ..runtime.config import from_mapping
from ..runtime.daemon import Stop
from ..runtime.errors import ConfigError, MinikafkaError
from ..runtime.runtime import Runtime
from ..storage.directory import LogDirectory
from .admission.doors import share_descriptors
from .api.table import make_apis
from .assembly import Surroundings, make_edge, make_peers, make_sessions
from .config import BrokerConfig, controller_addresses, inter_broker_listener
from .control.controller_channel import ChannelSettings, ControllerChannel
from .control.metadata_follower import MetadataFollower
from .control.metadata_position import MetadataConfig, MetadataLost, MetadataPosition
from .deadlines import Deadlines
from .edge import Edge
from .net.connection import Connection
from .net.listeners import Listeners
from .partitions import Partitions, PartitionSettings
from .publishing import Publishing
from .replication.fetcher import FetchSettings
from .replication.fetchers import ReplicaFetchers
from .replication.isr_proposals import IsrProposals
from .replication.log_end_reports import LogEndReports
from .replication.lost_replicas import LostReplicas
from .replication.repair import Repairs
from .settings import Settings
from .topic_defaults import TopicDefaults
from .upkeep.compaction import Compaction, CompactionConfig
from .upkeep.scrub import Scrub, ScrubSettings
from .upkeep.upkeep import Upkeep, UpkeepSettings, close_directories
from .whereabouts import Whereabouts

T = TypeVar("T")

HAND_OVER_MS = 10_000
"""How long a stop waits for the controller to move what is led here."""
HAND_OVER_ALONE_MS = 500
"""The same where no controller can be reached; it may be back at any moment."""

log = logging.getLogger(__name__)


class Broker:
    """Everything that one broker process runs."""

    def __init__(
        self,
        runtime: Runtime,
        settings: Settings,
        stop: Stop,
        directories: list[LogDirectory],
        listeners: Listeners,
    ) -> None:
        """Use `start`."""
        config = settings.config
        self.runtime = runtime
        self.config = config
        self._stop = stop
        self._listeners = listeners
        self._refused: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.deadlines = Deadlines(runtime)
        defaults = TopicDefaults(config.node_id, settings.properties)
        self.partitions = Partitions(
            runtime,
            PartitionSettings(
                broker_id=config.node_id,
                lag_max_ms=config.replica_lag_time_max_ms,
                config_of=defaults.config_of,
                broker_value=defaults.broker_value,
            ),
            directories,
            self.deadlines,
        )
        self.channel = ControllerChannel(
            runtime,
            self._channel_settings(),
            self._registration(),
            config.cluster_id or directories[0].cluster_id,
        )
        given_up_at = from_mapping(MetadataConfig, settings.properties).given_up_at
        self.position = MetadataPosition(lambda: self.partitions.online, given_up_at=given_up_at)
        self.follower = MetadataFollower(
            runtime,
            self.channel,
            lambda delta, image: publishing.publish(delta, image),
            self.position,
            self._on_metadata_lost,
        )
        self.proposals = IsrProposals(runtime, self.channel, config.node_id)
        self.log_ends = LogEndReports(runtime, self.channel, self.partitions.is_electing)
        self.lost = LostReplicas(
            runtime, self.channel, config.log_dir_failure_timeout_ms, self._stop.crash
        )
        self.whereabouts = Whereabouts(self.follower, config.node_id, inter_broker_listener(config))
        self.fetchers = ReplicaFetchers(runtime, self._fetch_settings(), self.whereabouts.peer)
        every = self._upkeep_settings(defaults)
        self.upkeep = Upkeep(runtime, every, self.partitions, self.position.save)
        self.scrub = Scrub(runtime, _scrub_settings(config), self.partitions)
        self.compaction = Compaction(
            runtime,
            lambda: defaults.table_of(self.follower.image, CompactionConfig),
            self.partitions,
        )
        self.repairs = Repairs(runtime, config.node_id, self.partitions.find, self.whereabouts.peer)
        self.peers = make_peers(runtime, self.whereabouts)
        self.edge = self._make_edge(settings, defaults)
        self._apis = make_apis(make_sessions(runtime, config))
        publishing = Publishing(self.partitions, self.edge, self.peers, self.compaction)
        self._introduce()

    @classmethod
    async def start(cls, runtime: Runtime, settings: Settings, stop: Stop) -> "Broker":
        """Start everything; ConfigError or StorageError when that is not possible."""
        directories: list[LogDirectory] = []
        listeners = Listeners(settings.config)
        broker: Broker | None = None
        try:
            await _open_directories(runtime, settings, directories)
            made: list[Broker] = []
            await listeners.open(lambda name: made[0].connect(name))
            await listeners.resolve_host()
            broker = cls(runtime, settings, stop, directories, listeners)
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

    def connect(self, listener: str) -> Connection:
        """Take up a client that dialled the named listener."""
        return Connection(self.edge, listener, self._apis)

    def ready(self) -> Mapping[str, object]:
        """Node id and bound listeners."""
        return {"node_id": self.config.node_id, "listeners": self._listeners.bound()}

    async def stop(self) -> None:
        """Hand over what is led here, then flush, and leave the mark of a clean stop."""
        within_ms = HAND_OVER_MS if self.channel.is_connected else HAND_OVER_ALONE_MS
        hands_over = self.config.controlled_shutdown_enable
        if hands_over and not await self.channel.shut_down(within_ms):
            log.warning("the controller did not let us go within %d ms", within_ms)
        await self._listeners.close()
        self.edge.doors.close()
        await self._end_work(keep_channel=True)
        await self.position.save()
        await close_directories(self.partitions, broker_epoch=self.channel.broker_epoch)
        await self.channel.close()
        self.deadlines.close()

    # Start, step by step.

    async def _live(self) -> None:
        self.channel.start()
        await self.partitions.load()
        await self._unless_refused(self.channel.wait_until_registered())
        await self._join()
        self.follower.start()
        await self._unless_refused(self.follower.wait_until_caught_up())
        self.partitions.quarantine_strays()
        await self.position.save()
        await self._listeners.start()
        self.upkeep.start()
        self.scrub.start()
        self.compaction.start()
        self.channel.on_recovered()
        await self._unless_refused(self.channel.wait_until_unfenced())
        self.edge.producer_ids.stock_up()

    async def _join(self) -> None:
        """The controller has said which cluster this is; every directory must be of it."""
        cluster_id = self.channel.cluster_id
        assert cluster_id is not None
        for directory in self.partitions.directories:
            await directory.join(cluster_id)

    async def _unless_refused(self, waiting: Awaitable[T]) -> T:
        """Wait, but not for a controller that will never have us."""
        task = asyncio.ensure_future(waiting)
        await asyncio.wait((task, self._refused), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            task.cancel()
            await self._refused
        return await task

    def _introduce(self) -> None:
        """Tell the parts of each other."""
        channel, partitions = self.channel, self.partitions
        channel.metadata_offset = lambda: self.follower.image.offset
        channel.offline_directory_ids = lambda: partitions.offline_directory_ids
        channel.on_refused = self._on_refused
        partitions.propose = self.proposals.propose
        partitions.host.lease = channel.lease
        partitions.fetchers = self.fetchers
        partitions.group_flush.on_follower_flushed = self.fetchers.tell
        partitions.failing.on_directory_failed = self._on_directory_failed
        for directory in partitions.directories:
            directory.on_damaged = self.repairs.on_damaged
        partitions.failing.on_replicas_lost = self.lost.lose
        partitions.on_electing = self.log_ends.ask

    def _make_edge(self, settings: Settings, defaults: TopicDefaults) -> Edge:
        return make_edge(
            Surroundings(
                runtime=self.runtime,
                config=self.config,
                file_settings=settings.properties,
                topic_defaults=defaults,
                deadlines=self.deadlines,
                metadata=self.follower,
                whereabouts=self.whereabouts,
                controller=self.channel,
                partitions=self.partitions,
                peers=self.peers,
                lease=self.channel.lease,
            )
        )

    def _registration(self) -> RegisterBroker:
        config, directories = self.config, self.partitions.directories
        epochs = {each.clean_broker_epoch for each in directories}
        # A stop was clean only if every directory says so, of one and the same run.
        clean = directories[0].clean_broker_epoch if len(epochs) == 1 else None
        return RegisterBroker(
            broker_id=config.node_id,
            incarnation_id=self.runtime.rng.randbytes(16),
            directory_ids=tuple(each.directory_id for each in directories),
            endpoints=self._listeners.endpoints(),
            rack=config.broker_rack,
            features=dict(SUPPORTED_FEATURES),
            previous_broker_epoch=-1 if clean is None else clean,
        )

    def _channel_settings(self) -> ChannelSettings:
        config = self.config
        return ChannelSettings(
            addresses=controller_addresses(config),
            heartbeat_interval_ms=config.broker_heartbeat_interval_ms,
            session_timeout_ms=config.broker_session_timeout_ms,
            request_timeout_ms=config.request_timeout_ms,
        )

    def _upkeep_settings(self, defaults: TopicDefaults) -> UpkeepSettings:
        config, expiration = self.config, "producer.id.expiration.ms"
        return UpkeepSettings(
            checkpoint_interval_ms=config.replica_high_watermark_checkpoint_interval_ms,
            retention_interval_ms=config.log_retention_check_interval_ms,
            lag_max_ms=config.replica_lag_time_max_ms,
            flush_interval_ms=config.log_flush_scheduler_interval_ms,
            producer_expiration_ms=lambda: defaults.broker_value(self.follower.image, expiration),
        )

    def _fetch_settings(self) -> FetchSettings:
        config = self.config
        return FetchSettings(
            broker_id=config.node_id,
            broker_epoch=lambda: self.channel.broker_epoch,
            partition_max_bytes=config.replica_fetch_max_bytes,
            response_max_bytes=config.replica_fetch_response_max_bytes,
            min_bytes=config.replica_fetch_min_bytes,
            max_wait_ms=config.replica_fetch_wait_max_ms,
            socket_timeout_ms=config.replica_socket_timeout_ms,
            fetchers_per_leader=config.num_replica_fetchers,
            cluster_id=lambda: self.channel.cluster_id,
        )

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

    def _on_directory_failed(self, directory: LogDirectory) -> None:
        if not self.partitions.online:
            self._stop.crash(f"no log directory is left: {directory.path} failed too")

    async def _end_work(self, *, keep_channel: bool = False) -> None:
        """End everything that works by itself."""
        await self.follower.close()
        await self.upkeep.close()
        await self.scrub.close()
        await self.compaction.close()
        await self.repairs.close()
        await self.fetchers.close()
        await self.proposals.close()
        await self.log_ends.close()
        await self.lost.close()
        await self.edge.transactions.close()
        await self.peers.close()
        await self.edge.producer_ids.close()
        await self.edge.groups.close()
        await self.partitions.group_flush.close()
        if not keep_channel:
            self.edge.doors.close()
            await self.channel.close()
            self.deadlines.close()
            self._refused.cancel()


async def _open_directories(
    runtime: Runtime, settings: Settings, opened: list[LogDirectory]
) -> None:
    """Lock and identify every directory; they must agree on the cluster."""
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


def _scrub_settings(config: BrokerConfig) -> ScrubSettings:
    return ScrubSettings(
        interval_ms=config.log_scrub_interval_ms,
        bytes_per_second=config.log_scrub_bytes_per_second,
    )
