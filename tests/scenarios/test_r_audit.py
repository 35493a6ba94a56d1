"""Scenarios R: the audit of what changes in the cluster, exactly once, in order, in a chain."""

from collections.abc import Sequence
from typing import Any

import pytest

from minikafka.aio import Admin, ConfigChange, ConfigResource, TopicPartition
from minikafka.broker.audit import entries, writer
from minikafka.broker.audit.entries import more_links
from minikafka.broker.audit.feed import AuditFeed
from minikafka.broker.partition.own_batches import append_marker, append_own
from minikafka.client.consumer.audit_log import AuditLog, Verified
from minikafka.client.errors import AdminError, DeliveryFailed, UnknownTopic
from minikafka.controller.metadata import forwarding
from minikafka.protocol.acls import Acl, Operation, Pattern, Permission, Resource
from minikafka.protocol.audit import (
    AUDIT_ENABLE,
    AUDIT_REQUIRED,
    CHANGE,
    ChainCheck,
    Event,
    Link,
    digest_of,
    read_event,
)
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from minikafka.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from minikafka.protocol.messages.describe_configs import ResourceType
from minikafka.protocol.messages.forward_records import (
    FENCED,
    ForwardedBatch,
    ForwardRecordsRequest,
)
from minikafka.protocol.messages.incremental_alter_configs import ConfigOperation
from minikafka.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from minikafka.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from minikafka.protocol.records.batch_header import headers, seal
from minikafka.protocol.types import AUDIT_TOPIC
from minikafka.security.audit import LINES_MAX
from minikafka.security.authorizer_config import ALIAS
from minikafka.storage.markers import TransactionMarker

from ..simulation.audit_checks import Found, audit_of, events_of, is_audit_written
from ..simulation.disk import read_all
from ..simulation.scraper import METRICS, exposition
from ..simulation.stage import Stage, staged
from ..support.scrape import Scrape
from .delay_stage import delay_topic, park, until_idle

RIGHTS = {"authorizer.class.name": ALIAS, "allow.everyone.if.no.acl.found": "true"}
DENY = Permission.DENY
ON = {AUDIT_ENABLE: "true"}
SNAPSHOTS = {"metadata.log.max.record.bytes.between.snapshots": "1"}


async def audit_on(stage: Stage, broker: int) -> Found:
    """Return offset, key and value of every record in a broker's replica of the audit topic."""
    return await audit_of(stage.partition(broker, AUDIT_TOPIC))


async def until_written(stage: Stage) -> list[dict[str, Any]]:
    """Wait until the audit topic has every audited request; return its events."""
    await stage.until(
        lambda: is_audit_written(stage.image(), stage.cluster), "the audit is written", 30
    )
    events, wrong = events_of(await audit_on(stage, stage.state(AUDIT_TOPIC).leader))
    assert wrong == []
    return events


def audited_requests(stage: Stage) -> list[tuple[int, int]]:
    """Return the number and the metadata offset of each audited request."""
    return [(each.number, each.offset) for each in stage.image().audited]


def told_requests(events: list[dict[str, Any]]) -> list[tuple[int, int]]:
    return [(each["number"], each["data"]["metadata_offset"]) for each in events]


@staged(controller=ON)
async def test_r_54_who_changed_what_is_told_once_and_in_order(stage: Stage) -> None:
    await stage.create_topic("orders", 3)
    await stage.alter_configs("orders", {"retention.ms": "1000"})
    events = await until_written(stage)
    assert told_requests(events) == audited_requests(stage)
    by_action = {each["data"]["action"]: each["data"] for each in events}
    created = next(
        each["data"] for each in events if each["data"]["changes"][0]["resource"] == "topic/orders"
    )
    assert (created["principal"], created["client"]) == ("User:ANONYMOUS", "minikafka")
    assert created["changes"][0] == {
        "resource": "topic/orders",
        "aspect": "partitions",
        "before": None,
        "after": "3",
    }
    assert by_action["IncrementalAlterConfigs"]["changes"] == [
        {"resource": "topic/orders", "aspect": "retention.ms", "before": None, "after": "1000"}
    ]
    own = next(each for each in events if each["subject"] == f"topic/{AUDIT_TOPIC}")
    assert own["data"]["principal"] is None


@staged()
async def test_r_54_what_is_off_writes_nothing(stage: Stage) -> None:
    await stage.create_topic("orders", 3)
    assert audited_requests(stage) == []
    assert AUDIT_TOPIC not in stage.image().topic_ids


