"""Scenario R-52 at its size: a million records at 1 in 1,024, and a leader killed midway."""

import asyncio

from minikafka.client.consumer.time_lines import TimeLine, Told, What, time_lines
from minikafka.client.producer.columns import Columns
from minikafka.client.producer.producer import Producer
from minikafka.protocol.trace_points import decode
from minikafka.protocol.types import TRACE_TOPIC, TopicPartition

from ..simulation.stage import Stage, staged
from .test_r_trace import with_producer
from .test_r_trace_points import EVERY, MIN_ISR, commit, until_sent

RECORDS = 1_000_000
BATCH = 2_000
SAMPLED = 1_024


async def all_told(stage: Stage) -> list[Told]:
    """Everything that is written down, as it was written."""
    client, consumer = await stage.consumer()
    places = [TopicPartition(TRACE_TOPIC, index) for index in range(8)]

    async def ask() -> list[Told]:
        consumer.assign(places)
        ends = await consumer.end_offsets(places)
        found = []
        while any([await consumer.position(each) < ends[each] for each in places]):
            found += [decode(each.key, each.value) for each in await consumer.poll(timeout_ms=500)]
        return [each for each in found if each is not None]

    return await client.ask(ask)


def lines_by_offset(told: list[Told], offsets: range) -> dict[int, TimeLine]:
    """The time line of each offset, as a question near it would find it."""
    found = {}
    for offset in offsets:
        lines = time_lines(told, offset)
        found[offset] = next(x for x in lines if x.base_offset <= offset <= x.last_offset)
    return found


@staged(broker={EVERY: str(SAMPLED)})
async def test_r_52_of_a_million_records_each_point_is_told_or_says_what_is_missing(
    stage: Stage,
) -> None:
    await stage.create_topic("t", [[1, 2, 3]], configs=MIN_ISR)
    values = [b"%d" % each for each in range(BATCH)]

    async def send(producer: Producer) -> None:
        for at in range(0, RECORDS, BATCH):
            if at == RECORDS // 2:
                stage.kill(1)
            await producer.send_batch("t", Columns(values), partition=0)
            await asyncio.sleep(0.01)

    await with_producer(stage, send, batch_size="65536")
    assert stage.state("t").leader != 1
    stage.restart(1)
    await stage.ready(1)
    for offset in range(RECORDS // 10, RECORDS + 1, RECORDS // 10):
        await commit(stage, offset)
    await until_sent(stage)
    lines = lines_by_offset(await all_told(stage), range(0, RECORDS, SAMPLED))
    assert len(lines) == 977
    unsure = 0
    for line in lines.values():
        whats = {each.what for each in line.moments}
        assert What.PASSED in whats
        if not {What.APPENDED, What.COMMITTED} <= whats:
            assert line.missing
            unsure += 1
    assert 0 < unsure < 200
