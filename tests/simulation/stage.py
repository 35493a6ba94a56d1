"""Scripted tests: a story runs against the product's own daemons on the simulated loop.

    @staged(brokers=3)
    async def test_b_01_a_silent_follower_leaves(stage: Stage) -> None:
        await stage.create_topic("t", configs={"min.insync.replicas": "2"})
        producer = await stage.producer()
        stage.pause(3)
        await producer.send("t", b"1")

The story runs outside of every simulated process; calls on a client run inside the client's
process. Networks and disks are quick and lose nothing unless the story says so. The invariants are
checked after each step.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import partial, wraps
from itertools import count
from typing import Any, TypeVar

from minikafka.aio import Admin, ConfigChange, ConfigResource, Consumer, NewTopic, Producer
from minikafka.broker.partition.partition import Partition
from minikafka.broker.server import Broker
from minikafka.client.net.connection import KafkaConnection
from minikafka.client.net.control import ControlConnection
from minikafka.controller.driver import Controller
from minikafka.protocol.control.image import MetadataImage, PartitionState
from minikafka.protocol.control.messages import (
    PROTOCOL_VERSION_MAX,
    PROTOCOL_VERSION_MIN,
    ROLE_BROKER,
    Hello,
)
from minikafka.protocol.messages.describe_configs import ResourceType
from minikafka.protocol.messages.incremental_alter_configs import ConfigOperation
from minikafka.protocol.types import TopicIdPartition, TopicPartition

from .cluster import BROKER_PORT, CONTROLLER_PORT, Cluster, Daemon, Properties
from .disk import Disk
from .history import Sent
from .inside import active, partitions_of, watched
from .invariants import Invariants
from .loop import Process
from .rawlog import LogCursor, RawBatch
from .world import SimRuntime, World

A = TypeVar("A")
Who = str | int
"""The name of a daemon or a client, or the id of a broker."""
STORY_SECONDS = 300.0
END = 1 << 62


class Client:
    """A client process on a machine of its own, in which the story runs code."""

    def __init__(self, stage: "Stage", process: Process, runtime: SimRuntime) -> None:
        self.stage = stage
        self.process = process
        self.runtime = runtime

    def now(self, call: Callable[..., A], *args: Any, **options: Any) -> A:
        """Call a function in the process, to which tasks that it starts belong."""
        result: A = self.process.context.copy().run(call, *args, **options)
        return result

    async def ask(self, call: Callable[[], Awaitable[A]]) -> A:
        """Run a coroutine function inside the process, and return its result."""

        async def body() -> A:
            return await call()

        result: A = await self.stage.world.loop.spawn_in(self.process, body(), "ask")
        return result


class StageProducer:
    """The product's producer. Its acknowledgements are checked by the invariants."""

    def __init__(self, client: Client, producer: Producer, *, acks: str) -> None:
        self.client = client
        self.producer = producer
        self._acks = acks
        self._numbers = count()

    def send(self, topic: str, value: bytes, partition: int = 0, key: bytes | None = None) -> "Ack":
        """Send a record at once; awaiting the result gives RecordMetadata, or raises."""
        delivery = self.client.now(self.producer.send, topic, value, key=key, partition=partition)
        delivery.when_done(partial(self._note, delivery))
        return delivery

    def _note(self, delivery: "Ack") -> None:
        if self._acks == "all" and delivery.error() is None:
            done = delivery.result()
            sent = Sent("", (done.topic, done.partition), next(self._numbers), done.offset)
            self.client.stage.invariants.on_acknowledged(sent)

    async def close(self) -> None:
        await self.client.ask(self.producer.close)


Ack = Any
"""A Delivery: `await` it, or look at `done()`, `error()` and `result()` later."""


