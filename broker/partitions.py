"""The partitions that this broker hosts, and how changes of the metadata affect them.

`Partitions` finds, makes and deletes partitions, and takes those of a failed directory offline. A
metadata delta is applied to deleted partitions first, then to partitions that this broker leads,
then to those that it follows, so that no part acts on a state between the two images.
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from ..protocol.control.image import Delta, MetadataImage, PartitionState
from ..protocol.control.records import TOPIC
from ..protocol.errors import ErrorCode
from ..protocol.types import TopicIdPartition, TopicPartition
from ..runtime.errors import LogDirectoryFailed
from ..runtime.runtime import Runtime
from ..storage.directory import LogDirectory
from ..storage.topic_config import TopicConfig
from .config import BrokerConfig
from .deadlines import Deadlines
from .partition.failing import Failing
from .partition.group_flush import GroupFlush
from .partition.host import Host
from .partition.leading import carry_out
from .partition.log_store import LogStore
from .partition.partition import Partition
from .partition.traffic import Traffic
from .replica.leader import ProposeIsr
from .replica.lease import LeaderLease
from .replica.silence import FollowersHeard
from .replica.state import PartitionMetadata
from .replication.fetchers import ReplicaFetchers

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """The parts of the broker that its partitions use."""

    fetchers: ReplicaFetchers
    lease: LeaderLease
    config_of: Callable[[MetadataImage, str], TopicConfig]
    """Returns the settings of a topic, including defaults, by image and topic name."""
    broker_value: Callable[[MetadataImage, str], int]
    """Returns the present value of one of the broker's own dynamic settings, by image and key."""
    propose: Callable[[Partition, ProposeIsr], None]
    """Sends an ISR change to the controller."""
    on_electing: Callable[[list[Partition]], None]
    """Called with the replicas whose log ends the controller needs to elect a leader."""
    on_directory_failed: Callable[[LogDirectory], None]
    """Called once for each directory that fails; `LogStore.online` has the remaining ones."""
    on_replicas_lost: Callable[[list[TopicIdPartition]], None]
    """Called with replicas that are offline here but not yet in the metadata."""
    traffic: Traffic | None = None
    """The counts by topic; None if no metrics are served."""