async def cut_off_from(stage: Stage, leader: int, *names: str) -> int:
    """Cut the leader of the audit off from these; return another broker."""
    stage.cut(leader, *names)
    return next(each for each in stage.cluster.brokers if each != leader)


def controllers_of(stage: Stage) -> list[str]:
    return [daemon.name for daemon in stage.cluster.controllers.values()]


async def create_by(stage: Stage, broker: int, topic: str) -> None:
    """Have one broker forward the creation of a topic, which is committed then."""
    asked = CreatableTopic(name=topic, num_partitions=1, replication_factor=2)
    answer = await stage.ask(broker, CreateTopicsRequest(topics=[asked]))
    assert answer.topics[0].error_code == 0


@staged(controllers=3, controller=ON)
async def test_r_54_a_controller_fails_between_commit_and_audit_write(stage: Stage) -> None:
    await stage.create_topic("first")
    written = len(await until_written(stage))
    leader = stage.state(AUDIT_TOPIC).leader
    other = await cut_off_from(stage, leader, *controllers_of(stage))
    await create_by(stage, other, "second")
    assert stage.image().audited.newest == written + 1
    assert len(await audit_on(stage, leader)) == written
    before = stage.active_name()
    assert before is not None
    stage.kill(before)
    await stage.until(lambda: stage.active_name() not in (None, before), "another is active", 30)
    stage.heal()
    await stage.create_topic("third")
    events = await until_written(stage)
    assert told_requests(events) == audited_requests(stage)
    assert len(events) == written + 2


@staged(controller=ON)
async def test_r_54_the_leader_of_the_audit_fails_before_its_append_is_committed(
    stage: Stage,
) -> None:
    await stage.create_topic("first")
    written = len(await until_written(stage))
    leader = stage.state(AUDIT_TOPIC).leader
    names = [f"broker-{each}" for each in stage.cluster.brokers if each != leader]
    other = await cut_off_from(stage, leader, *names)
    await create_by(stage, other, "second")
    old = stage.partition(leader, AUDIT_TOPIC)
    await stage.until(lambda: old.log_end_offset == written + 1, "it is appended", 1)
    assert old.high_watermark == written
    stage.kill(leader)
    stage.heal()
    await stage.until(lambda: stage.state(AUDIT_TOPIC).leader not in (-1, leader), "led", 30)
    await create_by(stage, other, "third")
    events = await until_written(stage)
    assert told_requests(events) == audited_requests(stage)
    assert len(events) == written + 2
    await stage.begin()
    await stage.until(
        lambda: len(stage.state(AUDIT_TOPIC).isr) == 3, "all replicas are in sync again", 30
    )
    first, *others = [await audit_on(stage, each) for each in stage.cluster.brokers]
    assert others == [first, first]


@staged(controller=ON | SNAPSHOTS)
async def test_r_54_what_was_not_written_survives_in_snapshots(stage: Stage) -> None:
    await stage.create_topic("first")
    written = len(await until_written(stage))
    leader = stage.state(AUDIT_TOPIC).leader
    other = await cut_off_from(stage, leader, *controllers_of(stage))
    await create_by(stage, other, "second")
    stage.kill(*stage.cluster.daemons)
    stage.heal()
    await stage.begin()
    events = await until_written(stage)
    assert told_requests(events) == audited_requests(stage)
    assert len(events) == written + 1
    assert stage.broker(1).parts.follower.image.audited == stage.image().audited


@staged(controller=ON)
async def test_r_54_a_changed_byte_is_named_by_its_offset(stage: Stage) -> None:
    for number in range(5):
        await stage.create_topic(f"t{number}")
    await until_written(stage)
    found = await audit_on(stage, 1)
    for offset, key, value in found:
        assert value is not None
        changed = value.replace(b'"error_code":0', b'"error_code":1')
        assert changed != value
        for forged in (key, digest_of(changed).encode()):
            chain = ChainCheck()
            with_it = [*found[:offset], (offset, forged, changed), *found[offset + 1 :]]
            faults = [fault for each in with_it if (fault := chain.add(*each)) is not None]
            # Whoever forges the checksum too is found by the next record, unless it is the last.
            at = offset if forged is key else offset + 1
            assert [each.partition(":")[0] for each in faults] == [f"offset {at}"][
                : len(found) - at
            ]
    chain = ChainCheck()
    without = [chain.add(*each) for each in [*found[:2], *found[3:]]]
    assert without[2] == "offset 3: the record of offset 2 is missing"


