"""Scenarios R: times that brokers record of sampled batches, and what is told of them."""

import json

import pytest

from minikafka import Acl, AclOperation, AclPattern, AclPermission, AclResource
from minikafka.client.admin.config_types import ConfigChange, ConfigResource
from minikafka.client.cli.trace import json_lines, lines_of, search_lines
from minikafka.client.consumer.header_search import Searched, find_by_header
from minikafka.client.consumer.time_lines import Moment, TimeLine, What
from minikafka.client.errors import AdminError, DeliveryFailed
from minikafka.client.group_types import OffsetAndMetadata
from minikafka.client.producer.producer import Producer
from minikafka.protocol.compression import Codec
from minikafka.protocol.messages.elect_leaders import ElectionType
from minikafka.protocol.messages.incremental_alter_configs import ConfigOperation
from minikafka.protocol.trace_points import Part, Written, decode
from minikafka.protocol.types import TRACE_TOPIC, TopicPartition

from ..simulation.scraper import METRICS, exposition
from ..simulation.stage import Stage, staged
from ..support.scrape import Scrape
from .delay_stage import delay_topic, park, until_idle
from .test_r_trace import PARENT, trace, with_producer

EVERY = "minikafka.trace.every"
TRACED = {EVERY: "4"}
MIN_ISR = {"min.insync.replicas": "2"}
HERE = TopicPartition("t", 0)
WRITTEN = [What.APPENDED, What.REPLICATED, What.REPLICATED, What.COMMITTED]


def whats(line: TimeLine) -> list[What]:
    return [each.what for each in line.moments]


def moment(line: TimeLine, what: What) -> Moment:
    (found,) = (each for each in line.moments if each.what is what)
    return found


async def until_sent(stage: Stage) -> None:
    """Wait until all brokers have sent what they know."""

    def is_sent() -> bool:
        running = [each for each, daemon in stage.cluster.brokers.items() if daemon.service]
        return not any(stage.broker(each).parts.edge.tracing.is_busy for each in running)

    await stage.until(is_sent, "all trace points are sent", 60)


async def lines(stage: Stage, offset: int, topic: str = "t") -> dict[int, TimeLine]:
    """The time lines near a record by base offset, once all brokers have sent what they know."""
    await until_sent(stage)
    times = (await trace(stage, topic, offset)).times
    assert not times.is_cut
    return {each.base_offset: each for each in times.lines}


async def told(stage: Stage, offset: int) -> list[Part]:
    """What brokers have written down about an offset of "t"."""
    await until_sent(stage)
    client, consumer = await stage.consumer()
    places = [TopicPartition(TRACE_TOPIC, index) for index in range(8)]

    async def ask() -> list[Part]:
        consumer.assign(places)
        ends = await consumer.end_offsets(places)
        found: list[Part] = []
        while any([await consumer.position(each) < ends[each] for each in places]):
            for record in await consumer.poll(timeout_ms=500):
                read = decode(record.key, record.value)
                if read is not None and read[0].offset == offset:
                    found.append(read[1])
        return found

    return await client.ask(ask)


async def line(stage: Stage, offset: int, topic: str = "t") -> TimeLine:
    """The time line of the batch with this record."""
    found = (await lines(stage, offset, topic)).values()
    return next(each for each in found if each.base_offset <= offset <= each.last_offset)


async def produce(stage: Stage, count: int = 6, topic: str = "t") -> None:
    async def send(producer: Producer) -> None:
        for value in range(count):
            await producer.send(topic, b"%d" % value, partition=0)

    await with_producer(stage, send, client_id="shop")


async def commit(stage: Stage, offset: int, group: str = "g") -> None:
    at = {HERE: OffsetAndMetadata(offset)}
    await stage.admin(lambda admin: admin.alter_group_offsets(group, at))


async def set_every(stage: Stage, value: str, broker: int | None = None) -> None:
    resource = ConfigResource.broker(broker)
    change = [ConfigChange(EVERY, value, ConfigOperation.SET)]
    await stage.admin(lambda admin: admin.incremental_alter_configs({resource: change}))


