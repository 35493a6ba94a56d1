"""Workers of a Connect cluster, the product's own but for what runs tasks, on simulated brokers."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest

from minikafka.aio import TopicPartition
from minikafka.connect.cluster_worker import ClusterWorker
from minikafka.connect.config_log import logger_row, tasks_rows
from minikafka.connect.distributed import DistributedHerder
from minikafka.connect.group_member import ForeignWorker
from minikafka.connect.group_protocol import (
    Assignment,
    Subscription,
    decode_assignment,
    encode_assignment,
    encode_subscription,
)
from minikafka.connect.herder import Phase
from minikafka.connect.herding import BadRequest, Conflict, HerderError, NotFound, NotLeader
from minikafka.connect.request_signature import Forbidden, sign
from minikafka.connect.states import TargetState, TaskId
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.find_coordinator import FindCoordinatorRequest
from minikafka.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from minikafka.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

from ..simulation.connect_history import ConnectHistory, check_output
from ..simulation.connect_worker import (
    COUNTED,
    GROUP,
    Peers,
    SimWorker,
    answered,
    make_connect_topics,
    make_worker,
    url_of,
)
from ..simulation.stage import Client, Stage, staged
from ..simulation.world import SimRuntime

BROKER = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.num.partitions": "2",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
}
DELAY_S = 10.0
SESSION_S = 10.0


@dataclass
class Member:
    client: Client
    herder: DistributedHerder
    cluster: ClusterWorker
    worker: SimWorker

    @property
    def name(self) -> str:
        return self.client.runtime.name

    async def ask(self, call: Callable[[DistributedHerder], Awaitable[Any]]) -> Any:
        return await self.client.ask(lambda: call(self.herder))


@dataclass
class Workers:
    """The workers of one story; whatever they start and stop is checked."""

    stage: Stage
    settings: dict[str, Any] = field(default_factory=dict)
    history: ConnectHistory = field(default_factory=ConnectHistory)
    members: dict[str, Member] = field(default_factory=dict)
    peers: Peers = field(init=False)

    def __post_init__(self) -> None:
        self.peers = Peers(self.stage.world)

    async def start(self, *names: str, **changes: Any) -> None:
        await self.stage.admin(make_connect_topics)
        for name in names:
            client = await self._client(name)
            made = client.now(
                make_worker,
                client.runtime,
                self.peers,
                self.history,
                self.stage.cluster.bootstrap,
                **{"counts": False, **self.settings, **changes},
            )
            self.members[name] = member = Member(client, *made)
            await member.ask(lambda herder: herder.start(30_000))

    async def _client(self, name: str) -> Client:
        world = self.stage.world
        if name not in world.network.names:
            return await self.stage.client(name)
        there: asyncio.Future[SimRuntime] = asyncio.get_running_loop().create_future()

        async def main(runtime: SimRuntime) -> None:
            there.set_result(runtime)
            await asyncio.get_running_loop().create_future()

        host = world.network.hosts[world.network.names[name]]
        return Client(self.stage, world.start(host, name, main), await there)

    @property
    def leader(self) -> Member:
        (found,) = [each for each in self.members.values() if each.cluster.herder.is_leader]
        return found

    @property
    def leader_name(self) -> str:
        return self.leader.name

    @property
    def follower_name(self) -> str:
        return next(name for name in self.members if name != self.leader_name)

    async def create(self, name: str, tasks: int, **config: str) -> None:
        props = {"connector.class": "Counter", "tasks.max": str(tasks), **config}
        await self.leader.ask(lambda herder: herder.create(name, props, TargetState.STARTED))

    def kill(self, name: str) -> None:
        member = self.members.pop(name)
        self.stage.world.kill(member.client.process)
        self.history.on_ended(name)

    async def stop(self, name: str) -> None:
        member = self.members.pop(name)
        await member.ask(lambda herder: herder.stop())

    def is_idle(self, name: str) -> bool:
        return not self.history.of(name)

    async def until_all_run(self, items: Sequence[TaskId], seconds: float = 60.0) -> None:
        def is_so() -> bool:
            assert self.history.found == []
            return self.history.runs_once(items)

        await self.stage.until(is_so, "all run once", seconds)


def work(*connectors: str, tasks: int) -> list[TaskId]:
    return [TaskId(name, task) for name in connectors for task in range(-1, tasks)]


@staged(brokers=3, broker=BROKER)
async def test_x_03_work_is_shared_and_x_04_only_what_moves_stops(stage: Stage) -> None:
    workers = Workers(stage)
    await workers.start("w1", "w2", "w3")
    names = [f"c{each}" for each in range(5)]
    for name in names:
        await workers.create(name, 4)
    await workers.until_all_run(work(*names, tasks=4))
    assert sorted(len(workers.history.of(name)) for name in workers.members) == [8, 8, 9]
    before = dict(workers.history.starts)
    await workers.start("w4")
    await stage.until(lambda: len(workers.history.of("w4")) == 6, "w4 has its share")
    await workers.until_all_run(work(*names, tasks=4))
    again = {item for item, count in workers.history.starts.items() if count > before[item]}
    assert sorted(again) == workers.history.of("w4")


@staged(brokers=3, broker=BROKER)
async def test_tasks_of_a_new_set_wait_for_the_slowest_of_the_old_one(stage: Stage) -> None:
    workers = Workers(stage)
    await workers.start("w1", "w2", "w3")
    await workers.create("c", 4)
    await workers.until_all_run(work("c", tasks=4))
    # The partition of task 2 is read by task 0 of the next set, on another worker.
    (name,) = workers.history.running[TaskId("c", 2)]
    assert TaskId("c", 0) not in workers.history.of(name)
    slow = workers.members[name].worker
    slow.stop_seconds = slow.stop_seconds_least = 4.0
    config = {"connector.class": "Counter", "tasks.max": "2"}
    await workers.leader.ask(partial(_put, "c", config))
    # No partition of the source is read by two tasks at a time, which the history checks.
    await workers.until_all_run(work("c", tasks=2))


@staged(brokers=3, broker=BROKER)
async def test_x_05_the_work_of_a_killed_worker_waits_for_it(stage: Stage) -> None:
    workers = Workers(stage)
    await workers.start("w1", "w2", "w3")
    await workers.create("c", 5, partitions="5")
    items = work("c", tasks=5)
    await workers.until_all_run(items)
    name = workers.follower_name
    held = workers.history.of(name)
    before = dict(workers.history.starts)
    workers.kill(name)
    await stage.sleep(SESSION_S + DELAY_S / 2)
    assert sorted(workers.history.runs()) == sorted(set(items) - set(held))
    await workers.start(name)
    await workers.until_all_run(items, seconds=3)
    assert workers.history.of(name) == held
    assert sum(workers.history.starts.values()) == sum(before.values()) + len(held)
    # It does not come back the second time.
    workers.kill(name)
    await stage.sleep(SESSION_S / 2 + DELAY_S)
    assert sorted(workers.history.runs()) == sorted(set(items) - set(held))
    await workers.until_all_run(items, seconds=SESSION_S)


@staged(brokers=3, broker=BROKER)
async def test_x_06_the_work_of_a_worker_that_stops_in_order_moves_at_once(stage: Stage) -> None:
    workers = Workers(stage, {"scheduled_rebalance_max_delay_ms": 300_000})
    await workers.start("w1", "w2", "w3")
    await workers.create("c", 5, partitions="5")
    await workers.until_all_run(work("c", tasks=5))
    for name in (workers.follower_name, workers.leader_name):
        await workers.stop(name)
        await workers.until_all_run(work("c", tasks=5), seconds=5)


@staged(brokers=3, broker=BROKER)
async def test_x_07_without_a_delay_the_work_of_a_killed_worker_moves_at_once(
    stage: Stage,
) -> None:
    workers = Workers(stage, {"scheduled_rebalance_max_delay_ms": 0})
    await workers.start("w1", "w2", "w3")
    await workers.create("c", 5, partitions="5")
    await workers.until_all_run(work("c", tasks=5))
    workers.kill(workers.follower_name)
    await workers.until_all_run(work("c", tasks=5), seconds=SESSION_S + 4)


@staged(brokers=3, broker=BROKER)
async def test_x_08_a_worker_that_is_cut_off_stops_before_others_get_its_work(
    stage: Stage,
) -> None:
    workers = Workers(stage, {"scheduled_rebalance_max_delay_ms": 0})
    await workers.start("w1", "w2", "w3")
    for member in workers.members.values():
        member.worker.stop_seconds = 5.0  # As long as it may take.
    await workers.create("c", 5, partitions="5")
    items = work("c", tasks=5)
    await workers.until_all_run(items)
    for name in (workers.follower_name, workers.leader_name):
        stage.isolate(name)
        await stage.until(partial(workers.is_idle, name), "it has stopped", SESSION_S)
        assert not workers.history.runs_once(items)
        await workers.until_all_run(items, seconds=30)
        assert not workers.history.of(name)
        stage.heal()
        await stage.until(partial(workers.history.of, name), "it is back", 60)
        await workers.until_all_run(items)


@staged(brokers=3, broker=BROKER)
async def test_x_09_a_set_of_tasks_that_is_written_in_part_is_not_used(stage: Stage) -> None:
    workers = Workers(stage, {"exactly_once": "disabled"})
    await workers.start("w1", "w2", "w3")
    await workers.create("c", 2)
    items = work("c", tasks=2)
    await workers.until_all_run(items)
    before = dict(workers.history.starts)
    rows = tasks_rows("c", [{"mine": "c/9"}, {"mine": "c/8"}])
    producer = await stage.producer()
    for row in (rows[0], rows[1]):
        await producer.send("connect-configs", row.value or b"", key=row.key)
    workers.kill(workers.leader_name)  # As if it had died before the commit.
    await workers.until_all_run(items, seconds=60)
    mine = [{"mine": "c/0,c/2"}, {"mine": "c/1,c/3"}]
    for task in (0, 1):
        (config,) = workers.history.running[TaskId("c", task)].values()
        assert config == mine[task]
    # And as if compaction had taken one task of the set.
    await producer.send("connect-configs", rows[0].value or b"", key=rows[0].key)
    await producer.send("connect-configs", rows[2].value or b"", key=rows[2].key)
    survivor = workers.leader.cluster.config
    await stage.until(lambda: not survivor.incomplete and survivor.tasks_of("c"), "asked again")
    assert [dict(each) for each in survivor.tasks_of("c")] == mine
    await workers.until_all_run(items)
    assert workers.history.starts[TaskId("c", 0)] > before[TaskId("c", 0)]


@staged(brokers=3, broker=BROKER)
async def test_x_10_a_leader_of_the_past_cannot_write(stage: Stage) -> None:
    workers = Workers(stage)
    await workers.start("w1", "w2", "w3")
    await workers.create("c", 1)
    await workers.until_all_run(work("c", tasks=1))
    name = workers.leader_name
    zombie = workers.members.pop(name)
    workers.history.is_frozen = lambda life: life == name
    stage.pause(name)
    await stage.until(
        lambda: any(each.cluster.herder.is_leader for each in workers.members.values()),
        "another leads",
        60,
    )
    await workers.create("d", 1)  # It owns the config topic.
    stage.resume(name)
    assert zombie.cluster.herder.is_leader
    config = {"connector.class": "Counter", "tasks.max": "3"}
    with pytest.raises(Conflict):
        await zombie.ask(lambda herder: herder.put_config("c", config))
    workers.members[name] = zombie
    await workers.until_all_run([*work("c", tasks=1), *work("d", tasks=1)])
    for member in workers.members.values():
        assert member.cluster.config.connectors["c"]["tasks.max"] == "1"


@staged(brokers=3, broker=BROKER)
async def test_x_11_a_worker_that_cannot_read_the_config_topic_gives_up_its_work(
    stage: Stage,
) -> None:
    workers = Workers(stage, {"scheduled_rebalance_max_delay_ms": 0})
    await workers.start("w1", "w2", "w3")
    await workers.create("c", 5, partitions="5")
    items = work("c", tasks=5)
    await workers.until_all_run(items)
    name = workers.follower_name
    topic: Any = workers.members[name].cluster.topic
    log = topic._log

    async def read_nothing(timeout_ms: int) -> bool:
        await asyncio.sleep(timeout_ms / 1000)
        return False

    log.read_to_end, read = read_nothing, log.read_to_end
    await workers.members[name].client.ask(log._reading.stop)
    await workers.create("d", 1)
    herder = workers.members[name].cluster.herder
    await stage.until(lambda: herder.phase is Phase.OUTSIDE, "it has given up", 60)
    items += work("d", tasks=1)
    await workers.until_all_run(items)
    assert workers.history.of(name) == []
    log.read_to_end = read
    workers.members[name].client.now(log._reading.start, log._read)
    await stage.until(lambda: workers.history.of(name), "it has work again", 60)
    await workers.until_all_run(items)


class Stranger:
    """A worker shaped as one of Apache Kafka, by raw requests."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.member_id = ""
        self.said = encode_subscription(
            Subscription(url="http://jvm:8083/", config_offset=-1, is_ours=False)
        )

    async def _ask(self, request: Any, version: int) -> Any:
        find = FindCoordinatorRequest(coordinator_keys=[GROUP])
        while True:
            (found,) = (await self.stage.ask(1, find, 4)).coordinators
            if not found.error_code:
                return await self.stage.ask(found.node_id, request, version)
            await self.stage.sleep(0.1)

    async def join(self) -> Any:
        while True:
            request = JoinGroupRequest(
                group_id=GROUP,
                session_timeout_ms=30_000,
                rebalance_timeout_ms=60_000,
                member_id=self.member_id,
                protocol_type="connect",
                protocols=[JoinGroupRequestProtocol(name="sessioned", metadata=self.said)],
            )
            answer = await self._ask(request, 6)
            self.member_id = answer.member_id
            if answer.error_code != ErrorCode.MEMBER_ID_REQUIRED:
                return answer

    async def sync(self, joined: Any) -> Assignment:
        given = Assignment(leader=self.member_id, leader_url="http://jvm:8083/", config_offset=-1)
        leads = joined.leader == self.member_id
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=joined.generation_id,
            member_id=self.member_id,
            assignments=[
                SyncGroupRequestAssignment(
                    member_id=each.member_id, assignment=encode_assignment(given)
                )
                for each in joined.members
                if leads
            ],
        )
        answer = await self._ask(request, 3)
        return decode_assignment(bytes(answer.assignment))