@staged(controller=ON)
async def test_r_54_clients_write_nothing_into_the_audit(stage: Stage) -> None:
    await stage.create_topic("t")
    before = len(await until_written(stage))
    with pytest.raises(DeliveryFailed) as refused:
        await stage.send(AUDIT_TOPIC, b"forged")
    assert refused.value.error.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    with pytest.raises(AdminError) as kept:
        await stage.delete_topic(AUDIT_TOPIC)
    assert [each.code for each in kept.value.errors.values()] == [ErrorCode.INVALID_TOPIC_EXCEPTION]
    assert len(await until_written(stage)) == before


@staged()
async def test_r_54_the_switch_tells_of_itself(stage: Stage) -> None:
    for value in ("true", "false"):
        await all_brokers(stage, {AUDIT_ENABLE: value})
        await stage.create_topic(f"while-{value}")
    events = await until_written(stage)
    assert told_requests(events) == audited_requests(stage)
    told = [change for each in events for change in each["data"]["changes"]]
    switched = [each["after"] for each in told if each["aspect"] == AUDIT_ENABLE]
    assert switched == ["true", "false"]
    named = dict.fromkeys(each["resource"] for each in told)
    assert "topic/while-true" in named
    assert "topic/while-false" not in named


@staged(controller=ON)
async def test_r_54_no_transaction_and_no_forwarder_writes_into_the_audit(stage: Stage) -> None:
    await stage.create_topic("t")
    before = len(await until_written(stage))
    leader, refused = stage.state(AUDIT_TOPIC).leader, ErrorCode.TOPIC_AUTHORIZATION_FAILED
    asked = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="tx",
        v3_and_below_producer_id=7,
        v3_and_below_producer_epoch=0,
        v3_and_below_topics=[
            AddPartitionsToTxnTopic(name=AUDIT_TOPIC, partitions=[0]),
            AddPartitionsToTxnTopic(name="t", partitions=[0]),
        ],
    )
    added = (await stage.ask(leader, asked, 3)).results_by_topic_v3_and_below
    assert [each.results_by_partition[0].partition_error_code for each in added] == [
        refused,
        ErrorCode.OPERATION_NOT_ATTEMPTED,
    ]
    marker = WritableTxnMarker(
        producer_id=7,
        producer_epoch=0,
        transaction_result=True,
        topics=[WritableTxnMarkerTopic(name=AUDIT_TOPIC, partition_indexes=[0])],
        coordinator_epoch=0,
    )
    (answered,) = (await stage.ask(leader, WriteTxnMarkersRequest(markers=[marker]))).markers
    assert answered.topics[0].partitions[0].error_code == refused
    batches = [
        ForwardedBatch(
            topic_id=stage.image().topic_ids[AUDIT_TOPIC],
            partition_index=0,
            producer_id=7,
            base_sequence=0,
            is_fence=is_fence,
            records=None if is_fence else b"x",
        )
        for is_fence in (False, True)
    ]
    forwarded = await stage.ask(leader, ForwardRecordsRequest(batches=batches))
    assert [(each.error_code, each.base_offset) for each in forwarded.batches] == [
        (ErrorCode.INVALID_REQUEST, -1),
        (ErrorCode.NONE, FENCED),
    ]
    assert len(await until_written(stage)) == before


async def led_by_another(stage: Stage) -> int:
    """Kill the leader of the audit; return its successor."""
    leader = stage.state(AUDIT_TOPIC).leader
    stage.kill(leader)
    await stage.until(lambda: stage.state(AUDIT_TOPIC).leader not in (-1, leader), "led", 30)
    return stage.state(AUDIT_TOPIC).leader


