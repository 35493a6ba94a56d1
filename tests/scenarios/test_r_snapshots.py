"""Scenarios R: a broker that starts goes on from the snapshot of its schedules."""

import random
from unittest.mock import patch

from minikafka.broker.forward.schedule import Schedule
from minikafka.broker.partition.own_reading import read_own
from minikafka.broker.partition.partition import Partition
from minikafka.protocol.types import Buffer
from minikafka.storage.files import FORWARD_SCHEDULE

from ..simulation.stage import Stage, staged
from .delay_stage import delay_topic, in_target, park, source_of, until_idle

BROKERS = (1, 2, 3)
LATE = [(b"%d" % each, 20_000 + 100 * each) for each in range(20)]


def path_of(broker: int) -> str:
    return f"/data/broker-{broker}/later-0/{FORWARD_SCHEDULE}"


async def park_all(stage: Stage) -> None:
    await delay_topic(stage)
    await park(stage, *LATE)
    for broker in BROKERS:
        state = source_of(stage, broker).schedule.state
        await stage.until(lambda known=state: known.folded == len(LATE), "all is folded")  # type: ignore[misc]


async def reads_after_start(stage: Stage) -> list[int]:
    """Start all brokers, see that each record arrives; return the offsets that were read."""
    offsets: list[int] = []

    async def noted(partition: Partition, offset: int, end: int) -> Buffer | None:
        offsets.append(offset)
        return await read_own(partition, offset, end)

    with patch("minikafka.broker.forward.schedule.read_own", noted):
        stage.start(*BROKERS)
        for broker in BROKERS:
            await stage.ready(broker)
        await until_idle(stage, 120)
    assert [record.value for record in await in_target(stage)] == [value for value, _ in LATE]
    return offsets


@staged()
async def test_r_31_brokers_that_were_stopped_read_only_what_came_since(stage: Stage) -> None:
    await park_all(stage)
    await stage.stop(*BROKERS)
    assert min(await reads_after_start(stage)) == len(LATE)


@staged()
async def test_r_31_brokers_that_were_killed_go_on_from_the_snapshot_before(stage: Stage) -> None:
    with patch.object(Schedule, "save_after", 10):
        await park_all(stage)
        stage.kill(*BROKERS)
        assert min(await reads_after_start(stage)) >= 10


@staged()
async def test_r_31_a_snapshot_that_is_gone_or_damaged_is_made_anew(stage: Stage) -> None:
    await park_all(stage)
    await stage.stop(*BROKERS)
    dice, disks = random.Random(1), [stage.daemon(broker).host.disk for broker in BROKERS]
    for broker, disk in zip(BROKERS[:2], disks, strict=False):
        size = len(disk.find(path_of(broker)).cache)
        disk.rot(path_of(broker), dice.randrange(size), 1 << dice.randrange(8))
    disks[2].put(path_of(3), b"")
    offsets = await reads_after_start(stage)
    assert offsets.count(0) == len(BROKERS)
    assert sum("all is read" in line for line in stage.logs()) == len(BROKERS)
