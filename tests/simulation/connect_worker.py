"""A worker's insides in memory, for the simulator: it runs sources that count, exactly once.

A connector has `partitions` source partitions, which its tasks share. A task writes the numbers of
its partitions to the topic `counted`, in transactions with its offsets, as KIP-618 says. Everything
else is the product's: herder, membership, topics, clients.
"""

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from minikafka.aio import Admin, Consumer, NewTopic, Producer, TopicPartition
from minikafka.client.errors import AdminError
from minikafka.connect.cluster_worker import ClusterWorker
from minikafka.connect.distributed import DistributedHerder
from minikafka.connect.duties import ClusterSettings, Parts
from minikafka.connect.group_member import GroupTimes
from minikafka.connect.group_protocol import CONNECTOR
from minikafka.connect.herder import Rules
from minikafka.connect.herding import Config, HerderError, Json, NotFound
from minikafka.connect.states import State, Status, TargetState, TaskId
from minikafka.runtime.errors import MinikafkaError

from .connect_history import ConnectHistory
from .world import SimRuntime, World

COUNTED = "counted"
OFFSETS = "connect-offsets"
GROUP = "connect"
OUTCOME_MS = 5_000
STOP_SECONDS = 5.0
"""The longest that stopping tasks may take: task.shutdown.graceful.timeout.ms."""
Props = Mapping[str, str]


