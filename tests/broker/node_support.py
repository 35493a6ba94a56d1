"""One broker's partitions over a real directory, with metadata and time given by the test."""

from collections.abc import Callable, Iterable
from pathlib import Path

from minikafka.broker.deadlines import Deadlines
from minikafka.broker.partition.log_store import LogStore
from minikafka.broker.partition.partition import Partition
from minikafka.broker.partition.requests import Appended, FetchSpec
from minikafka.broker.partition.traffic import Traffic
from minikafka.broker.partitions import Links, Partitions
from minikafka.broker.replica.leader import ProposeIsr
from minikafka.broker.replica.lease import LeaderLease
from minikafka.broker.replication import following
from minikafka.broker.replication.fetchers import ReplicaFetchers
from minikafka.broker.topic_defaults import TopicDefaults
from minikafka.broker.upkeep.upkeep import close_directories
from minikafka.protocol.control.image import Delta, MetadataImage, PartitionState
from minikafka.protocol.control.messages import Endpoint
from minikafka.protocol.control.records import (
    TOPIC,
    BrokerChangeRecord,
    ConfigRecord,
    MetadataRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.fetch import EpochEndOffset, PartitionData
from minikafka.protocol.records import record_batch
from minikafka.protocol.types import TopicIdPartition
from minikafka.runtime.runtime import SystemRuntime
from minikafka.storage.directory import LogDirectory

from .channel_support import config_with

ME, B, C = 1, 2, 3
ORDERS = b"orders-topic-id!"
WALL_MS = 1_700_000_000_000


def batch(*values: bytes, producer: tuple[int, int, int] | None = None) -> bytearray:
    """A producer's batch; `producer` is (id, epoch, first sequence)."""
    builder = record_batch.BatchBuilder()
    for value in values:
        builder.append(WALL_MS, b"key", value)
    if producer is None:
        return builder.build()
    id_, epoch, sequence = producer
    return builder.build(producer_id=id_, producer_epoch=epoch, base_sequence=sequence)


def state(leader: int, **changes: object) -> PartitionState:
    fields = {"replicas": (ME, B, C), "isr": (ME, B, C), "leader": leader, "leader_epoch": 1}
    return PartitionState(**(fields | {"partition_epoch": 1} | changes))  # type: ignore[arg-type]


class FetchersIfAny(ReplicaFetchers):
    """Those that a test sets, once it does."""

    def __init__(self) -> None:
        self.real: ReplicaFetchers | None = None

    def follow(self, partition: Partition) -> None:
        if self.real is not None:
            self.real.follow(partition)

    def unfollow(self, partition: Partition) -> None:
        if self.real is not None:
            self.real.unfollow(partition)

    def tell(self, partition: Partition) -> None:
        if self.real is not None:
            self.real.tell(partition)

    def on_brokers_changed(self, broker_ids: Iterable[int]) -> None:
        if self.real is not None:
            self.real.on_brokers_changed(broker_ids)

    async def settle(self) -> None:
        if self.real is not None:
            await self.real.settle()


class Node:
    """The replicas of one broker. What they tell the rest of it, the test may take in."""

    def __init__(self, root: Path, me: int = ME) -> None:
        self.root = root
        self.me = me
        self.runtime = SystemRuntime(f"broker-{me}")
        self.now_ms = 1_000
        self.runtime.monotonic_ms = lambda: self.now_ms  # type: ignore[method-assign]
        self.runtime.wall_ms = lambda: WALL_MS  # type: ignore[method-assign]
        self.wheel: Deadlines
        self.partitions: Partitions
        self.fetchers = FetchersIfAny()
        self.proposals: list[ProposeIsr] = []
        self.propose: Callable[[Partition, ProposeIsr], None] = self._note_proposal
        self.on_electing: Callable[[list[Partition]], None] = lambda partitions: None
        self.on_replicas_lost: Callable[[list[TopicIdPartition]], None] = lambda replicas: None
        self.image = MetadataImage()
        self.failed: list[LogDirectory] = []
        self.outside: list[Partition] = []
        """Partitions of which the leader was to be asked where its log begins and ends."""
        self.defaults: TopicDefaults
        self.traffic: Traffic | None = None
        """A test that wants counts by topic sets it before `start`."""

    def _note_proposal(self, partition: Partition, proposal: ProposeIsr) -> None:
        self.proposals.append(proposal)

    async def start(self, *directories: str, **settings: str) -> "Node":
        opened = [
            await LogDirectory.open(self.runtime, str(self.root / name), node_id=self.me)
            for name in directories or ("data",)
        ]
        self.wheel = Deadlines(self.runtime)
        self.defaults = defaults = TopicDefaults(self.me, settings)
        config = config_with(node_id=self.me, replica_lag_time_max_ms=10_000)
        links = Links(
            fetchers=self.fetchers,
            lease=LeaderLease(),
            config_of=defaults.config_of,
            broker_value=defaults.broker_value,
            propose=lambda partition, proposal: self.propose(partition, proposal),
            on_electing=lambda partitions: self.on_electing(partitions),
            on_directory_failed=self.failed.append,
            on_replicas_lost=lambda replicas: self.on_replicas_lost(replicas),
            traffic=self.traffic,
        )
        store = LogStore(self.runtime, opened)
        self.partitions = Partitions(self.runtime, config, store, self.wheel, links)
        await self.partitions.load()
        self.image = MetadataImage()
        await self.apply(*(register(broker) for broker in (ME, B, C)))
        return self

    async def apply(self, *records: MetadataRecord) -> None:
        delta = Delta()
        for record in records:
            self.image.apply(record, self.image.offset + 1, delta)
        await self.partitions.apply_delta(delta, self.image)

    async def give(self, *states: PartitionState, topic: str = "orders") -> Partition:
        """Make the topic with these partitions, and return the first."""
        await self.apply(
            TopicRecord(topic, ORDERS), *(record(n, one) for n, one in enumerate(states))
        )
        return self[0]

    async def change(self, new: PartitionState, index: int = 0) -> None:
        await self.apply(record(index, new))

    async def configure(self, key: str, value: str, topic: str = "orders") -> None:
        await self.apply(ConfigRecord(TOPIC, topic, key, value))

    async def forget_topic(self) -> None:
        await self.apply(RemoveTopicRecord(ORDERS))

    async def fence(self, broker: int) -> None:
        epoch = self.image.brokers[broker].broker_epoch
        await self.apply(BrokerChangeRecord(broker, epoch, fenced=True))

    def __getitem__(self, index: int) -> Partition:
        found = self.partitions.get(ORDERS, index)
        assert isinstance(found, Partition), found
        return found

    def epoch(self, broker: int) -> int:
        return self.image.brokers[broker].broker_epoch

    def produce(self, *values: bytes, acks: int = 1, index: int = 0) -> Appended:
        return self.append(batch(*values), acks=acks, index=index)

    def append(self, data: bytearray, *, acks: int = 1, index: int = 0) -> Appended:
        appended = self[index].append_as_leader(memoryview(data), acks=acks, wall_ms=WALL_MS)
        self.partitions.write_staged()
        return appended

    def follower_fetch(self, broker: int, offset: int, last_epoch: int = -1) -> FetchSpec:
        partition = self[0]
        return FetchSpec(
            fetch_offset=offset,
            max_bytes=1 << 20,
            replica_id=broker,
            broker_epoch=self.epoch(broker),
            current_leader_epoch=partition.leader_epoch,
            last_fetched_epoch=last_epoch,
        )

    def fetched_by(self, *brokers: int, offset: int, last_epoch: int = 1) -> None:
        for broker in brokers:
            spec = self.follower_fetch(broker, offset, last_epoch)
            answer = self[0].fetch(spec, self.now_ms)
            assert answer.error == ErrorCode.NONE

    def follow(
        self,
        data: bytes | bytearray,
        *,
        high_watermark: int = 0,
        error: ErrorCode = ErrorCode.NONE,
        diverging: EpochEndOffset | None = None,
    ) -> None:
        """The next fetch of partition 0, answered by its leader."""
        partition = self[0]
        assert partition.follower is not None
        asked = partition.follower.next_fetch(partition.log, self.now_ms)
        assert asked is not None
        answer = PartitionData(
            partition_index=0,
            error_code=error,
            high_watermark=high_watermark,
            log_start_offset=0,
            diverging_epoch=diverging,
            records=memoryview(bytes(data)),
        )
        following.on_fetched(partition, asked, answer, self.now_ms, self.outside.append)

    async def stop(self) -> None:
        self.wheel.close()
        await self.partitions.group_flush.close()
        await close_directories(self.partitions, broker_epoch=7)
        self.runtime.close()

    def kill(self) -> None:
        """As after kill -9: what was written is there, what was to be saved is not."""
        self.wheel.close()
        for directory in self.partitions.store.directories:
            directory.abandon()
        self.runtime.close()


def register(broker: int) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=broker,
        incarnation_id=bytes([broker]) * 16,
        directory_ids=(bytes([broker]) * 16,),
        endpoints=(Endpoint("PLAINTEXT", "127.0.0.1", 9000 + broker),),
        rack=None,
        features={},
        fenced=False,
    )


def record(index: int, one: PartitionState) -> PartitionRecord:
    return PartitionRecord(
        topic_id=ORDERS,
        partition=index,
        replicas=one.replicas,
        isr=one.isr,
        leader=one.leader,
        leader_epoch=one.leader_epoch,
        partition_epoch=one.partition_epoch,
        recovering=one.recovering,
        unclean_epoch=one.unclean_epoch,
        adding=one.adding,
        electing=one.electing,
        offline=one.offline,
    )


def led_batch(offset: int, epoch: int, *values: bytes) -> bytearray:
    """A batch as another leader would have stamped it."""
    data = batch(*values)
    record_batch.stamp(data, record_batch.read_header(data), offset, epoch)
    return data


def values_in(data: object) -> list[bytes | None]:
    view = memoryview(data)  # type: ignore[arg-type]
    return [
        one.value
        for position, _ in record_batch.headers(view)
        for one in record_batch.records(view, position)
    ]
