"""Clients of the simulated cluster: the product's own, and a record of what they were told."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from minikafka.aio import Admin, Consumer, Delivery, NewTopic, Producer, TopicPartition

from .cluster import Cluster
from .history import History, Partition, Sent
from .loop import Process
from .world import SimRuntime, World

TOPIC = "events"


class Workload:
    """Producers, tailing consumers and the final read of one run."""

    def __init__(self, world: World, cluster: Cluster, partition_count: int) -> None:
        self.world = world
        self.cluster = cluster
        self.partition_count = partition_count
        self.history = History()
        self.rng = world.rng("workload")
        self.on_acknowledged: Callable[[Sent], None] = lambda sent: None
        self.on_polled: Callable[[Partition, int], None] = lambda partition, offset: None
        self.started_count = 0
        self.stopping = False
        self.processes: list[Process] = []
        self._pause = self.rng.choice((0.06, 0.15, 0.4))

    async def in_process(self, name: str, body: Any) -> Any:
        """Run `body(runtime)` in a client process of its own and return its result."""
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        async def main(runtime: SimRuntime) -> None:
            done.set_result(await body(runtime))

        self.world.start(self.world.add_host(name), name, main)
        return await done

    async def create_topic(self) -> None:
        async def create(runtime: SimRuntime) -> None:
            async with Admin(bootstrap_servers=self.cluster.bootstrap, runtime=runtime) as admin:
                topic = NewTopic(
                    TOPIC,
                    num_partitions=self.partition_count,
                    replication_factor=3,
                    configs={
                        "min.insync.replicas": "2",
                        "segment.bytes": str(self.rng.choice((1 << 30, 30_000, 3000))),
                        "index.interval.bytes": str(self.rng.choice((4096, 200))),
                    },
                )
                await admin.create_topics([topic])

        await self.in_process("admin", create)

    def start_producer(self, name: str, **settings: Any) -> None:
        async def main(runtime: SimRuntime) -> None:
            await self._produce(name, runtime, settings)

        self.processes.append(self.world.start(self.world.add_host(name), name, main))

    async def _produce(self, name: str, runtime: SimRuntime, settings: dict[str, Any]) -> None:
        numbers = dict.fromkeys(range(self.partition_count), 0)
        weak = settings.get("acks", "all") != "all"
        async with Producer(
            bootstrap_servers=self.cluster.bootstrap,
            runtime=runtime,
            linger_ms=runtime.rng.choice((0, 1, 20)),
            batch_size=runtime.rng.choice((100, 1000, 65_536)),
            compression_type=runtime.rng.choice(("none", "none", "lz4", "zstd", "gzip", "snappy")),
            request_timeout_ms=2000,
            delivery_timeout_ms=120_000,
            **settings,
        ) as producer:
            self.started_count += 1
            while not self.stopping:
                for _ in range(runtime.rng.choice((1, 1, 3, 10))):
                    index = runtime.rng.randrange(self.partition_count)
                    sent = Sent(name, (TOPIC, index), numbers[index], may_vanish=weak)
                    numbers[index] += 1
                    self.history.sent.append(sent)
                    await producer.drain()
                    delivery = producer.send(TOPIC, sent.value, partition=index)
                    delivery.when_done(partial(self._note, sent, delivery))
                await asyncio.sleep(self._pause * runtime.rng.random())

    def _note(self, sent: Sent, delivery: Delivery) -> None:
        if delivery.error() is None:
            sent.acknowledged_at = delivery.result().offset
            if not sent.may_vanish:
                self.on_acknowledged(sent)

    def start_consumer(self, name: str) -> None:
        async def main(runtime: SimRuntime) -> None:
            polled = self.history.polled.setdefault(name, [])
            async with Consumer(
                bootstrap_servers=self.cluster.bootstrap,
                runtime=runtime,
                auto_offset_reset="earliest",
                request_timeout_ms=2000,
            ) as consumer:
                self.started_count += 1
                consumer.assign(
                    [TopicPartition(TOPIC, index) for index in range(self.partition_count)]
                )
                while not self.stopping:
                    for record in await consumer.poll(timeout_ms=500):
                        partition: Partition = (record.topic, record.partition)
                        polled.append((partition, record.offset, bytes(record.value or b"")))
                        self.on_polled(partition, record.offset)

        self.processes.append(self.world.start(self.world.add_host(name), name, main))

    async def read_everything(self) -> None:
        """Every partition from its beginning to its end, by a fresh consumer."""

        async def read(runtime: SimRuntime) -> None:
            partitions = [TopicPartition(TOPIC, index) for index in range(self.partition_count)]
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
                while await self._is_behind(consumer, ends):
                    for record in await consumer.poll(timeout_ms=1000):
                        value = bytes(record.value or b"")
                        final[record.topic, record.partition].append((record.offset, value))

        await self.in_process("reader", read)

    @staticmethod
    async def _is_behind(consumer: Consumer, ends: dict[TopicPartition, int]) -> bool:
        for partition, end in ends.items():
            if await consumer.position(partition) < end:
                return True
        return False
