"""The product's clients in the simulated cluster, and a record of the answers that they got."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from minikafka.aio import Admin, Consumer, Delivery, NewTopic, Producer, TopicPartition
from minikafka.client.admin.cluster_types import FeatureUpdate
from minikafka.protocol.control.records import TRANSACTION_VERSION
from minikafka.protocol.messages.update_features import UpgradeType
from minikafka.runtime.errors import MinikafkaError

from .cluster import Cluster
from .commit_group_workload import Driver
from .compaction_workload import SETTINGS, StateHistory, abort_all, keep, read_state, topic_shape
from .connect_workload import ConnectWork
from .coverage import Coverage
from .delay_workload import (
    DelayHistory,
    change,
    make_topics,
    park,
    park_in_transactions,
    read_target,
)
from .group_history import GroupHistory
from .group_workload import GROUP, Member
from .history import History, Partition, Sent
from .inside import reads_from_follower
from .loop import Process
from .metadata_checks import ELR_FEATURE
from .shape import ProducerShape, Shape, TopicShape
from .transaction_history import TransactionHistory
from .transaction_workload import (
    PIPE_GROUP,
    Ledger,
    Pipe,
    audit,
    read_committed,
    read_offsets,
)
from .world import SimRuntime, World


class Workload:
    """The producers, the consumers and the final read of one run."""

    def __init__(self, world: World, cluster: Cluster, shape: Shape, coverage: Coverage) -> None:
        self.world = world
        self.cluster = cluster
        self.shape = shape
        self.coverage = coverage
        self.history = History()
        self.groups = GroupHistory()
        self.transactions = TransactionHistory()
        self.state = StateHistory()
        self.delays = DelayHistory()
        self.connect = ConnectWork(self)
        self.partition_counts = {topic.name: topic.partitions for topic in shape.topics}
        self.on_acknowledged: Callable[[Sent], None] = lambda sent: None
        self.on_polled: Callable[[Partition, int], None] = lambda partition, offset: None
        self.on_delete_asked: Callable[[Partition, int], None] = lambda partition, offset: None
        self.started_count = 0
        self.stopping = False
        self.processes: list[Process] = []
        self.drivers = world.rng("drivers").choice((0, 1, 2)) if shape.ledgers else 0
        """Processes that commit transactions of several producers together."""
        self.buries = world.rng("buries").random() < 0.5
        """True if a target of the delay topic refuses large records, which are dead letters."""
        self.transaction_version = world.rng("transaction-version").choice((2, 2, 2, 1))
        """The level of transaction.version. At 1, producers add partitions to a transaction
        themselves, and keep their epoch."""

    @property
    def lasting(self) -> list[TopicShape]:
        """The topics that exist from the beginning to the end of the run."""
        return [topic for topic in self.shape.topics if not topic.mortal and not topic.ledger]

    @property
    def ledgers(self) -> list[TopicShape]:
        """The topics that only transactions write to."""
        return [topic for topic in self.shape.topics if topic.ledger]

    async def in_process(self, name: str, body: Any) -> Any:
        """Run `body(runtime)` in a client process of its own and return its result."""
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        async def main(runtime: SimRuntime) -> None:
            done.set_result(await body(runtime))

        self.world.start(self.world.add_host(name), name, main)
        return await done

    async def create_topics(self) -> None:
        async def create(runtime: SimRuntime) -> None:
            async with Admin(bootstrap_servers=self.cluster.bootstrap, runtime=runtime) as admin:
                updates = {}
                if not self.shape.elr:
                    updates[ELR_FEATURE] = FeatureUpdate(0, UpgradeType.SAFE_DOWNGRADE)
                if self.transaction_version < 2:
                    older = FeatureUpdate(self.transaction_version, UpgradeType.SAFE_DOWNGRADE)
                    updates[TRANSACTION_VERSION] = older
                if updates:
                    await admin.update_features(updates)
                await admin.create_topics([new_topic(topic) for topic in self.shape.topics])
                if self.shape.compacts:
                    await admin.create_topics([self._compacted_topic()])
                if self.shape.delays:
                    await make_topics(
                        admin,
                        group=self.shape.all_group,
                        rewrites=self.shape.compacts,
                        buries=self.buries,
                    )

                if self.shape.connects:
                    await self.connect.make_topics(admin)

        await self.in_process("creator", create)

    def start(self) -> None:
        """Start the producers and consumers of the shape."""
        for shape in self.shape.producers:
            body = partial(self._produce, shape)
            self.start_client(shape.name, body)
        for number in range(self.shape.consumers):
            self.start_client(f"consumer-{number}", self._consume)
        for number in range(self.shape.members):
            self.start_client(f"member-{number}", lambda runtime: Member(self, runtime).run())
        for number in range(self.shape.ledgers):
            self.start_client(f"ledger-{number}", lambda runtime: Ledger(self, runtime).run())
        for number in range(self.shape.pipes):
            self.start_client(f"pipe-{number}", lambda runtime: Pipe(self, runtime).run())
        for number in range(self.drivers):
            self.start_client(f"driver-{number}", lambda runtime: Driver(self, runtime).run())
        if self.shape.compacts:
            self.start_client("keeper", lambda runtime: keep(self, runtime))
            self.start_client("aborter", lambda runtime: abort_all(self, runtime))
        if self.shape.delays:
            self.start_client("parker", lambda runtime: park(self, runtime))
            self.start_client("parker-2", lambda runtime: park_in_transactions(self, runtime))
            self.start_client("canceller", lambda runtime: change(self, runtime))
        if self.shape.connects:
            self.connect.start()
        if self.shape.ledgers:
            self.start_client("auditor", lambda runtime: audit(self, runtime))

    def _compacted_topic(self) -> NewTopic:
        shape = topic_shape(group=self.shape.all_group)
        return NewTopic(shape.name, 1, shape.replication, configs={**shape.configs, **SETTINGS})

    def start_client(self, name: str, body: Callable[[SimRuntime], Any]) -> None:
        self.processes.append(self.world.start(self.world.add_host(name), name, body))

    # -- producing --------------------------------------------------------------------------

    async def _produce(self, shape: ProducerShape, runtime: SimRuntime) -> None:
        numbers: dict[Partition, int] = {}
        settings: dict[str, Any] = dict(shape.settings)
        async with Producer(
            bootstrap_servers=self.cluster.bootstrap,
            runtime=runtime,
            request_timeout_ms=2000,
            delivery_timeout_ms=20_000 if shape.topics[0].mortal else 180_000,
            metadata_max_age_ms=5000,
            **settings,
        ) as producer:
            self.started_count += 1
            while not self.stopping:
                for _ in range(runtime.rng.choice((1, 1, 3, 10))):
                    await self._send_one(shape, runtime, producer, numbers)
                await asyncio.sleep(2 * shape.pause * runtime.rng.random())

    async def _send_one(
        self,
        shape: ProducerShape,
        runtime: SimRuntime,
        producer: Producer,
        numbers: dict[Partition, int],
    ) -> None:
        topic = runtime.rng.choice(shape.topics)
        try:
            there = await producer.partitions_for(topic.name)
        except MinikafkaError:
            return
        place = (topic.name, runtime.rng.choice(there))
        number = numbers[place] = numbers.get(place, -1) + 1
        sent = Sent(
            shape.name,
            place,
            number,
            may_vanish=shape.acks != "all" or topic.mortal,
            may_repeat=not shape.idempotent or topic.mortal,
        )
        self.history.sent.append(sent)
        try:
            await producer.drain()
            delivery = producer.send(topic.name, sent.value, partition=place[1])
        except MinikafkaError:
            if not topic.mortal:
                raise
            return
        delivery.when_done(partial(self._note, shape, sent, delivery))

    def _note(self, shape: ProducerShape, sent: Sent, delivery: Delivery) -> None:
        if delivery.error() is not None:
            self.coverage.note("transition", "not-acknowledged")
            return
        sent.acknowledged_at = delivery.result().offset
        by_all = shape.acks == "all"
        self.coverage.note("transition", "acknowledged-by-all" if by_all else "acknowledged-by-one")
        if not sent.may_vanish:
            self.on_acknowledged(sent)

    # -- consuming --------------------------------------------------------------------------

    async def _consume(self, runtime: SimRuntime) -> None:
        polled = self.history.polled.setdefault(runtime.name, [])
        topics = self.lasting
        if runtime.rng.random() < 0.5:
            topics = topics[:1]
        async with Consumer(
            bootstrap_servers=self.cluster.bootstrap,
            runtime=runtime,
            auto_offset_reset="earliest",
            request_timeout_ms=2000,
            client_rack=self.some_rack(runtime),
        ) as consumer:
            self.started_count += 1
            consumer.assign(
                [
                    TopicPartition(topic.name, index)
                    for topic in topics
                    for index in range(topic.partitions)
                ]
            )
            while not self.stopping:
                for record in await consumer.poll(timeout_ms=500):
                    place: Partition = (record.topic, record.partition)
                    polled.append((place, record.offset, bytes(record.value or b"")))
                    self.coverage.note("transition", "polled")
                    if reads_from_follower(consumer, TopicPartition(*place)):
                        self.coverage.note("transition", "polled-from-follower")
                    self.on_polled(place, record.offset)

    def some_rack(self, runtime: SimRuntime) -> str:
        """Draw a consumer's rack; with racks it reads from a replica there (KIP-392)."""
        racks = self.shape.racks
        return f"rack-{runtime.rng.randrange(racks)}" if racks else ""

    async def read_everything(self, partitions: list[TopicPartition]) -> None:
        """Read every partition from beginning to end, with a new consumer."""

        async def read(runtime: SimRuntime) -> None:
            async with Consumer(
                bootstrap_servers=self.cluster.bootstrap,
                runtime=runtime,
                auto_offset_reset="earliest",
                request_timeout_ms=2000,
            ) as consumer:
                ends = await consumer.end_offsets(partitions)
                consumer.assign(partitions)
                consumer.seek_to_beginning()
                final = self.history.final
                final.update({(each.topic, each.partition): [] for each in partitions})
                while await self.is_behind(consumer, ends):
                    for record in await consumer.poll(timeout_ms=1000):
                        value = bytes(record.value or b"")
                        final[record.topic, record.partition].append((record.offset, value))

        await self.in_process("reader", read)

    async def judge_groups(self, lossy: dict[Partition, None]) -> list[str]:
        """Check the answers that members got against the group's committed offsets in the end."""
        if not self.shape.members:
            return []
        places = [TopicPartition(*place) for place in self.groups.committed]
        read = partial(read_offsets, self, group=GROUP, partitions=places)
        self.groups.final = await self.in_process("group-reader", read)
        return self.groups.check(lossy)

    async def judge_transactions(self, lossy: dict[Partition, None]) -> list[str]:
        """Check the outcomes that producers were told against the records that can be read."""
        if not self.shape.ledgers:
            return []
        await self.in_process("ledger-reader", partial(read_committed, self))
        if self.shape.pipes:
            places = places_of(self.ledgers[:1])
            read = partial(read_offsets, self, group=PIPE_GROUP, partitions=places)
            self.transactions.piped_to = await self.in_process("pipe-reader", read)
        return self.transactions.check(lossy)

    async def judge_state(self) -> list[str]:
        """Check what is left of a compacted topic against what was written."""
        if not self.shape.compacts:
            return []
        await self.in_process("state-reader", partial(read_state, self))
        return self.state.check()

    async def judge_delays(self) -> list[str]:
        """Check what was forwarded against what was parked in the delay topic."""
        if not self.shape.delays:
            return []
        await self.in_process("target-reader", partial(read_target, self))
        return self.delays.check()

    async def judge_connect(self) -> list[str]:
        """Check what a Connect cluster has run and written."""
        return await self.connect.judge() if self.shape.connects else []

    @staticmethod
    async def is_behind(consumer: Consumer, ends: dict[TopicPartition, int]) -> bool:
        for partition, end in ends.items():
            if await consumer.position(partition) < end:
                return True
        return False


def places_of(topics: list[TopicShape]) -> list[TopicPartition]:
    return [
        TopicPartition(topic.name, index) for topic in topics for index in range(topic.partitions)
    ]


def new_topic(shape: TopicShape) -> NewTopic:
    return NewTopic(
        shape.name,
        num_partitions=shape.partitions,
        replication_factor=shape.replication,
        configs=shape.configs,
    )