class SimWorker:
    """Runs connectors and tasks in one process; implements running.Runs."""

    def __init__(
        self, runtime: SimRuntime, history: ConnectHistory, bootstrap: str, life: str
    ) -> None:
        self.worker_id = runtime.name
        self.life = life
        self.cluster: ClusterWorker
        self.stop_seconds = 0.2
        """The most seconds that a task takes to stop."""
        self.stop_seconds_least = 0.0
        self.seconds_between = 0.3
        """The most seconds between two transactions of a source."""
        self.counts = True
        """False for tasks that only seem to do something."""
        self.restart_seconds: float | None = None
        """The seconds after which a failed task is started again; None: never."""
        self.fails: dict[TaskId, None] = {}
        """Tasks that fail when they are started."""
        self._runtime = runtime
        self._history = history
        self._common: dict[str, Any] = {"bootstrap_servers": bootstrap, "request_timeout_ms": 2000}
        self._tasks: dict[TaskId, asyncio.Task[None]] = {}
        self._connectors: dict[str, Props] = {}

    async def start_connector(
        self, name: str, props: Props, target: TargetState, generation: int
    ) -> None:
        await asyncio.sleep(0.05 * self._runtime.rng.random())
        self._connectors[name] = props
        self._history.on_started(self.life, TaskId(name, CONNECTOR), props)
        self.cluster.reports.on_connector(name, Status(State.RUNNING, self.worker_id, generation))

    async def stop_connector(self, name: str) -> None:
        await asyncio.sleep(0.05 * self._runtime.rng.random())
        self._connectors.pop(name, None)
        self._history.on_stopped(self.life, TaskId(name, CONNECTOR))

    async def make_task_configs(self, name: str) -> list[dict[str, str]]:
        await asyncio.sleep(0.05 * self._runtime.rng.random())
        props = self._connectors[name]
        partitions = [f"{name}/{each}" for each in range(int(props.get("partitions", "4")))]
        count = min(int(props.get("tasks.max", "1")), len(partitions))
        return [{"mine": ",".join(partitions[task::count])} for task in range(count)]

    async def start_task(
        self,
        task: TaskId,
        connector_props: Props,
        task_props: Props,
        target: TargetState,
        generation: int,
    ) -> None:
        self._history.on_started(self.life, task, task_props)
        if task in self.fails:
            failed = Status(State.FAILED, self.worker_id, generation, "it fails")
            self.cluster.reports.on_task(task, failed)
            return
        if self.counts:
            source = self._count(task, task_props, generation)
            self._tasks[task] = self._runtime.spawn(source, f"task {task}")
        self.cluster.reports.on_task(task, Status(State.RUNNING, self.worker_id, generation))

    async def stop_tasks(self, tasks: Iterable[TaskId]) -> None:
        await asyncio.gather(*(self._stop(task) for task in tasks))

    async def _stop(self, task: TaskId) -> None:
        taken = self._runtime.rng.uniform(self.stop_seconds_least, self.stop_seconds)
        await asyncio.sleep(taken)
        running = self._tasks.pop(task, None)
        if running is not None:
            running.cancel()
            # A producer may want to end its transaction, and is then abandoned.
            await asyncio.wait([running], timeout=max(STOP_SECONDS - taken, 0))
        self._history.on_stopped(self.life, task)

    def set_target(self, name: str, target: TargetState) -> None:
        pass

    async def offsets(self, name: str, props: Props) -> Json:
        return {"offsets": []}

    async def alter_offsets(self, name: str, props: Props, offsets: Sequence[Json]) -> str:
        return "altered"

    async def reset_offsets(self, name: str, props: Props) -> str:
        return "reset"

    async def fence(self, name: str, props: Props, count: int) -> None:
        async with Admin(runtime=self._runtime, **self._common) as admin:
            await admin.fence_producers([f"{GROUP}-{name}-{task}" for task in range(count)])

    # -- a source

    async def _count(self, task: TaskId, props: Props, generation: int) -> None:
        """Count until the task is stopped; a failure begins anew, but a fenced task has failed."""
        partitions = props["mine"].split(",")
        while True:
            try:
                await self._count_from_committed(task, partitions)
            except MinikafkaError as error:
                if "Fenced" in type(error).__name__:
                    failed = Status(State.FAILED, self.worker_id, generation, str(error))
                    self.cluster.reports.on_task(task, failed)
                    if self.restart_seconds is None:
                        return
                    await asyncio.sleep(self.restart_seconds)
                    running = Status(State.RUNNING, self.worker_id, generation)
                    self.cluster.reports.on_task(task, running)
                await asyncio.sleep(self._runtime.rng.random())

    async def _count_from_committed(self, task: TaskId, partitions: list[str]) -> None:
        rng = self._runtime.rng
        async with Producer(
            runtime=self._runtime,
            transactional_id=f"{GROUP}-{task.connector}-{task.task}",
            transaction_timeout_ms=10_000,
            **self._common,
        ) as producer:
            # Only now: what an earlier producer of this id has committed is then readable.
            committed = await self._read_offsets()
            following = {each: committed.get(each, 0) for each in partitions}
            while True:
                async with producer.transaction():
                    for each in partitions:
                        for _ in range(rng.choice((0, 1, 3))):
                            value = f"{each}:{following[each]}".encode()
                            producer.send(COUNTED, value, partition=0)
                            following[each] += 1
                        told = json.dumps(following[each]).encode()
                        producer.send(OFFSETS, told, key=each.encode(), partition=0)
                await asyncio.sleep(self.seconds_between * rng.random())

    async def _read_offsets(self) -> dict[str, int]:
        place = TopicPartition(OFFSETS, 0)
        found: dict[str, int] = {}
        async with Admin(runtime=self._runtime, **self._common) as admin:
            # Not the last stable offset: see OffsetStore in the product.
            end = (await admin.list_offsets({place: -1}))[place].offset
        async with Consumer(
            runtime=self._runtime,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            **self._common,
        ) as consumer:
            consumer.assign([place])
            consumer.seek_to_beginning()
            while await consumer.position(place) < end:
                for record in await consumer.poll(timeout_ms=500):
                    found[bytes(record.key or b"").decode()] = json.loads(record.value or b"0")
        return found


class SimLibrary:
    """Plugins that find nothing wrong: every connector is a source."""

    def __init__(self) -> None:
        self.levels: dict[str, str] = {}

    async def check(self, config: Config) -> None:
        pass

    async def validate(self, plugin: str, config: Config) -> Json:
        return {}

    def kind(self, config: Config) -> str:
        return "source"

    def listing(self, *, connectors_only: bool) -> list[Json]:
        return []

    def describe(self, plugin: str) -> list[Json]:
        return []

    def loggers(self) -> Json:
        return {name: {"level": level} for name, level in self.levels.items()}

    def set_logger(self, namespace: str, level: str) -> list[str]:
        if level == "LOUD":
            raise NotFound("invalid log level")
        self.levels[namespace] = level
        return [namespace]


