"""Scenarios R: how fast a broker forwards what is due at once."""

from minikafka.client.producer.producer import Producer
from minikafka.protocol.delays import DELIVER_AT

from ..simulation.stage import Stage, staged
from .delay_stage import MIN_ISR, delay_topic, until_idle

RATE = 500_000
COUNT, SIZE = 40, 50_000


async def burst(stage: Stage) -> float:
    """Park 2 MB in "later" and one record in "too", all due at one moment; return it."""
    await delay_topic(stage)
    await stage.create_topic("also", [[2, 3, 1]], configs=MIN_ISR)
    configs = {**MIN_ISR, "minikafka.delay.target": "also"}
    await stage.create_topic("too", [[1, 2, 3]], configs=configs)
    client = await stage.client()
    due_ms = client.runtime.wall_ms() + 8_000
    due_at = stage.now + 8

    async def send() -> None:
        bootstrap = stage.cluster.bootstrap
        async with Producer(bootstrap_servers=bootstrap, runtime=client.runtime) as producer:
            said = [(DELIVER_AT, b"%d" % due_ms)]
            for number in range(COUNT):
                await producer.send("later", b"%03d" % number + b"x" * SIZE, headers=said)
            await producer.send("too", b"one", headers=said)

    await client.ask(send)
    assert stage.now < due_at
    await stage.until(lambda: stage.now >= due_at, "the time at which all are due")
    return due_at


@staged(broker={"minikafka.forward.rate.bytes": str(RATE)})
async def test_r_30_what_is_due_at_once_keeps_the_rate_and_the_order(stage: Stage) -> None:
    due_at = await burst(stage)
    now, also = stage.partition(2, "now"), stage.partition(2, "also")
    await stage.until(lambda: also.high_watermark == 1, "the record of the other source")
    assert now.high_watermark < COUNT / 2
    await until_idle(stage)
    # A second's bytes may go at once, and the last request once those before it are paid for.
    assert stage.now - due_at > COUNT * SIZE / RATE - 2
    found = await stage.read("now")
    assert [value[:3] for value in found] == [b"%03d" % number for number in range(COUNT)]


@staged()
async def test_r_30_without_a_rate_it_goes_as_fast_as_targets_take_it(stage: Stage) -> None:
    """And a rate that is set while the broker runs holds from then on."""
    due_at = await burst(stage)
    await until_idle(stage)
    assert stage.now - due_at < 1.5
    await stage.alter_configs(1, {"minikafka.forward.rate.bytes": "5000"})
    throttle = stage.broker(1).parts.partitions.host.throttles.forward
    await stage.until(lambda: throttle.rate == 5_000, "the rate")
