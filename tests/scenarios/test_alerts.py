"""Each alert fires by its real cause, not before, and clears when that is mended.

The clusters are simulated ones, of the product's own daemons; they are scraped as Prometheus does
it, and promtool evaluates the generated rules over what was told.
"""

import asyncio
import errno
import shutil
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from minikafka import ElectionType
from minikafka.broker.audit import writer
from minikafka.protocol.types import AUDIT_TOPIC, TopicPartition
from minikafka.runtime.errors import MinikafkaError

from ..deploy.test_generate import ALERTS, METRIC, generate
from ..simulation.scraper import METRICS, Scraper
from ..simulation.stage import Stage
from .test_r_audit import ON as AUDITED
from .test_r_audit import create_by, led_by_another, until_written

PROMTOOL = shutil.which("promtool")
pytestmark = pytest.mark.peers
NAMES = [name for alert in ALERTS for name in METRIC.findall(alert.expr)]
STORY_SECONDS = 3600.0
WRITE_EVERY_S = 10
MIN_2 = {"min.insync.replicas": "2"}
Story = Callable[[Stage, Scraper], Coroutine[Any, Any, None]]


@pytest.fixture
def play(tmp_path: Path) -> Callable[..., None]:
    """Tell a story to a cluster, and have promtool judge what it expected."""
    if PROMTOOL is None:
        pytest.skip("there is no promtool here (Debian: apt-get install prometheus)")
    promtool = PROMTOOL

    def play(
        story: Story,
        *,
        controllers: int = 1,
        broker: Mapping[str, str] | None = None,
        controller: Mapping[str, str] | None = None,
    ) -> None:
        stage = Stage(
            controllers=controllers,
            broker={**METRICS, **(broker or {})},
            controller={**METRICS, **(controller or {})},
        )

        async def whole(stage: Stage) -> Scraper:
            await stage.create_topic("orders", [[1, 2, 3]], configs=MIN_2)
            scraper = Scraper(stage, "minikafka", NAMES)
            await story(stage, scraper)
            return scraper

        scraper = stage.play(whole, seconds=STORY_SECONDS)
        rules = tmp_path / "alerts.yml"
        generate("alerts", "--topics", "orders", "--output", str(rules))
        scraper.judge(promtool, rules)

    return play


def write_on(stage: Stage) -> asyncio.Future[None]:
    """Write a record now and then until this is cancelled; what is refused is given up."""

    async def write() -> None:
        while True:
            with suppress(MinikafkaError):
                await stage.send("orders", b"one")
            await stage.sleep(WRITE_EVERY_S)

    return asyncio.ensure_future(write())


def test_every_alert_has_its_story() -> None:
    stories = Path(__file__).read_text()
    assert [alert.name for alert in ALERTS if f'"{alert.name}"' not in stories] == []


def test_deaths_of_brokers_and_an_unclean_election(play: Callable[..., None]) -> None:
    dead = ["UnderReplicatedPartitions", "FencedBrokers", "ScrapeProblem"]

    async def story(stage: Stage, scraper: Scraper) -> None:
        write_on(stage)
        await stage.create_topic("pair", [[3, 2]], configs={"min.insync.replicas": "1"})
        await scraper.minutes(2)
        scraper.expect()
        stage.kill(2)
        await stage.sleep(30)
        scraper.expect()
        await scraper.minutes(1.5)
        scraper.expect(*dead)
        stage.kill(3)
        await scraper.minutes(1.5)
        scraper.expect(*dead, "OfflinePartitions", "UnderMinIsrPartitionCount")
        stage.start(2)
        await stage.ready(2)
        pair = [TopicPartition("pair", 0)]
        await stage.admin(lambda admin: admin.elect_leaders(ElectionType.UNCLEAN, pair))
        await scraper.minutes(1.5)
        scraper.expect(*dead, "UncleanElection")
        stage.start(3)
        await stage.ready(3)
        await scraper.minutes(1)
        scraper.expect("UncleanElection")
        await scraper.minutes(10)
        scraper.expect()

    play(story)