@staged(broker=TRACED)
async def test_r_52_sampled_batches_tell_their_times_or_what_is_missing_after_a_failover(
    stage: Stage,
) -> None:
    await stage.create_topic("t", [[1, 2, 3]], configs=MIN_ISR)
    await produce(stage)
    assert len(await stage.read("t")) == 6
    await commit(stage, 6)
    told = await lines(stage, 0)
    assert whats(told[0]) == [*WRITTEN, What.FETCHED, What.PASSED]
    await produce(stage)
    stage.kill(1)
    await stage.until(lambda: stage.state("t").leader != 1, "another leader")
    leader = stage.state("t").leader
    await produce(stage)
    await commit(stage, 18)
    told = await lines(stage, 4)
    assert list(told) == [0, 4, 8]
    own, lost = told[4], told[8]
    assert whats(own) == [*WRITTEN, What.FETCHED, What.PASSED]
    appended = moment(own, What.APPENDED)
    assert (appended.broker, appended.who) == (1, "shop at 10.0.0.6")
    assert moment(own, What.PASSED).who == "g"
    assert own.missing == ()
    assert whats(lost) == [What.PASSED]
    (why,) = lost.missing
    assert why == "appended and committed: nothing was told; did its leader stop before?"
    told = await lines(stage, 12)
    after = told[12]
    # The command that looked a moment ago has fetched it, too.
    expected = [What.APPENDED, What.REPLICATED, What.COMMITTED, What.FETCHED, What.PASSED]
    assert whats(after) == expected
    assert moment(after, What.COMMITTED).broker == leader
    assert (await lines(stage, 17))[16].missing == ()
    traced = await trace(stage, "t", 4)
    shown = "\n".join(lines_of(traced))
    assert "Times of offsets 4 to 4, its batch" in shown
    assert "broker 1: appended, from shop at 10.0.0.6" in shown
    assert "not known: appended and committed" in shown
    document = json.loads(json_lines(traced)[0])
    assert [each["offset"] for each in document["times"]["lines"]] == [0, 4, 8]


@staged(broker=TRACED)
async def test_r_52_a_batch_that_is_not_committed_says_why(stage: Stage) -> None:
    await stage.create_topic("t", [[1, 2, 3]])
    await produce(stage, 1)
    stage.cut(1, 2, 3)
    await stage.send("t", b"1", b"2", b"3", b"4", acks="1")
    await stage.admin(lambda admin: admin.alter_partition_reassignments({HERE: [2, 3, 1]}))
    await stage.admin(lambda admin: admin.elect_leaders(ElectionType.PREFERRED, [HERE]))
    await stage.until(lambda: stage.state("t").leader == 2, "another leader")
    stage.heal()
    await stage.until(lambda: stage.partition(1, "t").leader is None, "it follows")
    (lost,) = await told(stage, 4)
    assert isinstance(lost, Written)
    assert (lost.broker, lost.committed_ms, lost.in_sync) == (1, -1, (1, 2, 3))
    assert lost.why == "its leader epoch has ended"


@staged(broker=TRACED)
async def test_r_52_offsets_of_a_transaction_pass_at_its_end(stage: Stage) -> None:
    await stage.create_topic("t", [[1, 2, 3]])
    await produce(stage, 5)

    async def send(producer: Producer) -> None:
        await producer.begin_transaction()
        await producer.send_offsets({HERE: OffsetAndMetadata(3)}, "aborted")
        await producer.abort_transaction()
        await producer.begin_transaction()
        await producer.send_offsets({HERE: OffsetAndMetadata(3)}, "committed")
        assert What.PASSED not in whats((await lines(stage, 0))[0])
        await producer.commit_transaction()

    await with_producer(stage, send, transactional_id="x")
    passed = moment((await lines(stage, 0))[0], What.PASSED)
    assert (passed.who, passed.detail) == ("committed", "3, in a transaction")


