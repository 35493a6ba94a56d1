"""Commit groups: transactions of several producers, committed by one decision of a driver.

The product's daemons, producers and admin, in the simulator. Broker 1 coordinates, 2 and 3 could.
"""



from minikafka.aio import Admin
from minikafka.broker.transaction.commit_group import CommitGroup
from minikafka.broker.transaction.transaction import State
from minikafka.client.commit_group_types import PreparedTransaction
from minikafka.protocol.commit_groups import member_id
from minikafka.protocol.errors import ErrorCode

from ..simulation.stage import Stage, StageProducer, staged
from .test_h_transactions_2 import begin, committed, coordinated, coordinator

GROUP = "sink"
PLACES = [[2, 3, 4], [3, 4, 2], [4, 2, 3]]


async def prepared_stage(stage: Stage) -> None:
    """Partitions of "t" are led by brokers that coordinate nothing."""
    await coordinated(stage)
    await stage.create_topic("t", PLACES, configs={"min.insync.replicas": "2"})


async def task(stage: Stage, partition: int, attempt: int = 0, **settings: object) -> StageProducer:
    """The producer of one attempt at one partition's work."""
    name = member_id(GROUP, partition, 0, attempt)
    return await stage.producer(transactional_id=name, **settings)


async def prepare(producer: StageProducer) -> PreparedTransaction:
    found = await producer.client.ask(producer.producer.prepare_transaction)
    assert found is not None
    return found


async def work(stage: Stage, batch: int, count: int = 3) -> list[PreparedTransaction]:
    """Each task writes one record, by a producer of its own, and leaves its transaction open."""
    found = []
    for index in range(count):
        producer = await task(stage, index)
        await begin(producer)
        await producer.send("t", b"%d/%d" % (batch, index), index)
        found.append(await prepare(producer))
        await producer.close()
    return found


async def take_over(stage: Stage, run: str = "run") -> int:
    async def do(admin: Admin) -> int:
        return (await admin.init_commit_group(GROUP, run)).generation

    return await stage.admin(do)


async def commit(
    stage: Stage, batch: int, transactions: list[PreparedTransaction], generation: int = 0
) -> bool:
    async def do(admin: Admin) -> bool:
        return await admin.commit_group(GROUP, generation, batch, transactions)

    return await stage.admin(do)


def group(stage: Stage) -> CommitGroup | None:
    """As the coordinator has committed it; None where it cannot say."""
    there = coordinator(stage)
    if there < 0 or not stage.daemon(there).alive:
        return None
    shard = stage.broker(there).edge.transactions.shards.at(0)
    return None if isinstance(shard, ErrorCode) else shard.state.groups.get(GROUP)


def states(stage: Stage) -> dict[str, State]:
    """Of every id of the group, as its coordinator has committed it; empty where it cannot say."""
    there = coordinator(stage)
    if there < 0 or not stage.daemon(there).alive:
        return {}
    shard = stage.broker(there).edge.transactions.shards.at(0)
    if isinstance(shard, ErrorCode):
        return {}
    return {each.transactional_id.partition("/")[2]: each.state for each in shard.state}


def are_all(stage: Stage, state: State) -> bool:
    found = states(stage)
    return bool(found) and all(each is state for each in found.values())


async def seen(stage: Stage) -> list[list[bytes]]:
    return [await committed(stage, "t", index) for index in range(3)]


@staged(brokers=4)
async def test_what_is_prepared_is_committed_by_one_step(stage: Stage) -> None:
    """Given three tasks that wrote and are gone, their transactions open; then nothing is visible;
    when the driver commits them; then all is, and a second commit of the batch does nothing."""
    await prepared_stage(stage)
    assert await take_over(stage) == 0
    for batch in range(3):
        transactions = await work(stage, batch)
        assert await seen(stage) == [[b"%d/%d" % (n, i) for n in range(batch)] for i in range(3)]
        assert await commit(stage, batch, transactions)
        assert not await commit(stage, batch, transactions)
        await stage.until(lambda: are_all(stage, State.COMPLETE_COMMIT), "the end")
    assert await seen(stage) == [[b"%d/%d" % (n, i) for n in range(3)] for i in range(3)]