def test_no_majority_of_controllers(play: Callable[..., None]) -> None:
    async def story(stage: Stage, scraper: Scraper) -> None:
        await scraper.minutes(2)
        scraper.expect()
        stage.kill("controller-1")
        await scraper.minutes(2)
        scraper.expect("ScrapeProblem")
        stage.kill("controller-2")
        await scraper.minutes(2)
        scraper.expect("ScrapeProblem", "AbnormalControllerState")
        stage.start("controller-1", "controller-2")
        await stage.begin()
        await scraper.minutes(2)
        scraper.expect()

    play(story, controllers=3)


def test_a_deposed_controller_that_does_not_notice(play: Callable[..., None]) -> None:
    async def story(stage: Stage, scraper: Scraper) -> None:
        await scraper.minutes(1)
        deposed = stage.active_name()
        assert deposed is not None
        write_on(stage)
        stage.isolate(deposed)
        await scraper.minutes(8)
        scraper.expect()
        await scraper.minutes(2)
        assert stage.controller(deposed).is_active
        scraper.expect("AbnormalControllerState")
        await scraper.minutes(3)
        assert not stage.controller(deposed).is_active
        scraper.expect()
        stage.heal()

    # The others elect after this time, and the deposed controller resigns after 1.5 times as long.
    play(story, controllers=3, controller={"controller.quorum.fetch.timeout.ms": "480000"})


def test_no_controller_at_all(play: Callable[..., None]) -> None:
    async def story(stage: Stage, scraper: Scraper) -> None:
        await scraper.minutes(1)
        stage.kill("controller-1")
        await scraper.minutes(2)
        scraper.expect("ScrapeProblem", "AbnormalControllerState")
        stage.start("controller-1")
        await stage.begin()
        await scraper.minutes(2)
        scraper.expect()

    play(story)


def test_a_disk_that_fails(play: Callable[..., None]) -> None:
    async def story(stage: Stage, scraper: Scraper) -> None:
        write_on(stage)
        await scraper.minutes(2)
        scraper.expect()
        directory = stage.partition(2, "orders").log.directory
        disk = stage.disk(2)
        disk.fail_write = lambda path: errno.EIO if path.startswith(directory) else None
        await scraper.minutes(0.5)
        scraper.expect("OfflineLogDirectoryCount")
        await scraper.minutes(1)
        scraper.expect("OfflineLogDirectoryCount", "UnderReplicatedPartitions")
        disk.mend()
        stage.restart(2)
        await stage.ready(2)
        await scraper.minutes(1)
        scraper.expect()

    play(story, broker={"log.dirs": "/data/one,/data/two"})


def test_records_fill_a_disk(play: Callable[..., None]) -> None:
    async def story(stage: Stage, scraper: Scraper) -> None:
        write_on(stage)
        await stage.create_topic("large", [[1]], configs={"segment.bytes": "500000"})
        disk = stage.disk(1)
        disk.capacity = disk.used() + 4_000_000
        await scraper.minutes(6)
        scraper.expect()
        await stage.send("large", *[b"x" * 90_000] * 40)
        await scraper.minutes(4)
        scraper.expect()
        await scraper.minutes(2)
        scraper.expect("RunningOutOfSpace")
        await stage.alter_configs("large", {"retention.bytes": "1000000"})
        await scraper.minutes(7)
        scraper.expect()

    play(story)


def test_a_daemon_that_stands_still_again_and_again(play: Callable[..., None]) -> None:
    async def story(stage: Stage, scraper: Scraper) -> None:
        write_on(stage)

        async def stall() -> None:
            while True:
                stage.pause(2)
                await stage.sleep(0.4)
                stage.resume(2)
                await stage.sleep(2.1)

        await scraper.minutes(2)
        scraper.expect()
        stalling = asyncio.ensure_future(stall())
        await scraper.minutes(4)
        scraper.expect()
        await scraper.minutes(3)
        scraper.expect("EventLoopDelay")
        stalling.cancel()
        stage.resume(2)
        await scraper.minutes(3)
        scraper.expect()

    play(story)


