"""A controller's metrics, each moved by what it stands for, as a scraper reads them."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest

from minikafka.controller.api.sessions import Sessions
from minikafka.controller.metrics import ControllerMetrics
from minikafka.protocol.control import messages as m
from minikafka.protocol.control.image import PartitionState
from minikafka.protocol.types import NO_LEADER
from minikafka.security.control_seal import DatagramGuards

from ..simulation.stage import Stage, staged
from ..support.http import get
from ..support.scrape import Scrape
from .conftest import FakeBroker, Lab
from .test_quorum import Node, turns

CONTROLLERS = ("controller-1", "controller-2", "controller-3")
CONTROLLER = "kafka_controller_kafkacontroller_"
STATS = "kafka_controller_controllerstats_"
RAFT = "kafka_server_raft_metrics_"
OWN = "minikafka_controller_"
NO_GUARDS = DatagramGuards(is_required=False)


def scrape(lab: Lab) -> Scrape:
    server = lab.server
    return Scrape([ControllerMetrics(server.controller, server.sessions, server.guards)])


def counts(lab: Lab, *names: str) -> list[float]:
    told = scrape(lab)
    return [told(CONTROLLER + name) for name in names]


@contextlib.asynccontextmanager
async def running(directory: Path, overrides: Mapping[str, str]) -> AsyncIterator[Lab]:
    lab = Lab(directory)
    await lab.start(overrides)
    try:
        yield lab
    finally:
        await lab.close()


async def brokers(lab: Lab, count: int) -> list[FakeBroker]:
    made = [await lab.broker(1 + index) for index in range(count)]
    for each in made:
        await each.come_up()
    return made


def state_of(broker: FakeBroker, topic_id: bytes) -> PartitionState:
    found = broker.image.partition(topic_id, 0)
    assert found is not None
    return found


async def test_topics_partitions_and_brokers_are_counted(lab: Lab) -> None:
    names = ("globaltopiccount", "globalpartitioncount", "activebrokercount", "fencedbrokercount")
    assert counts(lab, *names) == [0, 0, 0, 0]
    one, _ = await brokers(lab, 2)
    fenced = await lab.broker(3)
    await fenced.register()
    await one.create_topic("a", 4, 2)
    await one.create_topic("b", 3, 1)
    assert counts(lab, *names) == [2, 7, 2, 1]
    told = scrape(lab)
    assert [told(f"{OWN}broker_fenced", broker=each) for each in (1, 2, 3)] == [0, 0, 1]
    assert told(f"{OWN}connections") == 3
    applied, committed = counts(lab, "lastappliedrecordoffset", "lastcommittedrecordoffset")
    assert applied == committed == lab.server.controller.committed.offset


async def test_a_dead_broker_leaves_partitions_offline_and_others_unbalanced(lab: Lab) -> None:
    one, two = await brokers(lab, 2)
    shared = await one.create_topic("shared", 4, 2)
    await one.create_topic("alone", 4, 1)
    names = ("offlinepartitionscount", "preferredreplicaimbalancecount")
    assert counts(lab, *names, "timedoutbrokerheartbeatcount") == [0, 0, 0]
    before = scrape(lab)
    two.connection.abort("kill -9")  # its port 1 refuses
    await one.follow_until(lambda image: image.brokers[2].fenced)
    alone = [state for key, state in one.image.partitions() if key.topic_id != shared.topic_id]
    offline = sum(state.leader == NO_LEADER for state in alone)
    moved = sum(
        state.leader == 1 != state.replicas[0]
        for key, state in one.image.partitions()
        if key.topic_id == shared.topic_id
    )
    assert offline > 0
    assert moved > 0
    assert counts(lab, *names, "timedoutbrokerheartbeatcount") == [offline, offline + moved, 1]
    told = scrape(lab)
    assert told(f"{OWN}leaders_lost_total") == offline
    assert told(f"{OWN}leaders_elected_total") == moved
    assert told(f"{OWN}isr_shrinks_total") == 4 + offline
    assert told(f"{STATS}uncleanleaderelections_total") == 0
    of_elections = f"{STATS}leaderelectionrateandtimems_count"
    assert told(of_elections) == before(of_elections) + 1
    assert told(f"{OWN}broker_fenced", broker=2) == 1


async def test_a_leaders_proposals_shrink_and_expand_isrs(lab: Lab) -> None:
    one, _ = await brokers(lab, 2)
    topic = await one.create_topic("t", 1, 2)

    async def propose(*isr: int) -> None:
        state = state_of(one, topic.topic_id)
        leader = FakeBroker(state.leader, await lab.connect(state.leader))
        leader.epoch = one.image.brokers[state.leader].broker_epoch
        members = tuple(m.IsrMember(each, one.image.brokers[each].broker_epoch) for each in isr)
        change = m.PartitionChange(
            topic.topic_id, 0, state.leader_epoch, state.partition_epoch, members
        )
        answer = await leader.call(m.AlterPartitions(leader.broker_id, leader.epoch, (change,)))
        assert not answer.error
        assert not answer.partitions[0].error
        await one.follow()

    names = (f"{OWN}isr_shrinks_total", f"{OWN}isr_expands_total", f"{OWN}leaders_elected_total")
    await propose(state_of(one, topic.topic_id).leader)
    assert [scrape(lab)(name) for name in names] == [1, 0, 0]
    await propose(1, 2)
    assert [scrape(lab)(name) for name in names] == [1, 1, 0]


@pytest.mark.moves("kafka_controller_controllerstats_uncleanleaderelections_total")
async def test_an_unclean_election_is_counted(tmp_path: Path) -> None:
    async with running(tmp_path, {"unclean.leader.election.enable": "true"}) as lab:
        await elect_uncleanly(lab)
        assert counts(lab, "offlinepartitionscount") == [0]
        assert scrape(lab)(f"{STATS}uncleanleaderelections_total") == 1


async def elect_uncleanly(lab: Lab) -> None:
    """The first of two replicas goes last, and only the second one comes back."""
    one, two, watcher = await brokers(lab, 3)
    topic = await one.create_topic("t", 1, 2)
    first, second = (
        next(each for each in (one, two, watcher) if each.broker_id == broker_id)
        for broker_id in state_of(one, topic.topic_id).replicas
    )
    watcher = next(each for each in (one, two, watcher) if each not in (first, second))
    second.connection.abort("kill -9")
    await watcher.follow_until(lambda image: image.brokers[second.broker_id].fenced)
    first.connection.abort("kill -9")
    await watcher.follow_until(lambda image: image.brokers[first.broker_id].fenced)
    assert counts(lab, "offlinepartitionscount") == [1]
    assert scrape(lab)(f"{STATS}uncleanleaderelections_total") == 0
    second.connection = await lab.connect(second.broker_id)
    second.incarnation += 1
    await second.come_up()
    state = state_of(second, topic.topic_id)
    if state.leader == NO_LEADER:
        assert state.electing
        end = m.LogEnd(topic.topic_id, 0, state.leader_epoch, 0, 0)
        await second.call(m.ReportLogEnds(second.broker_id, second.epoch, (end,)))
        await second.follow_until(
            lambda _: state_of(second, topic.topic_id).leader == second.broker_id
        )


async def test_who_is_silent_and_behind_is_seen_by_broker(lab: Lab) -> None:
    one, two = await brokers(lab, 2)
    await one.create_topic("t", 1, 2)
    await one.beat()
    lease = lab.server.controller.leases[2]
    lease.contact_ms -= 700
    lease.heartbeat_ms = None
    told = scrape(lab)
    assert told(f"{OWN}heartbeat_age_ms", broker=2) >= 700
    assert 0 <= told(f"{OWN}heartbeat_age_ms", broker=1) < 700
    behind = lab.server.controller.committed.offset - two.image.offset
    assert behind > 0
    assert told(f"{OWN}broker_metadata_lag", broker=1) == 0
    assert told(f"{OWN}broker_metadata_lag", broker=2) >= behind
    await two.follow()
    await two.beat()
    told = scrape(lab)
    assert told(f"{OWN}broker_metadata_lag", broker=2) == 0
    assert told(f"{OWN}heartbeat_age_ms", broker=2) < 700


async def test_a_slow_disk_shows_in_what_waits_and_in_the_latency_of_commits(
    tmp_path: Path,
) -> None:
    node = await Node(tmp_path).start()
    try:
        await slow_down(node)
    finally:
        node.disk.is_running.set()
        await node.controller.stop()
        node.runtime.close()


async def slow_down(node: Node) -> None:
    collector = ControllerMetrics(node.controller, Sessions(100), NO_GUARDS)
    before = Scrape([collector])
    assert before(f"{OWN}pending_answers") == 0
    node.disk.is_running.clear()
    asked = asyncio.create_task(node.put("a"))
    await turns()
    told = Scrape([collector])
    assert told(f"{OWN}pending_answers") == 1
    assert told(f"{RAFT}log_end_offset") == told(f"{RAFT}high_watermark") + 1
    node.disk.is_running.set()
    await asked
    told = Scrape([collector])
    assert told(f"{OWN}pending_answers") == 0
    assert told(f"{RAFT}log_end_offset") == told(f"{RAFT}high_watermark")
    assert told(f"{OWN}commit_latency_ms_count") == before(f"{OWN}commit_latency_ms_count") + 1
    assert told(f"{RAFT}commit_latency_avg") > before(f"{RAFT}commit_latency_avg")
    assert told(f"{OWN}commit_latency_ms_sum") > before(f"{OWN}commit_latency_ms_sum")
    assert told(f"{OWN}unsnapshotted_bytes") > before(f"{OWN}unsnapshotted_bytes")


async def test_a_voter_that_finds_no_other_is_alive_and_not_ready(tmp_path: Path) -> None:
    overrides = {
        "controller.quorum.voters": "9@127.0.0.1:1,10@127.0.0.1:2,11@127.0.0.1:3",
        "metrics.listener": "127.0.0.1:0",
    }
    async with running(tmp_path, overrides) as lab:
        metrics = lab.server.metrics
        assert metrics is not None
        assert (await get(metrics.address, "/health/live")).status == 200
        response = await get(metrics.address, "/health/ready")
        assert response.status == 503
        assert response.body == "no controller leads, as far as this one knows\n"
        told = scrape(lab)
        assert told(f"{RAFT}current_leader") == -1
        assert told(f"{RAFT}number_of_voters") == 3
        assert told(f"{CONTROLLER}activecontrollercount") == 0


@staged(controllers=3)
async def test_voters_tell_who_leads_and_the_leader_tells_who_lags(stage: Stage) -> None:
    def told(name: str) -> Scrape:
        return Scrape([ControllerMetrics(stage.controller(name), Sessions(100), NO_GUARDS)])

    ids = {each: stage.controller(each).quorum.node.standing.me for each in CONTROLLERS}
    leader = stage.active_name()
    assert leader is not None
    gone, left = (each for each in CONTROLLERS if each != leader)
    epoch = stage.controller(leader).quorum.epoch
    for each in CONTROLLERS:
        state = "leader" if each == leader else "follower"
        now = told(each)
        assert now(f"{CONTROLLER}activecontrollercount") == (each == leader)
        assert now(f"{RAFT}current_state_info", state=state) == 1
        assert now("kafka_server_raftmetrics_current_state", current_state=state) == 1
        for spelling in (RAFT, "kafka_server_raftmetrics_"):
            assert now(f"{spelling}current_leader") == ids[leader]
        assert now(f"{RAFT}current_epoch") == epoch
    assert told(leader)(f"{RAFT}current_vote") == ids[leader]
    assert told(left).every(f"{OWN}voter_lag") == []
    stage.kill(gone)
    before = told(leader)
    await stage.create_topic("t", [[1]])
    await stage.sleep(0.2)
    after = told(leader)
    assert after(f"{OWN}voter_lag", voter=ids[left]) == 0
    assert after(f"{OWN}voter_lag", voter=ids[gone]) > 0
    age = f"{OWN}voter_fetch_age_ms"
    assert after(age, voter=ids[gone]) >= before(age, voter=ids[gone]) + 200
    stage.start(gone)
    await stage.ready(gone)
    await stage.until(
        lambda: told(leader)(f"{OWN}voter_lag", voter=ids[gone]) == 0, "it has everything"
    )