@staged(brokers=3, broker=BROKER)
async def test_x_13_a_worker_refuses_a_group_that_a_worker_of_kafka_leads(stage: Stage) -> None:
    stranger = Stranger(stage)
    await stranger.sync(await stranger.join())
    workers = Workers(stage)
    starting = asyncio.ensure_future(workers.start("w1"))
    joined = await stranger.join()
    while len(joined.members) < 2:
        await stranger.sync(joined)
        await stage.sleep(0.1)
        joined = await stranger.join()
    await stranger.sync(joined)
    with pytest.raises(ForeignWorker, match="http://jvm:8083/"):
        await starting


@staged(brokers=3, broker=BROKER)
async def test_x_13_a_leader_gives_nothing_to_a_worker_of_kafka(stage: Stage) -> None:
    workers = Workers(stage)
    await workers.start("w1")
    fatal: list[Exception] = []
    workers.leader.cluster.on_fatal = fatal.append
    await workers.create("c", 2)
    await workers.until_all_run(work("c", tasks=2))
    stranger = Stranger(stage)
    given = await stranger.sync(await stranger.join())
    assert given.is_ours
    assert given.assigned == ()
    await stage.until(lambda: fatal, "it is told")
    assert "http://jvm:8083/" in str(fatal[0])


@staged(brokers=3, broker=BROKER)
async def test_a_group_may_be_mixed_if_that_is_wanted(stage: Stage) -> None:
    workers = Workers(stage, {"mixed": True})
    await workers.start("w1")
    fatal: list[Exception] = []
    workers.leader.cluster.on_fatal = fatal.append
    stranger = Stranger(stage)
    await stranger.sync(await stranger.join())
    await workers.create("c", 2)
    await workers.until_all_run(work("c", tasks=2))
    await workers.start("w2")
    assert fatal == []