def test_requests_that_arrive_byte_by_byte(play: Callable[..., None]) -> None:
    """Each client is closed if it sends nothing for half a minute; these send a byte in time."""
    caps = {"queued.max.request.bytes": "2097152", "socket.request.max.bytes": "2097152"}

    async def story(stage: Stage, scraper: Scraper) -> None:
        write_on(stage)
        client = await stage.client()

        async def trickle() -> None:
            _, writer = await asyncio.open_connection("broker-1", 9092)
            writer.write((130_000).to_bytes(4, "big") + b"\x00\x03" + bytes(100_000))
            try:
                while True:
                    writer.write(b"\x00")
                    await asyncio.sleep(10)
            finally:
                writer.close()

        await scraper.minutes(2)
        scraper.expect()
        slow = [asyncio.ensure_future(client.ask(trickle)) for _ in range(15)]
        await scraper.minutes(4)
        scraper.expect()
        await scraper.minutes(2)
        scraper.expect("MemoryNearCap")
        for each in slow:
            each.cancel()
        await scraper.minutes(1)
        scraper.expect()

    play(story, broker=caps)


def test_a_group_whose_only_member_dies(play: Callable[..., None]) -> None:
    async def story(stage: Stage, scraper: Scraper) -> None:
        write_on(stage)

        async def read_on(name: str) -> None:
            client, consumer = await stage.consumer(name, group_id="billing")
            await client.ask(lambda: consumer.subscribe(["orders"]))
            # It dies with its process, and nobody waits for it.
            client.now(client.runtime.spawn, _read(consumer), "reads")

        await read_on("one")
        await scraper.minutes(12)
        scraper.expect()
        stage.world.kill(stage.world.processes["one"])
        await scraper.minutes(9)
        scraper.expect()
        await scraper.minutes(3)
        scraper.expect("ConsumerGroupLag")
        await read_on("two")
        await scraper.minutes(2)
        scraper.expect()

    play(story)


def test_a_target_that_refuses_a_record(play: Callable[..., None]) -> None:
    async def story(stage: Stage, scraper: Scraper) -> None:
        write_on(stage)
        await stage.create_topic("now", 1, configs={"max.message.bytes": "500"})
        await stage.create_topic("later", 1, configs={"minikafka.delay.target": "now"})
        await stage.send("later", b"small")
        await scraper.minutes(6)
        scraper.expect()
        await stage.send("later", b"x" * 600)
        await scraper.minutes(4)
        scraper.expect()
        await scraper.minutes(3)
        scraper.expect("RecordsNotForwarded")
        await stage.alter_configs("now", {"max.message.bytes": "5000"})
        await scraper.minutes(2)
        scraper.expect()

    play(story)


def test_an_audit_topic_that_cannot_be_written(play: Callable[..., None]) -> None:
    async def story(stage: Stage, scraper: Scraper) -> None:
        write_on(stage)
        await until_written(stage)
        await scraper.minutes(2)
        with pytest.MonkeyPatch.context() as patch:
            # As if the log had records and no event.
            patch.setattr(writer, "link_behind", lambda _: None)
            before = stage.state(AUDIT_TOPIC).leader
            leader = await led_by_another(stage)
            await create_by(stage, leader, "second")
            stage.restart(before)
            await stage.ready(before)
            await scraper.minutes(4)
            scraper.expect()
            await scraper.minutes(3)
            scraper.expect("AuditNotWritten")
        await scraper.minutes(2)
        scraper.expect()

    play(story, controller=AUDITED)


async def _read(consumer: Any) -> None:
    while True:
        await consumer.poll(timeout_ms=5_000)


def test_a_producer_that_stops(play: Callable[..., None]) -> None:
    async def story(stage: Stage, scraper: Scraper) -> None:
        writing = write_on(stage)
        await scraper.minutes(6)
        writing.cancel()
        await scraper.minutes(19)
        scraper.expect()
        await scraper.minutes(3)
        scraper.expect("NoMessagesForTooLong")
        write_on(stage)
        await scraper.minutes(1)
        scraper.expect()

    play(story)