class Peers:
    """Requests between workers, by name of the host; over a network that may be cut."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.herders: dict[str, DistributedHerder] = {}
        """The herder of each process that runs, by the url of the worker."""

    def of(self, runtime: SimRuntime) -> "_Peer":
        return _Peer(self, runtime)


class _Peer:
    def __init__(self, peers: Peers, runtime: SimRuntime) -> None:
        self._peers = peers
        self._runtime = runtime

    async def post_task_configs(
        self, url: str, name: str, body: bytes, headers: Mapping[str, str]
    ) -> None:
        world, herder = self._peers.world, self._peers.herders.get(url)
        process = world.processes.get(name_of(url))
        if herder is None or process is None or not process.alive:
            raise HerderError(f"{url} does not answer")
        here, there = self._runtime.process.host, process.host
        if world.network.is_blocked(here, there) or world.network.is_blocked(there, here):
            await asyncio.sleep(2)
            raise HerderError(f"{url} cannot be reached")
        await asyncio.sleep(0.001)
        put = herder.put_task_configs(name, json.loads(body), body, headers)
        task = world.loop.spawn_in(process, answered(put), "peer")
        done, _ = await asyncio.wait([task], timeout=OUTCOME_MS / 1000)
        if not done or task.cancelled():
            raise HerderError(f"{url} does not answer in time")
        error = task.result()
        if error is not None:
            raise error


async def answered(coro: Any) -> Exception | None:
    try:
        await coro
    except MinikafkaError as error:
        return error
    return None


def url_of(name: str) -> str:
    return f"http://{name}/"


def name_of(url: str) -> str:
    return url.removeprefix("http://").rstrip("/")


def make_worker(
    runtime: SimRuntime,
    peers: Peers,
    history: ConnectHistory,
    bootstrap: str,
    *,
    life: str = "",
    **changes: Any,
) -> tuple[DistributedHerder, ClusterWorker, SimWorker]:
    """Make the worker of one process; `changes` are settings of the cluster."""
    worker = SimWorker(runtime, history, bootstrap, life or runtime.name)
    library: Any = SimLibrary()
    worker.counts = changes.pop("counts", True)
    worker.seconds_between = changes.pop("seconds_between", 0.3)
    worker.restart_seconds = changes.pop("restart_seconds", None)
    mode = changes.pop("exactly_once", "enabled")
    rules = Rules(
        leader_fences=mode != "disabled",
        tasks_wait=mode == "enabled",
        is_source=lambda props: True,
        key_ttl_ms=changes.pop("key_ttl_ms", 3_600_000),
    )
    settings: dict[str, Any] = {
        "group": GROUP,
        "url": url_of(runtime.name),
        "common": {
            "bootstrap_servers": bootstrap,
            "request_timeout_ms": 2000,
            "metadata_max_age_ms": 5000,
        },
        "config_topic": NewTopic("connect-configs", 1, 3),
        "status_topic": NewTopic("connect-status", 2, 3),
        "times": GroupTimes(session_timeout_ms=10_000, heartbeat_interval_ms=1_000),
        "scheduled_rebalance_max_delay_ms": 10_000,
        "rules": rules,
        **changes,
    }
    parts = Parts(worker, peers.of(runtime), library.set_logger)
    cluster = ClusterWorker(runtime, parts, ClusterSettings(**settings))
    worker.cluster = cluster
    herder = DistributedHerder(runtime, cluster, library, "sim")
    peers.herders[url_of(runtime.name)] = herder
    return herder, cluster, worker


async def make_connect_topics(admin: Admin) -> None:
    """Create the topics that sources write, unless they are there."""
    topics = [
        NewTopic(COUNTED, 1, 3, configs={"min.insync.replicas": "2"}),
        NewTopic(OFFSETS, 1, 3, configs={"cleanup.policy": "compact", "min.insync.replicas": "2"}),
    ]
    with suppress(AdminError):
        await admin.create_topics(topics)
