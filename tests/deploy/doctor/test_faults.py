"""Faults planted in a simulated cluster: each is found under its name, and nothing else is."""

import errno
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import pytest

from minikafka import TopicPartition
from minikafka.aio import Admin, Consumer
from minikafka.client.config import AdminConfig, configured
from minikafka.client.errors import AdminError
from minikafka.client.net.address import Address
from minikafka.deploy.doctor.diagnosis import diagnose
from minikafka.deploy.doctor.examining import examine
from minikafka.deploy.doctor.findings import Finding, Severity, is_well
from minikafka.protocol.errors import ApiError, ErrorCode
from tests.simulation.cluster import CONTROLLER_PORT, FIRST_KEY, KEY_FILE, SEALED, key_text
from tests.simulation.stage import Stage, staged

METRICS = {"metrics.listener": "0.0.0.0:9404"}
CONTROLLERS = tuple(f"controller-{number}:{CONTROLLER_PORT}" for number in (1, 2, 3))
house = partial(staged, brokers=3, controllers=3, broker=METRICS)
sealed = partial(staged, brokers=3, controllers=3, broker=METRICS | SEALED, controller=SEALED)


async def examined(
    stage: Stage, *bootstrap: str, controllers: tuple[str, ...] = ()
) -> list[Finding]:
    """The findings of an examination from a machine of its own."""
    client = await stage.client()
    settings = {}
    if "control.psk.file" in stage.daemon("controller-1").properties:
        client.process.host.disk.put(KEY_FILE, key_text(FIRST_KEY))
        settings = {"control.psk.file": KEY_FILE}
    config = configured(AdminConfig, list(bootstrap) or stage.cluster.bootstrap, settings)
    addresses = [Address.parse(each) for each in controllers]
    found = await client.ask(
        lambda: examine(client.runtime, config, addresses, step_ms=2000),
    )
    return list(diagnose(found))


async def kinds(stage: Stage, *bootstrap: str, controllers: tuple[str, ...] = ()) -> list[str]:
    """The kinds of faults that are found; notes are none."""
    found = await examined(stage, *bootstrap, controllers=controllers)
    return sorted({one.kind for one in found if one.severity is not Severity.NOTE})


def only(findings: list[Finding], kind: str) -> Finding:
    """The one finding of a kind."""
    (one,) = [each for each in findings if each.kind == kind]
    return one


async def orders(stage: Stage, **configs: str) -> None:
    settings = {"min.insync.replicas": "2", **configs}
    await stage.create_topic("orders", [[1, 2, 3], [2, 3, 1], [3, 1, 2]], configs=settings)


@sealed()
async def test_a_healthy_cluster_has_nothing_wrong(stage: Stage) -> None:
    await orders(stage)
    await stage.send("orders", b"1")
    found = await examined(stage, controllers=CONTROLLERS)
    assert found == []


# -- the ways in


@house()
async def test_bootstrap_addresses_that_lead_nowhere(stage: Stage) -> None:
    nowhere = only(await examined(stage, "nowhere:9092"), "unreachable-bootstrap")
    assert (nowhere.where, nowhere.what.partition(":")[0]) == ("bootstrap nowhere:9092", "resolve")
    refused = only(await examined(stage, "broker-1:9999"), "unreachable-bootstrap")
    assert refused.what.startswith("connect: ")
    stage.pause(1)
    silent = only(await examined(stage, "broker-1:9092"), "unreachable-bootstrap")
    assert silent.what == "negotiate: no answer within 2000 ms"
    stage.resume(1)
    # The others serve, so that the rest is examined as well.
    assert await kinds(stage, "nowhere:9092", "broker-2:9092") == ["unreachable-bootstrap"]


@house()
async def test_a_controller_or_a_metrics_listener_given_as_bootstrap(stage: Stage) -> None:
    found = only(await examined(stage, f"controller-1:{CONTROLLER_PORT}"), "not-a-broker")
    assert "it is a controller" in found.what
    assert "--controllers" in found.cure
    found = only(await examined(stage, "broker-1:9404"), "not-a-broker")
    assert "HTTP" in found.what


