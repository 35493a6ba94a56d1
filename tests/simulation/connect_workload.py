"""A Connect cluster in a run: workers that die, sleep and are cut off, and a user who changes it.

The workers' herders, memberships and topics are the product's. `ConnectHistory` checks that nothing
runs twice (X-08); in the end each task must run once, and the output of the sources must be whole.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from minikafka.aio import Admin, Consumer, NewTopic, TopicPartition
from minikafka.connect.cluster_worker import ClusterWorker
from minikafka.connect.distributed import DistributedHerder
from minikafka.connect.herder import Phase
from minikafka.connect.herding import NotLeader
from minikafka.connect.states import TargetState
from minikafka.runtime.errors import MinikafkaError

from .connect_history import ConnectHistory, check_output
from .connect_worker import (
    COUNTED,
    OFFSETS,
    Peers,
    answered,
    make_worker,
    name_of,
    url_of,
)
from .loop import Process
from .world import SimRuntime

if TYPE_CHECKING:
    from .workload import Workload

CONFIGS = "connect-configs"
STATUS = "connect-status"
COMPACTED = (OFFSETS, CONFIGS, STATUS)
CONNECTORS = ("one", "two")
START_MS = 60_000
PATIENCE_SECONDS = 5.0


class ConnectWork:
    """The workers of a run, by name, and what is known of them."""

    def __init__(self, workload: "Workload") -> None:
        self.workload = workload
        self.world = workload.world
        self.history = ConnectHistory()
        self.peers = Peers(self.world)
        self.rng = self.world.rng("connect")
        self.clusters: dict[str, ClusterWorker] = {}
        self.is_calm = False
        """True once nobody harms workers or changes connectors any more."""
        self.lives = 0
        self.delay_ms = self.rng.choice((0, 3_000, 20_000))
        self._written: list[bytes] = []
        self._harming: asyncio.Task[None]

    @property
    def names(self) -> list[str]:
        return [f"connect-{number}" for number in range(self.workload.shape.connects)]

    async def make_topics(self, admin: Admin) -> None:
        configs = {"min.insync.replicas": "2"}
        if self.workload.shape.all_group:
            configs["flush.policy"] = "group"
        compacted = {**configs, "cleanup.policy": "compact"}
        await admin.create_topics(
            [
                NewTopic(COUNTED, 1, 3, configs=configs),
                NewTopic(OFFSETS, 1, 3, configs=compacted),
                NewTopic(CONFIGS, 1, 3, configs=compacted),
                NewTopic(STATUS, 2, 3, configs=compacted),
            ]
        )

    def start(self) -> None:
        """Start the workers, the one who harms them, and the user."""
        for name in self.names:
            self.workload.start_client(name, partial(self._live, is_first=True))
        self.workload.start_client("connect-user", self._use)
        # Outside of every process, as other faults: it starts processes anew.
        self._harming = asyncio.get_running_loop().create_task(self._harm())

    # -- workers

    async def _live(self, runtime: SimRuntime, *, is_first: bool = False) -> None:
        """Run one worker after the other in this process, each until it is stopped in order."""
        if is_first:
            self.workload.started_count += 1
        rng = runtime.rng
        while not self.workload.stopping:
            self.lives += 1
            life = f"{runtime.name}/{self.lives}"
            herder, cluster, _ = make_worker(
                runtime,
                self.peers,
                self.history,
                self.workload.cluster.bootstrap,
                life=life,
                seconds_between=2.0,
                restart_seconds=1.0,
                scheduled_rebalance_max_delay_ms=self.delay_ms,
            )
            self.clusters[runtime.name] = cluster
            try:
                await herder.start(START_MS)
            except (MinikafkaError, TimeoutError):
                await asyncio.sleep(rng.random())
                continue
            ends = self.world.now() + rng.choice((20, 60, 200))
            while True:
                await asyncio.sleep(0.5)
                if self.workload.stopping or not (self.is_calm or self.world.now() < ends):
                    break
            await herder.stop()
            self.history.on_ended(life)
            self.workload.coverage.note("transition", "connect-worker-stopped")

    # -- harm

    async def _harm(self) -> None:
        harms: tuple[Callable[[str], Awaitable[None]], ...] = (self._kill, self._pause, self._cut)
        while not self.is_calm:
            await asyncio.sleep(12 * self.rng.random())
            name = self.rng.choice(self.names)
            process = self.world.processes[name]
            if not self.is_calm and process.alive:
                await self.rng.choice(harms)(name)

    async def _kill(self, name: str) -> None:
        process = self.world.processes[name]
        self.world.kill(process)
        for life in self.history.lives_of(name):
            self.history.on_ended(life)
        self.workload.coverage.note("transition", "connect-worker-killed")
        await asyncio.sleep(self.rng.choice((0.1, 5, 25)) * self.rng.random())
        body = self._live
        self.workload.processes.append(self.world.start(process.host, name, body))

    async def _pause(self, name: str) -> None:
        process = self.world.processes[name]
        self.world.pause(process)
        for life in self.history.lives_of(name):
            self.history.on_paused(life)
        await asyncio.sleep(self.rng.choice((2, 15)) * self.rng.random())
        self.world.resume(process)

    async def _cut(self, name: str) -> None:
        network = self.world.network
        here = self.world.processes[name].host
        brokers = [daemon.host for daemon in self.workload.cluster.brokers.values()]
        for host in brokers:
            network.block(here, host)
            network.block(host, here)
        await asyncio.sleep(20 * self.rng.random())
        for host in brokers:
            network.unblock(here, host)
            network.unblock(host, here)

    # -- the user

    async def _use(self, runtime: SimRuntime) -> None:
        self.workload.started_count += 1
        rng = runtime.rng
        while not self.is_calm:
            name, config = rng.choice(CONNECTORS), _config(rng.choice((1, 2, 3, 4)))
            act = rng.choice((_put, _put, _put, _restart, _stop, _delete))
            error = await self._ask(runtime, partial(act, name, config))
            self.workload.coverage.note(
                "transition", "connect-changed" if error is None else "connect-refused"
            )
            await asyncio.sleep(10 * rng.random())
        for name in CONNECTORS:
            # Nothing is left to chance: each is there and started in the end.
            for act in (_put, _resume):
                while True:
                    if await self._ask(runtime, partial(act, name, _config(3))) is None:
                        break
                    await asyncio.sleep(1)

    async def _ask(
        self, runtime: SimRuntime, act: Callable[[DistributedHerder], Awaitable[None]]
    ) -> Exception | None:
        """Ask any worker, and then the leader that it names; return the error, if any."""
        url = url_of(runtime.rng.choice(self.names))
        error = await self._ask_one(url, act)
        if isinstance(error, NotLeader) and error.leader_url is not None:
            error = await self._ask_one(error.leader_url, act)
        return error

    async def _ask_one(
        self, url: str, act: Callable[[DistributedHerder], Awaitable[None]]
    ) -> Exception | None:
        herder = self.peers.herders.get(url)
        process: Process | None = self.world.processes.get(name_of(url))
        if herder is None or process is None or not process.alive:
            return TimeoutError()
        task = self.world.loop.spawn_in(process, answered(act(herder)), "user")
        done, _ = await asyncio.wait([task], timeout=PATIENCE_SECONDS)
        return task.result() if done and not task.cancelled() else TimeoutError()

    # -- the end

    def what_is_missing(self) -> str | None:
        """Return why the workers have not come to rest; None if each task runs once."""
        if self.history.found:
            self.world.violation(f"invariant X-08: {self.history.found[0]}")
        if self.world.processes["connect-user"].alive or not self._harming.done():
            return "workers are harmed, or connectors changed"
        clusters = [self.clusters.get(name) for name in self.names]
        for name, cluster in zip(self.names, clusters, strict=True):
            if cluster is None or not self.world.processes[name].alive:
                return f"{name} does not run"
            if cluster.herder.phase is not Phase.STEADY:
                return f"{name} is {cluster.herder.phase}"
        configs = [cluster.config for cluster in clusters if cluster is not None]
        if len({config.offset: None for config in configs}) > 1:
            return "a worker has not read the config topic"
        for name in CONNECTORS:
            wanted = configs[0].connectors.get(name, {}).get("tasks.max")
            if wanted is None or len(configs[0].tasks_of(name)) != int(wanted):
                return f"connector {name} has {len(configs[0].tasks_of(name))} of {wanted} tasks"
        if not self.history.runs_once(configs[0].items()):
            return f"not each task runs once: {self.history.runs()}"
        return None

    def is_settled(self) -> bool:
        return self.what_is_missing() is None

    async def judge(self) -> list[str]:
        """Check what the sources have written, once all clients have ended."""
        await self.workload.in_process("connect-reader", self._read)
        if not self._written:
            return ["connect: the sources have written nothing"]
        self.workload.coverage.note("transition", "connect-moved", self.history.moves)
        return [f"connect: {finding}" for finding in check_output(self._written)]

    async def _read(self, runtime: SimRuntime) -> None:
        place = TopicPartition(COUNTED, 0)
        common: dict[str, Any] = {
            "bootstrap_servers": self.workload.cluster.bootstrap,
            "runtime": runtime,
            "request_timeout_ms": 2000,
        }
        async with Consumer(**common) as uncommitted:
            ends = await uncommitted.end_offsets([place])
        async with Consumer(
            **common, auto_offset_reset="earliest", isolation_level="read_committed"
        ) as consumer:
            consumer.assign([place])
            consumer.seek_to_beginning()
            with suppress(TimeoutError):
                async with asyncio.timeout(40):  # Of those that died a transaction may be open.
                    while await self.workload.is_behind(consumer, ends):
                        records = await consumer.poll(timeout_ms=500)
                        self._written += [bytes(each.value or b"") for each in records]


def _config(tasks: int) -> dict[str, str]:
    return {"connector.class": "Counter", "tasks.max": str(tasks), "partitions": "4"}


async def _put(name: str, config: dict[str, str], herder: DistributedHerder) -> None:
    await herder.put_config(name, config)


async def _restart(name: str, config: dict[str, str], herder: DistributedHerder) -> None:
    await herder.restart(name, include_tasks=True, only_failed=False)


async def _stop(name: str, config: dict[str, str], herder: DistributedHerder) -> None:
    await herder.set_target(name, TargetState.STOPPED)


async def _resume(name: str, config: dict[str, str], herder: DistributedHerder) -> None:
    await herder.set_target(name, TargetState.STARTED)


async def _delete(name: str, config: dict[str, str], herder: DistributedHerder) -> None:
    await herder.delete(name)