@staged(broker={EVERY: "1"})
async def test_r_52_forwarded_records_tell_when_they_were_planned_and_are_there(
    stage: Stage,
) -> None:
    await delay_topic(stage)
    await park(stage, (b"a", 300), (b"b", 600))
    await until_idle(stage)
    own = await line(stage, 1, "later")
    planned, forwarded = moment(own, What.PLANNED), moment(own, What.FORWARDED)
    assert (forwarded.detail, forwarded.broker) == ("record 1: partition 0, offset 1", 1)
    assert moment(own, What.APPENDED).ms <= planned.ms - 600 <= forwarded.ms
    there = await line(stage, 1, "now")
    assert moment(there, What.APPENDED).who.startswith("broker-1 at ")
    assert What.COMMITTED in whats(there)


@staged(broker={EVERY: "1"})
async def test_r_52_a_batch_of_many_records_has_one_time_line_and_a_repeat_none(
    stage: Stage,
) -> None:
    await stage.create_topic("t", [[1]])

    async def send(producer: Producer) -> None:
        sent = [producer.send("t", b"%d" % value, partition=0) for value in range(20)]
        for each in sent:
            await each

    await with_producer(stage, send)
    await with_producer(stage, send)
    own = await line(stage, 10)
    assert whats(own) == [What.APPENDED, What.COMMITTED]


@staged()
async def test_r_52_while_nothing_is_sampled_nothing_is_written_and_it_can_be_turned_on(
    stage: Stage,
) -> None:
    await stage.create_topic("t", [[1, 2, 3]])
    await produce(stage)
    times = (await trace(stage, "t", 0)).times
    assert (times.lines, times.why) == ((), f"not recorded: {EVERY} is 0 (docs/trace.md)")
    assert "Times: not recorded" in "\n".join(lines_of(await trace(stage, "t", 0)))
    assert TRACE_TOPIC not in stage.image().topic_ids
    for value, broker, why in (
        ("3", None, "is no power of two, such as 2 or 4"),
        ("-1", None, "must be at least 0"),
        ("4", 1, "cannot differ between brokers"),
    ):
        with pytest.raises(AdminError, match=why):
            await set_every(stage, value, broker)
    await set_every(stage, "2")
    await produce(stage, 2)
    assert list(await lines(stage, 6)) == [6]
    topic = stage.image().topic(TRACE_TOPIC)
    assert topic is not None
    assert {len(each.replicas) for each in topic.partitions.values()} == {3}
    assert (await trace(stage, "t", 0)).times.lines[0].base_offset == 6
    await set_every(stage, "0")
    await produce(stage, 2)
    assert list(await lines(stage, 8)) == [6]
    assert all(stage.partition(each, "t").traced is None for each in (1, 2, 3))


@staged(broker={EVERY: "1024", "minikafka.trace.headers": "true"})
async def test_r_53_a_sampled_context_is_traced_and_a_malformed_one_is_ignored(
    stage: Stage,
) -> None:
    await stage.create_topic("t", [[1, 2, 3]])
    values = [b"", PARENT, PARENT[:-1] + b"0", b"00-" + b"0" * 52, PARENT + b"\n", b"\xff" * 55]

    async def send(producer: Producer) -> None:
        for value in values:
            await producer.send("t", value, headers=[("traceparent", value)], partition=0)

    await with_producer(stage, send)
    await with_producer(stage, send, compression_type=Codec.LZ4.name.lower())
    assert await stage.read("t") == values * 2
    for offset in range(12):
        record = (await trace(stage, "t", offset)).record
        assert record.headers == (("traceparent", values[offset % 6]),)
    assert list(await lines(stage, 1)) == [0, 1, 7]
    assert list(await lines(stage, 5)) == [1, 7]
    own = (await lines(stage, 7))[7]
    assert own.trace_id == "4bf92f3577b34da6a3ce929d0e0e4736"
    assert f"trace {own.trace_id}" in "\n".join(lines_of(await trace(stage, "t", 7)))