@staged(brokers=3, broker=BROKER)
async def test_a_worker_that_stops_starts_nothing_of_an_assignment_that_it_is_taking(
    stage: Stage,
) -> None:
    workers = Workers(stage)
    await workers.start("w1", "w2")
    await workers.create("c", 4)
    await workers.until_all_run(work("c", tasks=4))
    name = workers.follower_name
    follower = workers.members[name]
    follower.worker.stop_seconds = follower.worker.stop_seconds_least = 4.0
    topic: Any = follower.cluster.topic
    resigning: list[str] = []

    async def resign() -> None:
        resigning.append(name)
        await asyncio.sleep(1)

    topic.resign, at_once = resign, topic.resign
    await workers.create("d", 1)
    await stage.until(lambda: resigning, "it takes the assignment")
    topic.resign = at_once
    await workers.stop(name)
    await workers.until_all_run([*work("c", tasks=4), *work("d", tasks=1)])
    assert workers.history.of(name) == []


@staged(brokers=3, broker=BROKER)
async def test_changes_at_the_same_time_do_not_undo_each_other(stage: Stage) -> None:
    workers = Workers(stage)
    await workers.start("w1")
    leader = workers.leader
    props = {"connector.class": "Counter"}

    async def both(*calls: Callable[[DistributedHerder], Awaitable[Any]]) -> list[Any]:
        async def ask(herder: DistributedHerder) -> list[Any]:
            return await asyncio.gather(*(call(herder) for call in calls), return_exceptions=True)

        found: list[Any] = await leader.ask(ask)
        return found

    made = await both(
        *(
            lambda herder, more=more: herder.create("c", props | more, TargetState.STARTED)
            for more in ({"n": "0"}, {"n": "1"})
        )
    )
    (info,) = [each for each in made if not isinstance(each, Exception)]
    assert [str(each) for each in made if each is not info] == ["Connector c already exists"]
    assert leader.cluster.config.connectors["c"] == info["config"]
    await both(
        *(lambda herder, key=key: herder.patch_config("c", {key: "1"}) for key in ("a", "b"))
    )
    assert leader.cluster.config.connectors["c"] == {**info["config"], "a": "1", "b": "1"}


