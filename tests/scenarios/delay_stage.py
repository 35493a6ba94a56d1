"""What the scenarios of delay topics share: the topics, parked records, and what has arrived."""

from collections.abc import Mapping

from minikafka.broker.forward.source import Source
from minikafka.client.producer.producer import Producer
from minikafka.client.records import ConsumerRecord
from minikafka.protocol.delays import DELAY_MS, DELIVER_AT
from minikafka.protocol.types import TopicPartition

from ..simulation.stage import Client, Stage

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