@staged(broker={EVERY: "1024", "minikafka.trace.headers": "true", "minikafka.trace.rate": "1"})
async def test_r_53_contexts_are_traced_up_to_a_rate(stage: Stage) -> None:
    await stage.create_topic("t", [[1, 2, 3]])

    async def send(producer: Producer) -> None:
        for _ in range(4):
            await producer.send("t", b"", headers=[("traceparent", PARENT)], partition=0)

    await with_producer(stage, send)
    await stage.sleep(1.1)
    await with_producer(stage, send)
    assert list(await lines(stage, 1)) == [0, 1, 4]


@staged(broker=TRACED)
async def test_clients_write_no_trace_points_and_may_delete_their_topic(stage: Stage) -> None:
    await stage.create_topic("t", [[1, 2, 3]])
    await produce(stage)
    await lines(stage, 0)

    async def send(producer: Producer) -> None:
        with pytest.raises(DeliveryFailed, match="INVALID_TOPIC_EXCEPTION"):
            await producer.send(TRACE_TOPIC, b"forged", partition=0)

    await with_producer(stage, send)
    await stage.delete_topic(TRACE_TOPIC)
    await produce(stage)
    assert 8 in await lines(stage, 8)


@pytest.mark.moves("minikafka_trace_recorded_total")
@staged(broker={**METRICS, **TRACED})
async def test_trace_points_are_counted(stage: Stage) -> None:
    def recorded() -> float:
        text = exposition(stage.daemon(1))
        assert text is not None
        return Scrape.of(text)("minikafka_trace_recorded_total")

    await stage.create_topic("t", [[1, 2, 3]])
    assert recorded() == 0
    await produce(stage)
    await stage.until(lambda: recorded() == 2, "offsets 0 and 4")


@staged()
async def test_records_are_found_by_a_header_within_a_bound(stage: Stage) -> None:
    await stage.create_topic("t", [[1, 2, 3], [2, 3, 1]])

    async def send(producer: Producer) -> None:
        for value in range(20):
            headers = [("other", b"7"), ("id", b"%d" % (value % 10))]
            await producer.send("t", b"", headers=headers, partition=value % 2)

    await with_producer(stage, send)
    client, consumer = await stage.consumer()
    young_ms = client.runtime.wall_ms() - 60_000

    async def search(header: tuple[str, bytes], since_ms: int, most: int) -> Searched:
        return await client.ask(lambda: find_by_header(consumer, "t", header, since_ms, most))

    found = await search(("id", b"7"), young_ms, 1000)
    assert sorted((each.partition, each.offset) for each in found.found) == [(1, 3), (1, 8)]
    assert (found.looked_at, found.is_cut) == (20, False)
    assert search_lines(found, is_json=False)[-1] == "2 found, 20 looked at"
    assert json.loads(search_lines(found, is_json=True)[0])["partition"] == 1
    none = await search(("id", b"7"), client.runtime.wall_ms() + 60_000, 1000)
    assert (len(none.found), none.looked_at, none.is_cut) == (0, 0, False)
    cut = await search(("id", b"none"), young_ms, 5)
    assert cut.is_cut
    assert "not looked at" in search_lines(cut, is_json=False)[-1]


OPEN = {
    "authorizer.class.name": "StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}


@staged(broker={**TRACED, **OPEN}, controller=OPEN)
async def test_who_may_not_read_the_topic_is_told_so_beside_the_facts(stage: Stage) -> None:
    await stage.create_topic("t", [[1, 2, 3]])
    await produce(stage, 1)
    assert list(await lines(stage, 0)) == [0]
    for operation in (AclOperation.READ, AclOperation.DESCRIBE):
        acl = Acl(
            resource_type=AclResource.TOPIC,
            resource_name=TRACE_TOPIC,
            pattern_type=AclPattern.LITERAL,
            principal="User:ANONYMOUS",
            host="*",
            operation=operation,
            permission=AclPermission.DENY,
        )
        await stage.admin(lambda admin, acl=acl: admin.create_acls([acl]))  # type: ignore[misc]
        await stage.sleep(0.5)
        times = (await trace(stage, "t", 0)).times
        assert times.lines == ()
        assert times.why.startswith("not told: ")
        assert "AUTHORIZATION" in times.why
