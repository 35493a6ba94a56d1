"""Scenarios S: quotas that an admin sets, in a cluster."""

import asyncio
from functools import partial

from minikafka import QuotaEntity
from minikafka.broker.admission.rates import BURST_MS
from minikafka.client.errors import ConnectError, ConnectionLost
from minikafka.client.net.connection import KafkaConnection

from ..simulation.cluster import BROKER_PORT
from ..simulation.stage import Client, Stage, staged

MANY = 30
AT_ONCE = BURST_MS // 1000
"""After a silence, the connections that a rate of one a second lets in at once."""


async def served(client: Client, broker_id: int) -> int:
    """Connect many times at once; return how often the broker answered."""

    async def connect() -> bool:
        try:
            one = await KafkaConnection.open(client.runtime, f"broker-{broker_id}", BROKER_PORT)
        except (ConnectError, ConnectionLost):
            return False
        await one.close()
        return True

    async def everyone() -> int:
        return sum(await asyncio.gather(*(connect() for _ in range(MANY))))

    return await client.ask(everyone)


def knows(stage: Stage, broker_id: int, offset: int) -> bool:
    """True if the broker has replayed the metadata up to that offset."""
    return stage.broker(broker_id).parts.follower.image.offset >= offset


async def set_rate(stage: Stage, address: str, rate: float | None) -> None:
    """Set the quota of an address, and wait until every broker knows it."""
    changes = {QuotaEntity(ip=address): {"connection_creation_rate": rate}}
    await stage.admin(lambda admin: admin.alter_client_quotas(changes))
    offset = stage.image().offset
    for broker in (1, 2, 3):
        await stage.until(partial(knows, stage, broker, offset), f"broker {broker} knows it")


@staged(brokers=3)
async def test_s_47_the_quota_of_an_address_holds_at_each_broker_and_for_nobody_else(
    stage: Stage,
) -> None:
    """Given a quota of one connection a second for an address, when many come from it at once,
    then each broker serves as many as it may in the time of a burst, and all of another address;
    when the quota is removed, then all are served."""
    fast, slow = await stage.client("fast"), await stage.client("slow")
    address = stage.world.network.names["fast"]
    await set_rate(stage, address, 1.0)
    for broker in (1, 2, 3):
        assert await served(fast, broker) == AT_ONCE
        assert await served(slow, broker) == MANY
    await set_rate(stage, address, None)
    for broker in (1, 2, 3):
        assert await served(fast, broker) == MANY