@house(started=False)
async def test_advertised_addresses_that_clients_cannot_use(stage: Stage) -> None:
    for wrong, kind, what in (
        ("elsewhere:9092", "unreachable-advertised", "resolve"),
        ("broker-3:9999", "unreachable-advertised", "connect"),
        ("localhost:9092", "advertised-localhost", "each client's own machine"),
        ("broker-2:9092", "shared-address", "brokers 2, 3 all advertise it"),
        ("10.0.0.5:9092", "another-broker", "this is broker 2"),
    ):
        properties = stage.cluster.brokers[3].properties
        properties["advertised.listeners"] = f"PLAINTEXT://{wrong}"
        if stage.daemon(3).alive:
            await stage.stop(3)
        await stage.begin()
        found = await examined(stage, "broker-1:9092")
        assert what in only(found, kind).what, kind
        assert {one.kind for one in found if one.severity is not Severity.NOTE} == {kind}


@staged(brokers=1, controllers=3, broker={"advertised.listeners": "PLAINTEXT://away:9092"})
async def test_nothing_else_is_asked_where_no_broker_can_be_reached(stage: Stage) -> None:
    began = stage.now
    found, *notes = await examined(stage, "broker-1:9092")
    assert found.kind == "unreachable-advertised"
    assert "tells clients this address" in found.what
    assert [(one.kind, one.where, one.severity) for one in notes] == [
        ("not-examined", "brokers", Severity.NOTE)
    ]
    assert stage.now - began < 5


# -- brokers, replicas, disks


@house()
async def test_a_dead_broker_and_the_replicas_that_wait_for_it(stage: Stage) -> None:
    await orders(stage)
    stage.kill(3)
    await stage.until(lambda: stage.is_fenced(3), "broker 3 is fenced")
    found = await examined(stage, "broker-1:9092")
    assert only(found, "fenced-broker").command == ("plan drain", "--brokers", "3")
    behind = [one for one in found if one.kind == "under-replicated"]
    assert [one.where for one in behind] == ["orders-0", "orders-1", "orders-2"]
    assert "2 of 3 replicas are in sync; broker 3 is fenced" in behind[0].what
    unsafe = [one for one in found if one.kind == "unsafe-restart"]
    assert [one.where for one in unsafe] == ["broker 1", "broker 2"]
    assert "would stop 3 partitions: orders-0 (acks=all would be refused)" in unsafe[0].what
    faults = {"fenced-broker", "under-replicated", "unsafe-restart"}
    assert {one.kind for one in found} == faults
    stage.kill(2)
    await stage.until(lambda: list(stage.state("orders").isr) == [1], "broker 1 is alone")
    found = await examined(stage, "broker-1:9092")
    last = [one for one in found if one.kind == "last-copy"]
    assert len(last) == 3
    assert "its last replica in sync is on broker 1; acks=all is refused" in last[0].what
    assert {one.kind for one in found} == {"fenced-broker", "last-copy", "unsafe-restart"}


@house()
async def test_a_partition_without_a_leader(stage: Stage) -> None:
    await stage.create_topic("lonely", [[3]])
    assert await kinds(stage) == ["one-replica"]
    stage.kill(3)
    await stage.until(lambda: stage.is_fenced(3), "broker 3 is fenced")
    found = await examined(stage, "broker-1:9092")
    assert {one.kind for one in found} == {"fenced-broker", "offline", "one-replica"}
    assert "all its records are on 3; broker 3 is fenced" in only(found, "offline").what


@house()
async def test_a_follower_whose_leader_it_cannot_hear(stage: Stage) -> None:
    await orders(stage)
    await stage.send("orders", b"1")
    stage.block(1, 3)
    await stage.send("orders", b"2")
    await stage.until(lambda: 3 not in stage.state("orders").isr, "broker 3 is not in sync")
    found = await examined(stage, "broker-1:9092")
    slow = [one for one in found if one.where == "orders-0"]
    assert slow[0].kind == "under-replicated"
    assert "broker 3 has not fetched from leader 1" in slow[0].what


@staged(
    brokers=3,
    controllers=3,
    broker={**METRICS, "log.dirs": "/data/one,/data/two", "log.dir.failure.timeout.ms": "20000"},
)
async def test_a_log_directory_that_failed(stage: Stage) -> None:
    await orders(stage)
    disk = stage.disk(2)
    disk.fail_write = lambda path: errno.EIO if "/data/one" in path else None
    for partition in range(3):
        await stage.send("orders", b"1", partition=partition)
    broker = stage.broker(2)
    await stage.until(
        lambda: len(broker.parts.partitions.store.online) == 1, "the directory is offline"
    )
    await stage.sleep(3)
    found = await examined(stage)
    failed = only(found, "failed-directory")
    assert failed.where == "broker 2, /data/one"
    assert "KAFKA_STORAGE_ERROR" in failed.what
    waiting = [one for one in found if one.kind == "under-replicated"]
    assert waiting
    assert all("broker 2: the log directory has failed" in one.what for one in waiting)