@staged(controller=ON)
async def test_r_54_a_new_leader_goes_on_behind_the_last_record_that_is_an_event(
    stage: Stage,
) -> None:
    await stage.create_topic("first")
    written = len(await until_written(stage))
    partition = stage.partition(stage.state(AUDIT_TOPIC).leader, AUDIT_TOPIC)
    for producer_id in (7, 8):
        marker = TransactionMarker(producer_id, 0, 0, is_commit=True, transaction_version=0)
        assert not append_marker(partition, marker, 1).error
    partition.write_staged()
    await stage.until(lambda: partition.high_watermark == written + 2, "they are committed")
    await create_by(stage, await led_by_another(stage), "second")
    await stage.until(
        lambda: is_audit_written(stage.image(), stage.cluster), "the audit is written", 30
    )
    found = await audit_on(stage, stage.state(AUDIT_TOPIC).leader)
    events = [event for _, _, value in found if (event := read_event(value)) is not None]
    assert told_requests(events) == audited_requests(stage)
    assert [each["prev"] for each in events[1:]] == [
        digest_of(value or b"") for _, _, value in found if read_event(value) is not None
    ][:-1]


@pytest.mark.moves("minikafka_audit_blocked")
@staged(controller=ON, broker=METRICS)
async def test_r_54_a_log_without_events_is_not_written_and_that_is_told(stage: Stage) -> None:
    await stage.create_topic("first")
    written = len(await until_written(stage))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writer, "link_behind", lambda _: None)
        leader = await led_by_another(stage)
        await create_by(stage, leader, "second")
        await stage.until(
            lambda: metrics_of(stage, leader)("minikafka_audit_blocked") == 1, "it is told"
        )
        assert len(await audit_on(stage, leader)) == written
    events = await until_written(stage)
    assert told_requests(events) == audited_requests(stage)
    await stage.until(
        lambda: metrics_of(stage, leader)("minikafka_audit_blocked") == 0, "it is over", 30
    )


@staged(controller=ON, broker=METRICS)
async def test_r_54_an_audit_that_tells_of_more_than_the_metadata_is_not_written(
    stage: Stage,
) -> None:
    await stage.create_topic("first")
    await until_written(stage)
    old = stage.partition(stage.state(AUDIT_TOPIC).leader, AUDIT_TOPIC)
    forged = more_links([Event("f", CHANGE, 1, "cluster", {})], Link(999, "0" * 64), "c", 1)
    assert forged is not None
    assert not append_own(old, forged.batch, 1).error
    old.write_staged()
    end = old.log_end_offset
    await stage.until(lambda: old.high_watermark == end, "it is committed")
    leader = await led_by_another(stage)
    await create_by(stage, leader, "second")
    await stage.until(
        lambda: metrics_of(stage, leader)("minikafka_audit_blocked") == 1, "it is told"
    )
    assert len(await audit_on(stage, leader)) == end


@staged(controller=ON)
async def test_r_54_what_the_topic_finds_too_large_goes_in_smaller_batches(stage: Stage) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for module in (entries, forwarding):
            patch.setattr(module, "BATCH_MAX", 2_000)
        await stage.create_topic("first")
        written = len(await until_written(stage))
        leader = stage.state(AUDIT_TOPIC).leader
        other = await cut_off_from(stage, leader, *controllers_of(stage))
        for number in range(4):
            await create_by(stage, other, f"t{number}")
        stage.heal()
        events = await until_written(stage)
        assert told_requests(events) == audited_requests(stage)
        assert len(events) == written + 4