@staged(brokers=3, broker=BROKER)
async def test_offsets_that_are_set_at_once_after_a_stop_wait_for_the_tasks(stage: Stage) -> None:
    workers = Workers(stage)
    await workers.start("w1", "w2")
    await workers.create("c", 3)
    await workers.until_all_run(work("c", tasks=3))
    for member in workers.members.values():
        member.worker.stop_seconds_least = member.worker.stop_seconds = 3.0
    await workers.leader.ask(partial(_set_target, "c", TargetState.STOPPED))
    assert workers.history.runs()
    assert await workers.leader.ask(lambda herder: herder.alter_offsets("c", [])) == "altered"
    assert not workers.history.runs()


@staged(brokers=3, broker=BROKER)
async def test_what_a_plugin_or_a_foreign_record_breaks_ends_no_worker(stage: Stage) -> None:
    workers = Workers(stage)
    await workers.start("w1")
    member = workers.leader
    worker: Any = member.worker
    fence, fenced = worker.fence, []

    async def fail_once(name: str, props: dict[str, str], count: int) -> None:
        fenced.append(count)
        if len(fenced) == 1:
            raise FileNotFoundError("a provider's file")
        await fence(name, props, count)

    worker.fence = fail_once
    await workers.create("c", 2)
    await workers.until_all_run(work("c", tasks=2))
    config = {"connector.class": "Counter", "tasks.max": "3"}
    await workers.leader.ask(partial(_put, "c", config))
    await workers.until_all_run(work("c", tasks=3))
    assert fenced == [2, 2]
    row = logger_row("a.b", "LOUD")
    producer = await stage.producer()
    await producer.send("connect-configs", row.value or b"", key=row.key)
    await workers.create("d", 1)
    await workers.until_all_run([*work("c", tasks=3), *work("d", tasks=1)])