class Partitions:
    """The partitions of this broker, by topic id and index."""

    def __init__(
        self,
        runtime: Runtime,
        config: BrokerConfig,
        store: LogStore,
        wheel: Deadlines,
        links: Links,
    ) -> None:
        self._me = config.node_id
        self.store = store
        self._links = links
        self.fetchers = links.fetchers
        self.image = MetadataImage()
        self.on_role_changed: list[Callable[[Partition], None]] = []
        """Called with each replica that got a new leader epoch, went offline or was removed."""
        self.traffic = links.traffic
        self.group_flush = GroupFlush(runtime, links.fetchers.tell)
        self.heard = FollowersHeard()
        self.host = Host(
            broker_id=config.node_id,
            wheel=wheel,
            monotonic_ms=runtime.monotonic_ms,
            wall_ms=runtime.wall_ms,
            lag_max_ms=config.replica_lag_time_max_ms,
            propose=links.propose,
            on_storage_error=lambda partition, error: self.failing.on_storage_error(
                partition, error
            ),
            group_flush=self.group_flush,
            on_role_changed=self._tell_role,
            lease=links.lease,
            traffic=links.traffic,
        )
        self._partitions: dict[TopicIdPartition, Partition] = {}
        self._by_name: dict[tuple[str, int], Partition] = {}
        self._directory_of: dict[Partition, LogDirectory] = {}
        self._configs: dict[bytes, TopicConfig] = {}
        self.failing = Failing(
            store,
            self._directory_of,
            self._take_offline,
            on_directory_failed=links.on_directory_failed,
            on_replicas_lost=links.on_replicas_lost,
        )
        self._is_leaving = False

    def __iter__(self) -> Iterator[Partition]:
        return iter(self._partitions.values())

    def __len__(self) -> int:
        return len(self._partitions)

    # Finding.

    def get(self, topic_id: bytes, index: int) -> Partition | ErrorCode:
        """Return the replica on this broker, or an error if there is none."""
        found = self._partitions.get((topic_id, index))  # type: ignore[call-overload]
        if found is not None:
            return found  # type: ignore[no-any-return]
        if topic_id not in self.image.topics:
            return ErrorCode.UNKNOWN_TOPIC_ID
        return self._not_here(topic_id, index)

    def find(self, topic: str, index: int) -> Partition | ErrorCode:
        """Return the replica as `get` does, by the topic's name, for requests without topic ids."""
        found = self._by_name.get((topic, index))
        if found is not None:
            return found
        topic_id = self.image.topic_ids.get(topic)
        if topic_id is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return self._not_here(topic_id, index)

    def _not_here(self, topic_id: bytes, index: int) -> ErrorCode:
        if self.image.partition(topic_id, index) is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.NOT_LEADER_OR_FOLLOWER

    def directory_of(self, partition: Partition) -> LogDirectory:
        """Return the directory of the partition's files."""
        return self._directory_of[partition]

    def note_moved(self, partition: Partition, directory: LogDirectory) -> None:
        """Note that the partition's files have just been moved to `directory`."""
        self._directory_of[partition] = directory
        self.host.moved[partition] = None
        self.host.group_flush.catch_up(partition)

    # Writing.

    def write_staged(self) -> None:
        """Write the batches that were staged since the last call, by one writev per partition.

        The connection calls this at the end of every read event, before any answer is sent. Then
        every staged `Appended` has the result of its write, which is final for acks=1.
        """
        dirty = self.host.dirty
        if dirty:
            self.host.dirty = []
            for partition in dirty:
                partition.write_staged()

    # Start.

    async def load(self) -> None:
        """Open every log on disk, and recover those not closed cleanly. Must be called first."""
        await self.store.load(lambda topic: self._links.config_of(self.image, topic))

    # Metadata.

    async def apply_delta(self, delta: Delta, image: MetadataImage) -> None:
        """Apply a metadata delta, whose result is `image`, to the partitions of this broker."""
        self.write_staged()
        self.image = image
        self._retire_gone(delta, image)
        if delta.changed_brokers or delta.is_snapshot:
            self._note_brokers(delta)
        if delta.changed_configs or delta.is_snapshot:
            self._note_configs(delta)
        keys = self._touched(delta, image)
        me = self._me
        followed: list[Partition] = []
        lost: list[TopicIdPartition] = []
        for key, state in keys:
            partition = self._partition(key, state)
            if partition is None:
                continue
            if partition.offline_because and me not in state.offline:
                lost.append(key)
            if state.leader != me:
                followed.append(partition)
            else:
                self.fetchers.unfollow(partition)
                self._tell(partition, state)
        for partition in followed:
            self._follow(partition, image)
        self._links.on_replicas_lost(lost)
        self._links.on_electing(
            [partition for partition in followed if self.is_electing(partition)]
        )
        await self.fetchers.settle()

    def is_electing(self, partition: Partition) -> bool:
        """True if the controller needs log ends to elect a leader, and this replica is online."""
        state = self.image.partition(*partition.key)
        return state is not None and state.electing and not partition.offline_because

    def _touched(
        self, delta: Delta, image: MetadataImage
    ) -> list[tuple[TopicIdPartition, PartitionState]]:
        """Return the partitions that may have changed and that have a replica on this broker."""
        me = self._me
        if delta.is_snapshot:
            every: Iterable[tuple[TopicIdPartition, PartitionState]] = image.partitions()
        else:
            every = (
                (key, state)
                for key in delta.changed_partitions
                if (state := image.partition(*key)) is not None
            )
        return [(key, state) for key, state in every if me in state.replicas]

    def _retire_gone(self, delta: Delta, image: MetadataImage) -> None:
        """Delete replicas whose partition is deleted or no longer assigned to this broker."""
        gone: list[Partition] = []
        if delta.is_snapshot or delta.deleted_topics:
            gone = [p for p in self if image.partition(p.topic_id, p.index) is None]
        me = self._me
        for key in [*self._partitions] if delta.is_snapshot else delta.changed_partitions:
            state, partition = image.partition(*key), self._partitions.get(key)
            if partition is not None and state is not None and me not in state.replicas:
                gone.append(partition)
        for partition in gone:
            self._retire(partition)
        for topic_id in delta.deleted_topics:
            self._configs.pop(topic_id, None)
        if delta.is_snapshot or delta.deleted_topics:
            self.store.choices.keep_known(image)

    def _retire(self, partition: Partition) -> None:
        name = TopicPartition(partition.topic, partition.index)
        log.info("%r: deleted here", partition)
        del self._partitions[partition.key]
        del self._by_name[name]
        self.fetchers.unfollow(partition)
        partition.go_offline(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        self.host.moved.pop(partition, None)
        self.store.delete(self._directory_of.pop(partition), name)

    def _note_brokers(self, delta: Delta) -> None:
        brokers = self.image.brokers.values()
        known = self.host.brokers
        known.epochs = {each.broker_id: each.broker_epoch for each in brokers}
        known.eligible = {each.broker_id: each.broker_epoch for each in brokers if each.is_active}
        me = self.image.brokers.get(self._me)
        self._is_leaving = me is not None and me.in_controlled_shutdown
        for partition in self:
            leader = partition.leader
            if leader is not None:
                carry_out(partition, leader.on_brokers_changed(self.host.monotonic_ms()))
            if self._is_leaving:
                self._stop_in_vain(partition)
        self.fetchers.on_brokers_changed(delta.changed_brokers)

    def _note_configs(self, delta: Delta) -> None:
        concerns_all = delta.touches_broker_settings
        if concerns_all:
            value_of, throttles = self._links.broker_value, self.host.throttles
            throttles.leader.rate = value_of(self.image, "leader.replication.throttled.rate")
            throttles.follower.rate = value_of(self.image, "follower.replication.throttled.rate")
            key = "replica.alter.log.dirs.io.max.bytes.per.second"
            throttles.moves.rate = value_of(self.image, key)
            throttles.forward.rate = value_of(self.image, "minikafka.forward.rate.bytes")
            self._configs.clear()
        # Also those of topics without a replica here: one may come back.
        for kind, name in delta.changed_configs:
            if kind == TOPIC and (topic_id := self.image.topic_ids.get(name)) is not None:
                self._configs.pop(topic_id, None)
        for partition in self:
            if concerns_all or (TOPIC, partition.topic) in delta.changed_configs:
                partition.on_config(self._config(partition.topic_id, partition.topic))

    def _config(self, topic_id: bytes, topic: str) -> TopicConfig:
        config = self._configs.get(topic_id)
        if config is None:
            config = self._configs[topic_id] = self._links.config_of(self.image, topic)
        return config

    # Partitions.

    def _partition(self, key: TopicIdPartition, state: PartitionState) -> Partition | None:
        """Return the partition, and make it if it is new; None if no directory can store it."""
        partition = self._partitions.get(key)
        if partition is not None:
            return partition
        topic = self.image.topics[key.topic_id]
        name = TopicPartition(topic.name, key.partition)
        try:
            partition = self._make(key, name)
        except LogDirectoryFailed as error:
            log.error("%s", error)
            return None
        if partition is not None:
            self._partitions[key] = self._by_name[name] = partition
        return partition

    def _make(self, key: TopicIdPartition, name: TopicPartition) -> Partition | None:
        config = self._config(key.topic_id, name.topic)
        stored = self.store.claim(key.topic_id, name, config)
        if stored is None:
            return None
        directory = stored.directory
        checkpointed = directory.checkpoints.high_watermarks.get(name, 0)
        partition = Partition(self.host, key, name, stored.log, checkpointed)
        self._directory_of[partition] = directory
        if directory not in self.store.online:
            partition.go_offline(ErrorCode.KAFKA_STORAGE_ERROR)
        return partition

    def _tell(self, partition: Partition, state: PartitionState) -> None:
        config = self._config(partition.topic_id, partition.topic)
        partition.on_metadata(PartitionMetadata.of(state, config))

    def _follow(self, partition: Partition, image: MetadataImage) -> None:
        state = image.partition(partition.topic_id, partition.index)
        assert state is not None
        epoch_before = partition.leader_epoch
        self._tell(partition, state)
        if partition.follower is not None and partition.leader_epoch != epoch_before:
            self.fetchers.follow(partition)
        if self._is_leaving:
            self._stop_in_vain(partition)

    def _stop_in_vain(self, partition: Partition) -> None:
        """Stop following, during a controlled shutdown, if this replica is not in the ISR."""
        if self._me not in partition.metadata.isr:
            self.fetchers.unfollow(partition)

    def _tell_role(self, partition: Partition) -> None:
        for tell in self.on_role_changed:
            tell(partition)

    def _take_offline(self, partition: Partition) -> None:
        self.fetchers.unfollow(partition)
        self.host.moved.pop(partition, None)
        partition.go_offline(ErrorCode.KAFKA_STORAGE_ERROR)