@house()
async def test_a_disk_that_is_nearly_full(stage: Stage) -> None:
    disk = stage.disk(2)
    disk.capacity = int(disk.used() * 1.1)
    found = await examined(stage)
    full = only(found, "disk-full")
    assert full.where == "broker 2, /data/broker-2"
    assert "9.0% of the volume is free" in full.what
    assert [one.kind for one in found] == ["disk-full"]


@house()
async def test_a_disk_that_is_slow(stage: Stage) -> None:
    await orders(stage, **{"flush.messages": "1"})
    disk = stage.disk(2)
    disk.slow_sync_chance, disk.slow_sync_seconds = 1.0, 3.0
    for number in range(8):
        await stage.send("orders", b"%d" % number)
        await stage.sleep(3)
    slow = only(await examined(stage), "slow-disk")
    assert slow.where == "broker 2, /data/broker-2"


@staged(
    brokers=3,
    controllers=3,
    broker=METRICS,
    controller={"broker.session.timeout.ms": "60000"},
)
async def test_a_broker_that_hangs(stage: Stage) -> None:
    await stage.create_topic("t", [[1, 3]], configs={"min.insync.replicas": "1"})
    stage.pause(2)
    found = await examined(stage, "broker-1:9092")
    (one,) = [each for each in found if each.severity is not Severity.NOTE]
    assert (one.kind, one.where) == ("unreachable-advertised", "broker 2 at broker-2:9092")
    assert one.what.startswith("negotiate: no answer within 2000 ms")
    assert "the broker hangs or is stopped" in one.cure


# -- controllers and clocks


@staged(brokers=3, controllers=3, broker=METRICS)
async def test_controllers_that_ask_for_no_key(stage: Stage) -> None:
    assert await kinds(stage, controllers=CONTROLLERS) == ["unsealed-controller"]


@sealed()
async def test_controllers_that_are_away(stage: Stage) -> None:
    active = stage.active_name()
    dead = [name for name in ("controller-1", "controller-2", "controller-3") if name != active]
    stage.kill(dead[0])
    await stage.sleep(12)
    found = await examined(stage, controllers=CONTROLLERS)
    behind = only(found, "voter-behind")
    assert behind.severity is Severity.ERROR
    assert "2 of 3 keep up, and 2 are needed" in behind.what
    unreachable = only(found, "unreachable-controller")
    assert unreachable.where == f"controller {dead[0]}:{CONTROLLER_PORT}"
    assert {one.kind for one in found} == {"voter-behind", "unreachable-controller"}
    stage.kill(dead[1])
    await stage.sleep(5)
    found = await examined(stage)
    assert "more than half of the voters" in only(found, "no-controller").cure


@staged(brokers=3, broker=METRICS)
async def test_a_single_controller(stage: Stage) -> None:
    assert await kinds(stage) == ["one-controller"]


@house()
async def test_clocks_that_differ(stage: Stage) -> None:
    stage.skew(2, 30_000)
    found = only(await examined(stage), "clock-skew")
    assert (found.where, found.what[:15]) == ("broker 2", "its clock is 30")
    assert " s ahead of the clock here" in found.what
    stage.skew(2, -30_000)
    name = stage.active_name()
    assert name is not None
    stage.skew(name, -60_000)
    found = only(await examined(stage), "clock-skew")
    assert (found.where, " behind " in found.what) == ("the active controller", True)


@staged(brokers=1, controllers=3)
async def test_a_clock_that_cannot_be_known_is_no_fault(stage: Stage) -> None:
    found = await examined(stage)
    assert [one.kind for one in found] == ["clock-unknown"]
    assert is_well(found)


# -- topics, and what was left behind


@staged(brokers=4, controllers=3, broker=METRICS, started=False)
async def test_replicas_that_are_placed_badly(stage: Stage) -> None:
    for node_id, daemon in stage.cluster.brokers.items():
        daemon.properties["broker.rack"] = "north" if node_id <= 2 else "south"
    await stage.begin()
    await stage.create_topic("spread", [[1, 3, 4]])
    await stage.create_topic("together", [[1, 2]], configs={"min.insync.replicas": "1"})
    await stage.create_topic("strict", [[2, 4]], configs={"min.insync.replicas": "2"})
    found = await examined(stage)
    faults = [(one.kind, one.where) for one in found if one.severity is not Severity.NOTE]
    assert faults == [("no-spare-replica", "topic strict"), ("one-rack", "together-0")]
    notes = [one.where for one in found if one.severity is Severity.NOTE]
    assert notes == ["broker 2", "broker 4"], "a restart of these stops the topic"