@staged(brokers=3, broker=BROKER)
async def test_x_18_a_follower_names_the_leader_also_while_it_changes(stage: Stage) -> None:
    workers = Workers(stage)
    await workers.start("w1", "w2", "w3")
    await workers.create("c", 1)
    follower = workers.members[workers.follower_name]
    pause = partial(_set_target, "c", TargetState.PAUSED)
    with pytest.raises(NotLeader) as told:
        await follower.ask(pause)
    assert told.value.leader_url == url_of(workers.leader_name)
    workers.kill(workers.leader_name)
    statuses = []
    while True:
        error = await answered(follower.ask(pause))
        if error is None:
            break
        assert isinstance(error, HerderError)
        statuses.append(error.status)
        for member in workers.members.values():
            if isinstance(error, NotLeader) and error.leader_url == url_of(member.name):
                error = await answered(member.ask(pause))
        if error is None:
            break
        await stage.sleep(0.5)
    assert set(statuses) == {409}
    targets = [each.cluster.config.targets for each in workers.members.values()]
    await stage.until(lambda: all(each["c"] is TargetState.PAUSED for each in targets), "paused")


async def _set_target(name: str, target: TargetState, herder: DistributedHerder) -> None:
    await herder.set_target(name, target)


@staged(brokers=3, broker=BROKER)
async def test_x_19_the_leader_takes_only_signed_task_configurations(stage: Stage) -> None:
    workers = Workers(stage, {"key_ttl_ms": 20_000})
    await workers.start("w1", "w2")
    await workers.create("c", 1)
    await workers.until_all_run(work("c", tasks=1))
    keys = workers.leader.cluster.keys
    key = await stage.until(lambda: keys.newest, "there is a key")
    assert key is not None
    body, tasks = b"[{}]", [{"mine": "c/0"}, {"mine": "c/1"}]

    async def put(headers: dict[str, str]) -> None:
        await workers.leader.ask(lambda herder: herder.put_task_configs("c", tasks, body, headers))

    with pytest.raises(BadRequest):
        await put({})
    with pytest.raises(Forbidden):
        await put(sign(key, b"other"))
    await stage.until(lambda: keys.newest != key, "there is another key", 30)
    await put(sign(key, body))
    assert len(workers.leader.cluster.config.tasks_of("c")) == 2
    await stage.sleep(35)
    with pytest.raises(Forbidden):
        await put(sign(key, body))