class Stage:
    """Controllers, brokers, clients, networks and disks, all controlled by the story."""

    def __init__(
        self,
        brokers: int = 3,
        controllers: int = 1,
        broker: Properties | None = None,
        controller: Properties | None = None,
        seed: int = 0,
    ) -> None:
        """`broker` and `controller` are properties of all nodes of a role; see cluster.py."""
        self.world = world = World(seed)
        world.network.stall_chance = world.network.datagram_loss = 0.0
        world.network.datagram_duplication = world.network.latency_spread = 0.0
        self.cluster = Cluster(world, brokers, controllers, broker, controller)
        self.invariants = Invariants(world, self.cluster)
        for daemon in self.cluster.daemons.values():
            daemon.on_started = self.invariants.watch
            daemon.on_power_lost = self.invariants.lost_power
            disk: Disk = daemon.host.disk
            disk.cold_chance = disk.short_chance = disk.slow_sync_chance = 0.0
        self._client_numbers = count(1)
        self._producers: dict[str, StageProducer] = {}
        self._desk: Client | None = None

    def play(
        self,
        story: Callable[["Stage"], Coroutine[Any, Any, A]],
        *,
        started: bool = True,
        seconds: float = STORY_SECONDS,
    ) -> A:
        """Run a story, which must end within `seconds` of simulated time.

        With `started`, every daemon is started before the story begins.
        """

        async def whole() -> A:
            if started:
                await self.begin()
            return await story(self)

        try:
            with watched():
                return self.world.run(whole(), limit=seconds)
        except BaseException as error:
            error.add_note("\n".join([self.world.trace.tail(60), *self.logs()[-60:]]))
            raise

    def mute(self, *invariants: int) -> None:
        """Stop checking these invariants, because the story shows why they are needed."""
        self.invariants.muted.update(dict.fromkeys(invariants))

    # -- time -------------------------------------------------------------------------------

    @property
    def now(self) -> float:
        """Simulated seconds since the beginning."""
        return self.world.now()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def until(self, condition: Callable[[], A], what: str, seconds: float = 10.0) -> A:
        """Wait until the condition is true and return its value; fail after `seconds`."""
        deadline = self.now + seconds
        while not (result := condition()):
            assert self.now < deadline, f"not within {seconds} s: {what}"
            await asyncio.sleep(0.005)
        return result

    # -- daemons ----------------------------------------------------------------------------

    def daemon(self, who: Who) -> Daemon:
        return self.cluster.daemons[who if isinstance(who, str) else f"broker-{who}"]

    async def begin(self) -> None:
        """Start every daemon that does not run, and wait until all are ready and unfenced."""
        for daemon in self.cluster.daemons.values():
            daemon.start()
        for daemon in self.cluster.daemons.values():
            await self.ready(daemon.name)

    async def ready(self, who: Who) -> None:
        """Wait until the daemon is up; a broker is then unfenced and has all metadata."""
        daemon = self.daemon(who)
        await self.until(lambda: daemon.service is not None, f"{daemon.name} is ready", 30)
        for broker_id, broker in self.cluster.brokers.items():
            if broker is daemon:
                serves = partial(self._serves, broker_id)
                await self.until(serves, f"{daemon.name} is unfenced and current", 30)

    def is_fenced(self, broker_id: int) -> bool:
        """Return whether the active controller has fenced the broker; True if none is active."""
        controller = self._active()
        broker = controller.committed.brokers.get(broker_id) if controller is not None else None
        return broker is None or broker.fenced

    def _serves(self, broker_id: int) -> bool:
        process = self.cluster.brokers[broker_id].process
        return (
            not self.is_fenced(broker_id)
            and process is not None
            and process.alive
            and process.broker is not None
            and process.broker.parts.follower.image.offset >= self.image().offset
        )

    def start(self, *who: Who) -> None:
        for each in who:
            self.daemon(each).start()

    def kill(self, *who: Who) -> None:
        """Kill processes as SIGKILL does; their writes stay in the page cache."""
        for each in who:
            self.daemon(each).kill()

    def restart(self, *who: Who) -> None:
        """Kill daemons, and start them again."""
        self.kill(*who)
        self.start(*who)

    def terminate(self, who: Who) -> None:
        """Send SIGTERM; `stop` also waits for the end."""
        self.daemon(who).terminate()

    async def stop(self, *who: Who) -> None:
        """Send SIGTERM, and wait until the daemons have ended."""
        for each in who:
            self.terminate(each)
        daemons = [self.daemon(each) for each in who]
        await self.until(lambda: not any(each.alive for each in daemons), "all have stopped", 30)

    def pause(self, *who: Who) -> None:
        """Pause processes as SIGSTOP does; their connections stay open."""
        for each in who:
            self.world.pause(self._process(each))

    def resume(self, *who: Who) -> None:
        for each in who:
            self.world.resume(self._process(each))

    def power_off(self, *who: Who) -> None:
        """Cut machines' power: unsynced data may be lost, and their peers are not notified."""
        for each in who:
            self.daemon(each).power_off()

    def power_on(self, *who: Who) -> None:
        """Bring the power back, and start the daemons."""
        for each in who:
            self.daemon(each).power_on()
            self.daemon(each).start()

    def _process(self, who: Who) -> Process:
        process = self.world.processes[who if isinstance(who, str) else f"broker-{who}"]
        assert process.alive, f"{who} does not run"
        return process

    # -- wires, disks, clocks ---------------------------------------------------------------

    def _host(self, who: Who) -> Any:
        return self.world.network.hosts[self.world.network.names[_name(who)]]

    def block(self, source: Who, target: Who) -> None:
        """Block one direction: TCP waits for `heal` or `unblock`, and datagrams are lost."""
        self.world.network.block(self._host(source), self._host(target))

    def unblock(self, source: Who, target: Who) -> None:
        self.world.network.unblock(self._host(source), self._host(target))

    def cut(self, one: Who, *others: Who) -> None:
        """Block both directions between one machine and each of the others."""
        for other in others:
            self.block(one, other)
            self.block(other, one)

    def isolate(self, who: Who, *keep: Who) -> None:
        """Block a machine from every present machine, except those in `keep`."""
        kept = [_name(each) for each in keep]
        for name in self.world.network.names:
            if name != _name(who) and name not in kept:
                self.cut(who, name)

    def heal(self) -> None:
        """Remove all blocks and delays of the network."""
        self.world.network.heal()

    def delay(self, source: Who, target: Who, seconds: float) -> None:
        """Delay one direction by `seconds` from now on."""
        self.world.network.delay(self._host(source), self._host(target), seconds)

    def disk(self, who: Who) -> Disk:
        """Return the machine's disk, with its hooks `fail_write`, `fail_sync` and `fail_read`."""
        disk: Disk = self._host(who).disk
        self.daemon(who).may_fail = True
        return disk

    def skew(self, who: Who, milliseconds: int) -> None:
        """Move the wall clock of a machine."""
        self._host(who).wall_skew_ms += milliseconds

    # -- what is inside ---------------------------------------------------------------------

    def _active(self) -> Controller | None:
        return active(self.cluster)

    def controller(self, who: str | None = None) -> Controller:
        """Return the object of a controller, by default the active one."""
        found = self._active() if who is None else self._process(who).controller
        assert found is not None, "no controller is active"
        return found

    def active_name(self) -> str | None:
        """Return the name of the active controller's daemon; None while there is none."""
        controller = self._active()
        names = [
            daemon.name
            for daemon in self.cluster.controllers.values()
            if daemon.alive
            and daemon.process is not None
            and daemon.process.controller is controller
        ]
        return names[0] if names and controller is not None else None

    def image(self) -> MetadataImage:
        """Return the active controller's committed metadata."""
        return self.controller().committed

    def state(self, topic: str, index: int = 0) -> PartitionState:
        """Return the partition's state as the active controller has it."""
        found = self.image().topic(topic)
        assert found is not None, f"no topic {topic}"
        return found.partitions[index]

    def broker(self, who: Who) -> Broker:
        """Return the broker object of a running broker."""
        found: Broker = self._process(who).broker
        return found

    def partition(self, who: Who, topic: str, index: int = 0) -> Partition:
        """Return the replica object inside a running broker."""
        key = TopicIdPartition(self.image().topic_ids[topic], index)
        return partitions_of(self._process(who))[key]

    def log(self, who: Who, topic: str, index: int = 0) -> list[RawBatch]:
        """Return every batch of a replica, read from its disk's page cache."""
        daemon = self.daemon(who)
        path = f"{daemon.properties['log.dirs'].split(',')[0]}/{topic}-{index}"
        return list(LogCursor(daemon.host.disk, path).up_to(END))

    def logs(self, who: Who | None = None) -> list[str]:
        """Return the last log lines of all daemons, or of one: `time who LEVEL message`."""
        return [
            f"{when:9.4f} {name} {record.levelname} {record.getMessage()}"
            for when, name, record in self.world.logs
            if who is None or name == _name(who)
        ]

    # -- clients ----------------------------------------------------------------------------

    async def client(self, name: str | None = None) -> Client:
        """Make a client process on a machine of its own."""
        name = name or f"client-{next(self._client_numbers)}"
        there: asyncio.Future[SimRuntime] = asyncio.get_running_loop().create_future()

        async def main(runtime: SimRuntime) -> None:
            there.set_result(runtime)
            await asyncio.get_running_loop().create_future()

        process = self.world.start(self.world.add_host(name), name, main)
        return Client(self, process, await there)

    async def _at_desk(self) -> Client:
        if self._desk is None:
            self._desk = await self.client("desk")
        return self._desk

    async def admin(self, do: Callable[[Admin], Awaitable[A]]) -> A:
        """Run `do` with the product's admin client."""
        client = await self._at_desk()

        async def ask() -> A:
            bootstrap = self.cluster.bootstrap
            async with Admin(bootstrap_servers=bootstrap, runtime=client.runtime) as admin:
                return await do(admin)

        return await client.ask(ask)

    async def create_topic(
        self,
        topic: str,
        partitions: int | Sequence[Sequence[int]] = 1,
        replication: int = 3,
        configs: Mapping[str, str] | None = None,
    ) -> None:
        """Create a topic and wait for leaders; `partitions` is a number or lists of replicas."""
        given = None if isinstance(partitions, int) else dict(enumerate(partitions))
        new = NewTopic(
            topic,
            num_partitions=partitions if isinstance(partitions, int) else -1,
            replication_factor=replication if given is None else -1,
            assignments=given,
            configs=configs or {},
        )
        await self.admin(lambda admin: admin.create_topics([new]))
        topic_id = self.image().topic_ids[topic]
        for index in self.image().topics[topic_id].partitions:
            await self.until(partial(self._is_led, topic, index), f"{topic}-{index} is led")

    def _is_led(self, topic: str, index: int) -> bool:
        state = self.state(topic, index)
        process = self.cluster.brokers[state.leader].process if state.leader > 0 else None
        if process is None:
            return False
        key = TopicIdPartition(self.image().topic_ids[topic], index)
        replica = partitions_of(process).get(key)
        return replica is not None and replica.leader is not None

    async def delete_topic(self, topic: str) -> None:
        await self.admin(lambda admin: admin.delete_topics([topic]))

    async def alter_configs(self, who: Who, settings: Mapping[str, str | None]) -> None:
        """Change settings of a topic (by name) or of a broker (by id); None deletes a setting."""
        kind = ResourceType.TOPIC if isinstance(who, str) else ResourceType.BROKER
        resource = ConfigResource(kind, str(who))
        changes = [
            ConfigChange(
                key, value, ConfigOperation.DELETE if value is None else ConfigOperation.SET
            )
            for key, value in settings.items()
        ]
        await self.admin(lambda admin: admin.incremental_alter_configs({resource: changes}))

    async def producer(self, name: str | None = None, **settings: Any) -> StageProducer:
        """Make a product's producer in a process of its own, with these settings."""
        client = await self.client(name)
        options: dict[str, Any] = {"linger_ms": 0, "request_timeout_ms": 2000, **settings}

        async def ask() -> Producer:
            bootstrap = self.cluster.bootstrap
            producer = Producer(bootstrap_servers=bootstrap, runtime=client.runtime, **options)
            return await producer.start()

        acks = str(settings.get("acks", "all"))
        return StageProducer(client, await client.ask(ask), acks="all" if acks == "-1" else acks)

    async def send(
        self, topic: str, *values: bytes, partition: int = 0, acks: str = "all"
    ) -> list[int]:
        """Send values one after the other by a producer of the stage; return their offsets."""
        producer = self._producers.get(acks)
        if producer is None:
            producer = self._producers[acks] = await self.producer(f"sender-{acks}", acks=acks)
        return [(await producer.send(topic, value, partition)).offset for value in values]

    async def consumer(self, name: str | None = None, **settings: Any) -> tuple[Client, Consumer]:
        """Make a consumer; poll it by `await client.ask(lambda: consumer.poll(500))`."""
        client = await self.client(name)
        options: dict[str, Any] = {"auto_offset_reset": "earliest", "request_timeout_ms": 2000}

        async def ask() -> Consumer:
            bootstrap = self.cluster.bootstrap
            merged = {**options, **settings}
            consumer = Consumer(bootstrap_servers=bootstrap, runtime=client.runtime, **merged)
            return await consumer.start()

        return client, await client.ask(ask)

    async def read(self, topic: str, partition: int = 0, offset: int = 0) -> list[bytes]:
        """Read the values from `offset` to the present end, with a new consumer."""
        client, consumer = await self.consumer()
        there = TopicPartition(topic, partition)

        async def ask() -> list[bytes]:
            end = (await consumer.end_offsets([there]))[there]
            consumer.assign([there])
            consumer.seek(there, offset)
            values = []
            while await consumer.position(there) < end:
                records = await consumer.poll(timeout_ms=500)
                values += [bytes(each.value or b"") for each in records]
            await consumer.close()
            return values

        return await client.ask(ask)

    async def ask(self, broker_id: int, request: Any, version: int | None = None) -> Any:
        """Send one Kafka request to a broker; return the response."""
        client = await self._at_desk()

        async def call() -> Any:
            host = f"broker-{broker_id}"
            connection = await KafkaConnection.open(client.runtime, host, BROKER_PORT)
            try:
                return await connection.request(request, version=version)
            finally:
                await connection.close()

        return await client.ask(call)

    def hello(self, broker_id: int = 99) -> Hello:
        """Make the Hello of a broker, which a test may change with `replace`."""
        return Hello(
            cluster_id=self.invariants.image.cluster_id if self.invariants.image else None,
            min_version=PROTOCOL_VERSION_MIN,
            max_version=PROTOCOL_VERSION_MAX,
            node_id=broker_id,
            role=ROLE_BROKER,
            incarnation_id=bytes(16),
        )

    async def ask_controller(
        self, request: Any, who: str | None = None, hello: Hello | None = None
    ) -> Any:
        """Send a control request to a controller (the active one); return the answer."""
        name = who or self.active_name()
        assert name is not None, "no controller is active"
        greeting = hello or self.hello()
        client = await self._at_desk()

        async def call() -> Any:
            connection = await ControlConnection.open(
                name, CONTROLLER_PORT, greeting, timeout_ms=2000
            )
            try:
                return await connection.call(request, timeout_ms=2000)
            finally:
                connection.close()

        return await client.ask(call)


def _name(who: Who) -> str:
    return who if isinstance(who, str) else f"broker-{who}"


Story = Callable[[Stage], Coroutine[Any, Any, None]]


def staged(**options: Any) -> Callable[[Story], Callable[[], None]]:
    """Make a test of a story, which runs on a stage with these options.

    With `started=False` the story starts the daemons. `seconds` bounds simulated time.
    """
    play = {name: options.pop(name) for name in ("started", "seconds") if name in options}

    def decorate(story: Story) -> Callable[[], None]:
        @wraps(story)
        def test() -> None:
            Stage(**options).play(story, **play)

        # The test takes nothing: pytest must not see a fixture in the story's parameter.
        vars(test).pop("__wrapped__")
        assert not inspect.signature(test).parameters
        return test

    return decorate