@house()
async def test_leaders_that_are_not_the_preferred_ones(stage: Stage) -> None:
    await orders(stage)
    await stage.stop(1)
    stage.start(1)
    await stage.ready(1)
    await stage.until(lambda: len(stage.state("orders").isr) == 3, "all are in sync")
    found = await examined(stage)
    assert {one.kind for one in found} == {"not-preferred"}
    assert only(found, "not-preferred").where == "broker 1"


@house()
async def test_a_throttle_that_was_left_behind(stage: Stage) -> None:
    await orders(stage)
    await stage.alter_configs(2, {"follower.replication.throttled.rate": "1000"})
    await stage.alter_configs("orders", {"leader.replication.throttled.replicas": "0:1"})
    found = await examined(stage)
    assert [(one.kind, one.where) for one in found] == [
        ("left-throttle", "broker 2"),
        ("left-throttle", "topic orders"),
    ]


@house(seconds=900)
async def test_a_transaction_that_holds_readers(stage: Stage) -> None:
    await orders(stage)
    await stage.send("orders", b"before")
    producer = await stage.producer(transactional_id="books", transaction_timeout_ms=900_000)
    await producer.client.ask(producer.producer.begin_transaction)
    await producer.send("orders", b"1")
    await stage.sleep(100)
    assert await kinds(stage) == []
    await stage.sleep(250)
    found = await examined(stage)
    (one,) = found
    assert (one.kind, one.where) == ("open-transaction", "orders-0")
    assert "the transaction of books is open for 5 min" in one.what
    assert "readers of committed records stop at 1" in one.what

    async def forgotten(admin: object, names: list[str]) -> None:
        raise AdminError({names[0]: ApiError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Admin, "describe_transactions", forgotten)
        (one,) = await examined(stage)
    assert (one.kind, one.where) == ("hanging-transaction", "orders-0")
    assert one.command[-2:] == ("--start-offset", "1")


@house()
async def test_a_group_that_is_stuck_in_a_rebalance(stage: Stage) -> None:
    await orders(stage)
    settings: dict[str, Any] = {
        "group_id": "team",
        "max_poll_interval_ms": 100_000,
        "session_timeout_ms": 90_000,
    }
    first, consumer = await stage.consumer(**settings)
    await first.ask(_joined(consumer))
    stage.world.pause(first.process)
    second, other = await stage.consumer(**settings)
    second.now(stage.world.loop.create_task, _joined(other)())
    await stage.sleep(2)
    found = await examined(stage)
    assert only(found, "stuck-group").where == "group team"
    assert {one.kind for one in found} == {"stuck-group"}


@house(seconds=900)
async def test_a_group_that_commits_nothing(stage: Stage) -> None:
    await orders(stage)
    await stage.send("orders", b"1", b"2")
    client, consumer = await stage.consumer(group_id="team", enable_auto_commit=False)
    await client.ask(_joined(consumer))
    where = TopicPartition("orders", 0)
    await client.ask(lambda: consumer.commit({where: 1}))

    async def work() -> None:
        while True:
            await consumer.poll(timeout_ms=5000)

    client.now(stage.world.loop.create_task, work())
    await stage.sleep(100)
    assert await kinds(stage) == []
    await stage.sleep(250)
    found = only(await examined(stage), "idle-group")
    assert found.where == "group team"
    assert "it stays at 1 of orders-0" in found.what
    await client.ask(lambda: consumer.commit({where: 2}))
    assert await kinds(stage) == []


def _joined(consumer: Consumer) -> Callable[[], Coroutine[Any, Any, None]]:
    async def join() -> None:
        await consumer.subscribe(["orders"])
        while not consumer.assignment():
            await consumer.poll(timeout_ms=200)

    return join


@house()
async def test_a_partition_that_is_being_moved_lacks_nothing(stage: Stage) -> None:
    await stage.create_topic("t", [[1, 2]], configs={"min.insync.replicas": "1"})
    await stage.send("t", *[b"x" * 1000] * 200)
    for side in ("leader", "follower"):
        for broker in (1, 2, 3):
            await stage.alter_configs(broker, {f"{side}.replication.throttled.rate": "2000"})
        await stage.alter_configs("t", {f"{side}.replication.throttled.replicas": "*"})
    where = TopicPartition("t", 0)
    await stage.admin(lambda admin: admin.alter_partition_reassignments({where: [1, 3]}))
    assert await kinds(stage) == []
    assert [*await stage.admin(lambda admin: admin.list_partition_reassignments())] == [where]