@staged(brokers=3, broker=BROKER)
async def test_x_20_only_what_has_failed_restarts_if_that_is_asked(stage: Stage) -> None:
    workers = Workers(stage)
    await workers.start("w1", "w2")
    for member in workers.members.values():
        member.worker.fails[TaskId("c", 1)] = None
    await workers.create("c", 3)
    items = work("c", tasks=3)
    await workers.until_all_run(items)

    async def status(herder: DistributedHerder) -> Any:
        return await herder.status("c")

    async def states() -> list[str]:
        told = await workers.leader.ask(status)
        return [each["state"] for each in (told["connector"], *told["tasks"])]

    while await states() != ["RUNNING", "RUNNING", "FAILED", "RUNNING"]:
        await stage.sleep(0.1)
    for member in workers.members.values():
        member.worker.fails.clear()
    before = dict(workers.history.starts)
    plan = await workers.leader.ask(
        lambda herder: herder.restart("c", include_tasks=True, only_failed=True)
    )
    assert [each["state"] for each in plan["tasks"]] == ["RUNNING", "RESTARTING", "RUNNING"]
    while await states() != ["RUNNING"] * 4:
        await stage.sleep(0.1)
    again = {item for item, count in workers.history.starts.items() if count > before[item]}
    assert again == {TaskId("c", 1)}
    with pytest.raises(NotFound):
        await workers.leader.ask(
            lambda herder: herder.restart("d", include_tasks=True, only_failed=True)
        )


