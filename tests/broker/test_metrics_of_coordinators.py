"""Metrics of groups, transactions, connections and memory: each is moved by what it tells of."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from minikafka.broker.metrics.connections import ConnectionMetrics
from minikafka.broker.metrics.coordinators import CoordinatorMetrics
from minikafka.protocol.messages.delete_groups import DeleteGroupsRequest
from minikafka.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity

from ..support.scrape import Scrape
from .conftest import MakeBroker
from .edge_support import connections_of, settle
from .group_support import GroupBroker, join_request
from .load_support import FakePeer, MiB
from .test_transaction_apis import Lab, written

GROUPS = "kafka_coordinator_group_groupmetadatamanager_"


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[GroupBroker]:
    made = await GroupBroker(tmp_path).open()
    yield made
    await made.close()


def groups(broker: GroupBroker) -> dict[str, float]:
    """The counts that are not 0."""
    found = Scrape([CoordinatorMetrics(broker.edge)])
    counts = {name.removeprefix(GROUPS): found(name) for name in found.names if GROUPS in name}
    return {name: count for name, count in counts.items() if count}


@pytest.mark.moves(
    "kafka_coordinator_group_groupmetadatamanager_numgroups",
    "kafka_coordinator_group_groupmetadatamanager_numgroupscompletingrebalance",
    "kafka_coordinator_group_groupmetadatamanager_numgroupsempty",
    "kafka_coordinator_group_groupmetadatamanager_numgroupsstable",
)
async def test_groups_are_counted_by_what_they_wait_for(broker: GroupBroker) -> None:
    assert groups(broker) == {}
    joined = await broker.join()
    assert groups(broker) == {"numgroups": 1, "numgroupscompletingrebalance": 1}
    await broker.stable("other")
    assert groups(broker)["numgroupsstable"] == 1
    leaving = MemberIdentity(member_id=joined.member_id)
    await broker.ask(LeaveGroupRequest(group_id="g", members=[leaving]), 4)
    assert groups(broker) == {"numgroups": 2, "numgroupsempty": 1, "numgroupsstable": 1}
    await broker.ask(DeleteGroupsRequest(groups_names=["g"]), 2)
    assert groups(broker) == {"numgroups": 1, "numgroupsstable": 1}


@pytest.mark.moves("kafka_coordinator_group_groupmetadatamanager_numgroupspreparingrebalance")
async def test_a_group_that_waits_for_its_members_is_preparing(broker: GroupBroker) -> None:
    await broker.stable()
    assert groups(broker) == {"numgroups": 1, "numgroupsstable": 1}
    other = broker.connect()
    other.send(join_request("g"), 3)
    await settle()
    assert groups(broker) == {"numgroups": 1, "numgroupspreparingrebalance": 1}


@pytest.mark.moves("kafka_coordinator_group_groupmetadatamanager_numoffsets")
async def test_offsets_are_counted_until_another_broker_coordinates(broker: GroupBroker) -> None:
    await broker.commit((0, 5), (1, 6))
    await broker.commit((0, 7), group_id="h")
    assert groups(broker)["numoffsets"] == 3
    await broker.fail_over()
    assert groups(broker)["numoffsets"] == 3
    await broker.edge.groups.close()
    assert groups(broker) == {}


async def test_transactional_ids_are_counted_by_state(make_broker: MakeBroker) -> None:
    lab = Lab(make_broker())
    edge = lab.broker.edge

    def states() -> dict[str, float]:
        found = Scrape([CoordinatorMetrics(edge)])
        name = "minikafka_transactional_ids"
        return {s.labels["state"]: s.value for s in found.samples if s.name == name and s.value}

    def one(name: str) -> float:
        return Scrape([CoordinatorMetrics(edge)])(name)

    assert states() == {}
    lab.init()
    assert states() == {"Empty": 1}
    lab.add()
    assert states() == {"Ongoing": 1}
    began_ms = lab.known.started_ms
    lab.broker.runtime.wall_ms = lambda: began_ms + 2_500  # type: ignore[method-assign]
    assert one("minikafka_oldest_open_transaction_seconds") == 2.5
    gate: asyncio.Future[object] = asyncio.get_running_loop().create_future()
    lab.reply = lambda broker_id, message: gate
    lab.end()
    await settle()
    assert states() == {"PrepareCommit": 1}
    assert one("minikafka_transaction_markers_missing") == 1
    assert one("minikafka_oldest_open_transaction_seconds") == 0
    gate.set_result(written(lab.asked[-1][1]))
    await settle()
    assert states() == {"CompleteCommit": 1}
    assert one("minikafka_transaction_markers_missing") == 0


@pytest.mark.moves("minikafka_connections_refused_total")
async def test_connections_are_counted_by_listener(make_broker: MakeBroker) -> None:
    broker = make_broker(max_connections_per_ip="3")
    collectors = [ConnectionMetrics(broker.edge)]
    count = "kafka_server_socket_server_metrics_connection_count"
    assert Scrape(collectors).every(count) == []
    for listener in ("PLAINTEXT", "OUTSIDE", "OUTSIDE", "OUTSIDE"):
        broker.connect(listener)
    found = Scrape(collectors)
    assert found(count, listener="PLAINTEXT") == 1
    assert found(count, listener="OUTSIDE") == 2
    assert found("minikafka_connections_admitted_total") == 3
    assert found("minikafka_connections_refused_total") == 1
    for connection in connections_of(broker.edge):
        connection.close()
    await settle()
    after = Scrape(collectors)
    assert after.every(count) == []
    assert after("minikafka_connections_admitted_total") == 3


async def test_memory_is_told_by_what_holds_it(make_broker: MakeBroker) -> None:
    broker = make_broker(
        queued_max_request_bytes=str(2 * MiB), socket_request_max_bytes=str(2 * MiB)
    )
    load, collectors = broker.edge.load, [ConnectionMetrics(broker.edge)]
    greedy, late = (FakePeer(broker.edge) for _ in range(2))  # type: ignore[arg-type]
    assert greedy.receive(MiB)
    assert not late.receive(MiB)
    load.hold_responses(greedy, 300_000)
    found = Scrape(collectors)
    assert found("minikafka_memory_bytes", holds="requests") == load.request_bytes >= MiB
    assert found("minikafka_memory_bytes", holds="responses") == 300_000
    assert found("minikafka_memory_limit_bytes", holds="requests") == 2 * MiB
    assert found("minikafka_memory_waiting_connections") == 1
    load.forget(late)
    load.forget(greedy)
    after = Scrape(collectors)
    assert after("minikafka_memory_bytes", holds="requests") == 0
    assert after("minikafka_memory_waiting_connections") == 0
