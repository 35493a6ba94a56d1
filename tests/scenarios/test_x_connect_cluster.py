"""Workers of a Connect cluster, the product's own but for what runs tasks, on simulated brokers."""

from dataclasses import dataclass, field
from functools import partial
from typing import Any

from minikafka.connect.cluster_worker import ClusterWorker
from minikafka.connect.distributed import DistributedHerder
from minikafka.connect.states import TargetState, TaskId

from ..simulation.connect_history import ConnectHistory
from ..simulation.connect_worker import Peers, SimWorker, make_connect_topics, make_worker
from ..simulation.stage import Client, Stage, staged

BROKER = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.num.partitions": "2",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
}


@dataclass
class Member:
    client: Client
    herder: DistributedHerder
    cluster: ClusterWorker
    worker: SimWorker

    @property
    def name(self) -> str:
        return self.client.runtime.name


@dataclass
class Workers:
    stage: Stage
    settings: dict[str, Any] = field(default_factory=dict)
    history: ConnectHistory = field(default_factory=ConnectHistory)
    members: dict[str, Member] = field(default_factory=dict)
    peers: Peers = field(init=False)

    def __post_init__(self) -> None:
        self.peers = Peers(self.stage.world)

    async def start(self, *names: str, **changes: Any) -> None:
        for name in names:
            client = await self.stage.client(name)
            made = client.now(
                make_worker,
                client.runtime,
                self.peers,
                self.history,
                self.stage.cluster.bootstrap,
                **{**self.settings, **changes},
            )
            self.members[name] = Member(client, *made)
            await client.ask(partial(self.members[name].herder.start, 30_000))

    def leader(self) -> Member:
        (found,) = [each for each in self.members.values() if each.cluster.herder.is_leader]
        return found

    async def create(self, name: str, tasks: int, **config: str) -> None:
        props = {"connector.class": "Counter", "tasks.max": str(tasks), **config}
        await self.on_leader(lambda herder: herder.create(name, props, TargetState.STARTED))

    async def on_leader(self, call: Any) -> Any:
        leader = self.leader()
        return await leader.client.ask(lambda: call(leader.herder))

    def kill(self, name: str) -> None:
        member = self.members.pop(name)
        self.stage.world.kill(member.client.process)
        self.history.on_ended(name)

    async def until_all_run(self, items: list[TaskId], seconds: float = 60.0) -> None:
        def what() -> bool:
            assert self.history.found == []
            return self.history.runs_once(items)

        await self.stage.until(what, "all run once", seconds)


def work(*connectors: str, tasks: int) -> list[TaskId]:
    return [TaskId(name, task) for name in connectors for task in range(-1, tasks)]


@staged(brokers=3, broker=BROKER)
async def test_x_03_three_workers_share_connectors_and_tasks(stage: Stage) -> None:
    workers = Workers(stage)
    await stage.admin(make_connect_topics)
    await workers.start("w1", "w2", "w3")
    names = [f"c{each}" for each in range(5)]
    for name in names:
        await workers.create(name, 4)
    await workers.until_all_run(work(*names, tasks=4))
    loads = [len(workers.history.of(name)) for name in workers.members]
    assert sorted(loads) == [8, 8, 9]