@staged(brokers=3, broker=BROKER, seconds=400)
async def test_x_37_tasks_become_fewer_and_more_under_kills_and_nothing_is_doubled(
    stage: Stage,
) -> None:
    workers = Workers(stage, {"scheduled_rebalance_max_delay_ms": 0, "counts": True})
    await workers.start("w1", "w2", "w3")
    await workers.create("c", 4)
    await workers.until_all_run(work("c", tasks=4))
    for count in (2, 4, 1, 3):
        await stage.sleep(3)
        config = {"connector.class": "Counter", "tasks.max": str(count)}
        await workers.leader.ask(partial(_put, "c", config))
        name = workers.follower_name
        workers.kill(name)
        await workers.until_all_run(work("c", tasks=count), 60)
        await workers.start(name)
        await workers.until_all_run(work("c", tasks=count), 60)
    await stage.sleep(3)
    for name in list(workers.members):
        await workers.stop(name)
    written = await read_committed(stage, COUNTED)
    assert len(written) > 100
    assert check_output(written) == []


async def _put(name: str, config: dict[str, str], herder: DistributedHerder) -> None:
    while True:
        try:
            await herder.put_config(name, config)
            return
        except Conflict:
            await asyncio.sleep(0.2)


async def read_committed(stage: Stage, topic: str) -> list[bytes]:
    place = TopicPartition(topic, 0)
    client, consumer = await stage.consumer(isolation_level="read_committed")

    async def read() -> list[bytes]:
        end = (await consumer.end_offsets([place]))[place]
        consumer.assign([place])
        consumer.seek_to_beginning()
        values: list[bytes] = []
        while await consumer.position(place) < end:
            values += [bytes(each.value or b"") for each in await consumer.poll(timeout_ms=500)]
        return values

    return await client.ask(read)


def test_output_that_is_doubled_or_has_a_gap_is_found() -> None:
    assert check_output([b"a:0", b"b:0", b"a:1"]) == []
    assert "duplicate" in check_output([b"a:0", b"a:0"])[0]
    assert "gap" in check_output([b"a:0", b"a:2"])[0]


def test_a_task_that_runs_twice_is_found() -> None:
    history = ConnectHistory()
    history.on_started("w1", TaskId("c", 0), {})
    history.on_stopped("w1", TaskId("c", 0))
    history.on_started("w2", TaskId("c", 0), {})
    assert history.found == []
    history.on_started("w3", TaskId("c", 0), {})
    assert history.found == ["c-0 begins in w3 and runs in w2"]
    history.on_started("w1", TaskId("d", 0), {"mine": "d/0,d/1"})
    history.on_started("w2", TaskId("d", 1), {"mine": "d/1"})
    assert history.found[1:] == ["d-1 in w2 reads d/1, as d-0 in w1"]
