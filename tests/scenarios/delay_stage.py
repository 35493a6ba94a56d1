"""What the scenarios of delay topics share: the topics, parked records, and what has arrived."""

from collections.abc import Callable, Mapping

from minikafka.broker.forward.source import Source
from minikafka.broker.forward.steps import Step, decode
from minikafka.client.producer.producer import Producer
from minikafka.client.records import ConsumerRecord
from minikafka.protocol.delays import DELAY_MS, DELIVER_AT
from minikafka.protocol.records.batch_header import CONTROL_BIT, headers
from minikafka.protocol.records.records import records
from minikafka.protocol.types import TopicPartition

from ..simulation.loop import Process
from ..simulation.stage import Client, Stage
from ..simulation.truth import segments_of

MIN_ISR = {"min.insync.replicas": "2"}
FIXED_100 = {"minikafka.delay.by": "fixed", "minikafka.delay.ms": "100"}


async def delay_topic(
    stage: Stage, settings: Mapping[str, str] | None = None, targets: int = 1
) -> None:
    """Make the topic "later", which broker 1 leads, and its target "now", which broker 2 leads."""
    replicas = [[2, 3, 1], [3, 1, 2], [1, 2, 3]][:targets]
    await stage.create_topic("now", replicas, configs=MIN_ISR)
    configs = {**MIN_ISR, "minikafka.delay.target": "now", **(settings or {})}
    await stage.create_topic("later", [[1, 2, 3]], configs=configs)


async def park(
    stage: Stage,
    *values: tuple[bytes, int],
    header: str = DELAY_MS,
    client: Client | None = None,
    topic: str = "later",
) -> Client:
    """Produce values to a delay topic that are due after so many ms each."""
    client = client or await stage.client()
    runtime = client.runtime

    async def send() -> None:
        bootstrap = stage.cluster.bootstrap
        async with Producer(
            bootstrap_servers=bootstrap, runtime=runtime, linger_ms=0, request_timeout_ms=2_000
        ) as producer:
            now = runtime.wall_ms() if header == DELIVER_AT else 0
            sent = [
                producer.send(topic, value, key=value, headers=[(header, b"%d" % (now + delay_ms))])
                for value, delay_ms in values
            ]
            for each in sent:
                await each

    await client.ask(send)
    return client


async def in_target(stage: Stage, index: int = 0, topic: str = "now") -> list[ConsumerRecord]:
    """Read the committed records that the target holds now."""
    client, consumer = await stage.consumer(isolation_level="read_committed")
    there = TopicPartition(topic, index)

    async def ask() -> list[ConsumerRecord]:
        end = (await consumer.end_offsets([there]))[there]
        consumer.assign([there])
        consumer.seek(there, 0)
        found: list[ConsumerRecord] = []
        while await consumer.position(there) < end:
            found.extend(await consumer.poll(timeout_ms=500))
        await consumer.close()
        return found

    return await client.ask(ask)


def headers_of(record: ConsumerRecord) -> dict[str, bytes | None]:
    return dict(record.headers)


async def until_idle(stage: Stage, seconds: float = 60) -> None:
    """Wait until the leader of "later" has nothing left to forward and has written that down."""

    def is_idle() -> bool:
        leader = stage.state("later").leader
        if leader < 0 or stage.daemon(leader).service is None:
            return False
        partition = stage.partition(leader, "later")
        source = stage.broker(leader).parts.forwarder.sources.get(partition)
        return (
            source is not None
            and source.leading is not None
            and source.schedule.state.folded == partition.log_end_offset
            and not source.pending
            and not source.schedule.state.plans
        )

    await stage.until(is_idle, "everything is forwarded", seconds)


def source_of(stage: Stage, broker: int) -> Source:
    """Return a broker's source of "later"."""
    return stage.broker(broker).parts.forwarder.sources[stage.partition(broker, "later")]


async def planned_once(stage: Stage, settings: Mapping[str, str] | None = None) -> int:
    """Have one record forwarded, so that a later plan needs no new id; return where "later" ends.

    A record that is parked then has this offset, and its plan the next one.
    """
    await delay_topic(stage, settings)
    await park(stage, (b"before", 0))
    await until_idle(stage)
    return stage.partition(1, "later").log_end_offset


class Moment:
    """Calls something at the first step of any process after which a condition is true."""

    def __init__(
        self, stage: Stage, condition: Callable[[], bool], act: Callable[[], None]
    ) -> None:
        self.has_come = False
        loop = stage.world.loop
        check = loop.after_step

        def after_step(process: Process) -> None:
            assert check is not None
            check(process)
            if not self.has_come and condition():
                self.has_come = True
                act()

        loop.after_step = after_step


async def at_once(
    stage: Stage, condition: Callable[[], bool], act: Callable[[], None], what: str
) -> None:
    """Wait until a condition is true, and act before any process takes another step."""
    moment = Moment(stage, condition, act)
    await stage.until(lambda: moment.has_come, what, 30)


def steps_of(stage: Stage, who: int) -> dict[int, Step]:
    """Return the steps in a broker's log of "later" by their offsets, as they are on its disk."""
    key = stage.partition(who, "later").key
    found: dict[int, Step] = {}
    for data in segments_of(stage.daemon(who), key, "later-0"):
        for position, header in headers(data):
            for record in records(data, position) if header.attributes & CONTROL_BIT else ():
                step = decode(record.key, record.value)
                if step is not None:
                    found[record.offset] = step
    return found