@staged()
async def test_r_54_only_brokers_create_the_topic_and_it_stays_fit_for_the_audit(
    stage: Stage,
) -> None:
    asked = CreatableTopic(name=AUDIT_TOPIC, num_partitions=1, replication_factor=1)
    answer = await stage.ask(1, CreateTopicsRequest(topics=[asked]))
    assert answer.topics[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    names = [MetadataRequestTopic(name=AUDIT_TOPIC), MetadataRequestTopic(name="auto")]
    await stage.ask(1, MetadataRequest(topics=names, allow_auto_topic_creation=True))
    await stage.until(lambda: "auto" in stage.image().topic_ids, "the other is created")
    assert AUDIT_TOPIC not in stage.image().topic_ids
    await all_brokers(stage, ON)
    await stage.create_topic("t")
    await until_written(stage)
    assert len(stage.state(AUDIT_TOPIC).replicas) == 3
    for key, value in (("minikafka.delay.target", "t"), ("max.message.bytes", "100")):
        with pytest.raises(AdminError, match="INVALID_CONFIG"):
            await stage.alter_configs(AUDIT_TOPIC, {key: value})


async def all_brokers(stage: Stage, settings: dict[str, str]) -> None:
    resource = ConfigResource(ResourceType.BROKER, "")
    changes = [ConfigChange(key, value, ConfigOperation.SET) for key, value in settings.items()]
    await stage.admin(lambda admin: admin.incremental_alter_configs({resource: changes}))


@staged(controller=ON | {AUDIT_REQUIRED: "true"})
async def test_r_54_a_required_audit_that_cannot_be_written_refuses_changes(stage: Stage) -> None:
    await stage.create_topic("first")
    await until_written(stage)
    stage.kill(1, 2)
    await stage.until(lambda: len(stage.state(AUDIT_TOPIC).isr) == 1, "one replica is left", 30)
    asked = CreatableTopic(name="second", num_partitions=1, replication_factor=1)
    answer = await stage.ask(3, CreateTopicsRequest(topics=[asked]))
    assert answer.topics[0].error_code == ErrorCode.POLICY_VIOLATION
    assert "second" not in stage.image().topic_ids
    await stage.begin()
    await stage.until(lambda: len(stage.state(AUDIT_TOPIC).isr) > 1, "two are in sync", 30)
    await stage.create_topic("third")
    events = await until_written(stage)
    assert told_requests(events) == audited_requests(stage)


def metrics_of(stage: Stage, broker: int) -> Scrape:
    text = exposition(stage.daemon(broker))
    assert text is not None
    return Scrape.of(text)


def told_and_dropped(stage: Stage) -> tuple[float, float]:
    scraped = [metrics_of(stage, each) for each in stage.cluster.brokers]
    told = sum(each("minikafka_audit_told_total") for each in scraped)
    return told, sum(each("minikafka_audit_dropped_total") for each in scraped)


def seen_by_brokers(events: list[dict[str, Any]]) -> list[tuple[str, str, Any]]:
    """Return the result, the action and the first resource of what no metadata record tells."""
    found = []
    for each in events:
        if each["type"] != CHANGE:
            data = each["data"]
            changes = data.get("changes") or [data]
            found.append((data["result"], data["action"], changes[0]["resource"]))
    return found


@pytest.mark.moves(
    "minikafka_audit_dropped_total", "minikafka_audit_told_total", "minikafka_audit_unwritten"
)
@staged(controller=ON | RIGHTS, broker={**ON, **RIGHTS, **METRICS})
async def test_r_54_denials_and_changes_of_brokers_are_in_the_same_chain(stage: Stage) -> None:
    await stage.create_topic("t", [[1, 2, 3]])
    await stage.create_topic("secret", [[2, 3, 1]])
    deny = Acl(Resource.TOPIC, "secret", Pattern.PREFIXED, "User:*", "*", Operation.ALL, DENY)
    await stage.admin(lambda admin: admin.create_acls([deny]))
    await until_written(stage)
    assert told_and_dropped(stage) == (0, 0)
    with pytest.raises(UnknownTopic):
        await stage.send("secret", b"x")
    await stage.send("t", b"1", b"2", b"3")
    await stage.admin(lambda admin: admin.delete_records({TopicPartition("t", 0): 2}))
    tellers = [stage.broker(each).parts.edge.audit_feed for each in stage.cluster.brokers]
    await stage.until(lambda: sum(each.told for each in tellers) >= 2, "both are told", 30)
    events = await until_written(stage)
    assert told_requests([each for each in events if each["type"] == CHANGE]) == audited_requests(
        stage
    )
    assert ("denied", "Metadata", "topic/secret") in seen_by_brokers(events)
    assert ("changed", "DeleteRecords", "partition/t-0") in seen_by_brokers(events)
    told = {each["data"]["action"]: each["data"] for each in events}
    assert told["DeleteRecords"]["changes"] == [
        {"resource": "partition/t-0", "aspect": "log start", "before": "0", "after": "2"}
    ]
    leader = stage.state(AUDIT_TOPIC).leader
    told_count, dropped = told_and_dropped(stage)
    assert told_count >= 2
    assert dropped == 0
    names = [MetadataRequestTopic(name=f"secret-{number}") for number in range(LINES_MAX + 99)]
    await stage.ask(leader, MetadataRequest(topics=names))
    assert told_and_dropped(stage)[1] >= 99
    # While its image is ahead of its log, requests are not written.
    for other in stage.cluster.brokers:
        if other != leader:
            stage.kill(other)
    await stage.until(lambda: len(stage.state(AUDIT_TOPIC).isr) == 1, "one replica is left", 30)
    asked = CreatableTopic(name="more", num_partitions=1, replication_factor=1)
    await stage.ask(leader, CreateTopicsRequest(topics=[asked]))
    await stage.until(
        lambda: metrics_of(stage, leader)("minikafka_audit_unwritten") == 1, "it waits"
    )


@staged(controller=ON)
async def test_r_54_who_forges_every_replica_is_found_by_the_command(stage: Stage) -> None:
    for number in range(5):
        await stage.create_topic(f"t{number}")
    await until_written(stage)
    noted = await verified(stage)
    assert noted.faults == []
    assert noted.head is not None
    last = noted.end - 1
    brokers = [f"broker-{each}" for each in stage.cluster.brokers]
    await stage.stop(*brokers)
    stage.mute(1, 2, 4)
    for name in brokers:
        forge(stage, name, b"topic/t2", b"topic/t9")
    await stage.begin()
    found = await verified(stage)
    assert [each.partition(": ")[0] for each in found.faults] == ["offset 3"]
    assert found.head == noted.head
    known = [(0, "0" * 64), (last, noted.head.digest), (last + 5, "0" * 64)]
    assert (await verified(stage, known)).faults == [
        f"offset 0: is not the record with SHA-256 {'0' * 64}",
        "offset 3: was changed after it was written",
        f"offset {last + 5}: is missing at the end",
    ]


async def verified(stage: Stage, known: Sequence[tuple[int, str]] = ()) -> Verified:
    client = await stage.client()
    runtime = client.runtime

    async def ask() -> Verified:
        async with Admin(bootstrap_servers=stage.cluster.bootstrap, runtime=runtime) as admin:
            return await AuditLog(admin, runtime).verify(known)

    return await client.ask(ask)


def forge(stage: Stage, name: str, old: bytes, new: bytes) -> None:
    """Change a replica on the disk of a broker that does not run, checksums of batches included."""
    daemon = stage.daemon(name)
    path = f"{daemon.properties['log.dirs']}/{AUDIT_TOPIC}-0/{0:020}.log"
    data = bytearray(read_all(daemon.host.disk, path))
    assert old in data
    data[:] = data.replace(old, new)
    for position, _ in headers(data):
        seal(data, position)
    daemon.host.disk.put(path, bytes(data))


@staged(controller=ON, broker=ON)
async def test_r_54_delayed_records_that_are_cancelled_or_rescheduled_are_told(
    stage: Stage,
) -> None:
    await delay_topic(stage)
    await park(stage, (b"a", 60_000), (b"b", 60_000))
    here = TopicPartition("later", 0)
    await stage.admin(lambda admin: admin.cancel_delayed({here: [0]}))
    with pytest.raises(AdminError):
        await stage.admin(lambda admin: admin.cancel_delayed({here: [77]}))
    await stage.admin(lambda admin: admin.reschedule_delayed({here: {1: 9_000_000_000}}))
    feed = leader_feed(stage)
    await stage.until(lambda: feed.told == 2, "both are told", 30)
    changes = [
        (change["aspect"], change["before"], change["after"])
        for each in await until_written(stage)
        if each["data"]["action"] == "AlterDelayed"
        for change in each["data"]["changes"]
    ]
    assert changes == [
        ("record 0", "waits", None),
        ("record 1", "waits", "due 9000000000 ms"),
    ]


@staged(controller=ON, broker=ON)
async def test_r_54_delayed_records_that_are_forwarded_again_are_told(stage: Stage) -> None:
    await delay_topic(stage)
    await park(stage, (b"a", 100))
    await until_idle(stage)
    stage.invariants.forwards.may_repeat = True
    here, feed = TopicPartition("later", 0), leader_feed(stage)
    await stage.admin(lambda admin: admin.refire_forwarded(here, from_offset=50))
    assert await stage.admin(lambda admin: admin.refire_forwarded(here)) == 1
    await stage.until(lambda: feed.told == 1, "it is told", 30)
    told = [each for each in await until_written(stage) if each["type"] != CHANGE]
    assert [(each["data"]["action"], each["data"]["changes"]) for each in told] == [
        (
            "RefireForwarded",
            [
                {
                    "resource": "partition/later-0",
                    "aspect": "forwarded again",
                    "before": None,
                    "after": "1 records",
                }
            ],
        )
    ]


def leader_feed(stage: Stage) -> AuditFeed:
    """Return what the leader of the delay topic tells."""
    return stage.broker(stage.state("later").leader).parts.edge.audit_feed
