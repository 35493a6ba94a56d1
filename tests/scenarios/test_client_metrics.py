"""Clients that push their metrics (KIP-714): the product's own client to the product's brokers."""

from minikafka.client.admin.config_types import ConfigChange, ConfigResource
from minikafka.protocol.messages.incremental_alter_configs import ConfigOperation

from ..simulation.scraper import METRICS, exposition
from ..simulation.stage import Stage, StageProducer, staged
from ..support.scrape import Scrape

SENT = "kafka_client_producer_record_send_total"
TAKEN = "kafka_server_client_metrics_plugin_export_total"
BROKERS = (1, 2, 3)
INTERVAL_S = 2


async def subscribe(stage: Stage, metrics: str | None) -> None:
    """Ask all clients for the metrics of this prefix, or for none."""
    kind = ConfigOperation.DELETE if metrics is None else ConfigOperation.SET
    wanted = {"metrics": metrics, "interval.ms": str(INTERVAL_S * 1_000)}
    changes = [
        ConfigChange(key, None if metrics is None else value, kind) for key, value in wanted.items()
    ]
    resource = ConfigResource.client_metrics("all")
    await stage.admin(lambda admin: admin.incremental_alter_configs({resource: changes}))


async def instance_of(producer: StageProducer) -> str:
    return await producer.client.ask(lambda: producer.producer.client_instance_id())


def told(stage: Stage, name: str, **labels: str) -> dict[int, float]:
    """A metric at each broker that runs and has it."""
    found: dict[int, float] = {}
    for broker in BROKERS:
        text = exposition(stage.daemon(broker))
        for value in [] if text is None else Scrape.of(text).every(name, **labels):
            found[broker] = value
    return found


@staged(broker=METRICS)
async def test_a_client_stops_when_nobody_asks_any_more(stage: Stage) -> None:
    await stage.create_topic("t", [[1, 2, 3]])
    await subscribe(stage, "org.apache.kafka.producer.")
    producer = await stage.producer("pusher")
    me = await instance_of(producer)
    await producer.send("t", b"1")
    await stage.sleep(2 * INTERVAL_S)
    assert list(told(stage, SENT, client_instance_id=me).values()) == [1]
    await subscribe(stage, None)
    pushing = producer.producer._engine.reporter._pushing
    await stage.until(
        lambda: pushing.subscription is not None and not pushing.subscription.metrics,
        "it is told that nothing is wanted",
    )
    before = told(stage, TAKEN)
    await stage.sleep(5 * INTERVAL_S)
    assert await instance_of(producer) == me
    await producer.close()
    assert told(stage, TAKEN) == before


@staged(broker=METRICS)
async def test_a_client_that_closes_tells_the_rest(stage: Stage) -> None:
    await stage.create_topic("t", [[1, 2, 3]])
    await subscribe(stage, "*")
    producer = await stage.producer("pusher")
    me = await instance_of(producer)
    for value in (b"1", b"2", b"3"):
        await producer.send("t", value)
    await producer.close()
    assert list(told(stage, SENT, client_instance_id=me).values()) == [3]
