"""Two brokers replicating over loopback: a real leader's edge, a real fetcher, real logs."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from minikafka.broker.api.table import make_apis
from minikafka.broker.config import BrokerConfig
from minikafka.broker.edge import Edge, Surroundings
from minikafka.broker.fetcher import FetchSettings
from minikafka.broker.fetchers import ReplicaFetchers
from minikafka.broker.net.connection import Connection
from minikafka.broker.partition import Partition
from minikafka.broker.replica.follower import Phase
from minikafka.protocol.control.image import PartitionState
from minikafka.protocol.control.messages import Endpoint
from minikafka.runtime.config import from_mapping

from .channel_support import until
from .edge_support import FakeController
from .node_support import ME, B, Node, state, values_in

TWO = {"replicas": (ME, B), "isr": (ME, B)}
SETTINGS = {"node.id": "1", "controller.quorum.bootstrap.servers": "localhost:1"}


@dataclass
class Pair:
    """Broker 1 leads and listens, broker 2 follows."""

    leader: Node
    follower: Node
    edge: Edge
    server: asyncio.Server
    fetchers: ReplicaFetchers

    @property
    def port(self) -> int:
        port: int = self.server.sockets[0].getsockname()[1]
        return port

    async def give(self, *states: PartitionState) -> tuple[Partition, Partition]:
        return await self.leader.give(*states), await self.follower.give(*states)

    async def change(self, new: PartitionState, index: int = 0) -> None:
        await self.leader.change(new, index)
        await self.follower.change(new, index)

    def disconnect(self) -> None:
        """Cut every connection of the leader."""
        for connection in list(self.edge.connections):
            connection.close()


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[Pair]:
    leader = await Node(tmp_path / "leader").start()
    follower = await Node(tmp_path / "follower", me=B).start()
    edge = Edge(
        Surroundings(
            runtime=leader.runtime,
            config=from_mapping(BrokerConfig, SETTINGS),
            partitions=leader.partitions,
            deadlines=leader.wheel,
            controller=FakeController(),
            image=lambda: leader.image,
            topic_defaults=leader.defaults,
            file_settings={},
        )
    )
    apis = make_apis()
    server = await asyncio.get_running_loop().create_server(
        lambda: Connection(edge, "PLAINTEXT", apis), "127.0.0.1", 0
    )
    fetchers = ReplicaFetchers(
        follower.runtime,
        FetchSettings(
            broker_id=B,
            broker_epoch=lambda: follower.epoch(B),
            partition_max_bytes=300,
            response_max_bytes=1 << 20,
            min_bytes=1,
            max_wait_ms=10_000,
            socket_timeout_ms=5_000,
        ),
        lambda broker_id: Endpoint("PLAINTEXT", "127.0.0.1", made.port),
    )
    made = Pair(leader, follower, edge, server, fetchers)
    follower.partitions.fetchers = fetchers
    yield made
    await fetchers.close()
    server.close()
    edge.close_connections()
    await server.wait_closed()
    await follower.stop()
    await leader.stop()


def stored(partition: Partition) -> list[bytes | None]:
    end = partition.log_end_offset
    found: list[bytes | None] = []
    offset = partition.log_start_offset
    while offset < end:
        data = partition.log.read(offset, max_bytes=1 << 20, up_to=end).data
        found += values_in(data)
        offset = partition.log_start_offset + len(found)
    return found


async def test_what_the_leader_appends_the_follower_stores_and_the_leader_commits(
    pair: Pair,
) -> None:
    led, followed = await pair.give(state(ME, **TWO))
    values = [b"%d" % n for n in range(50)]
    for value in values:
        pair.leader.produce(value)
    await until(lambda: led.high_watermark == 50)
    assert stored(followed) == values
    data = led.log.read(0, max_bytes=1 << 20, up_to=50).data
    assert followed.log.read(0, max_bytes=1 << 20, up_to=50).data == data


async def test_a_parked_fetch_is_answered_when_something_is_appended(pair: Pair) -> None:
    led, followed = await pair.give(state(ME, **TWO))
    pair.leader.produce(b"a")
    await until(lambda: led.high_watermark == 1)
    pair.leader.produce(b"b")
    await until(lambda: led.high_watermark == 2)
    assert stored(followed) == [b"a", b"b"]


async def test_partitions_added_later_do_not_wait_for_a_parked_fetch(pair: Pair) -> None:
    """The fetch would be parked for ten seconds."""
    led, _ = await pair.give(state(ME, **TWO))
    pair.leader.produce(b"a")
    await until(lambda: led.high_watermark == 1)
    await pair.change(state(ME, **TWO), index=1)
    pair.leader.produce(b"b", index=1)
    await until(lambda: pair.leader[1].high_watermark == 1)


async def test_a_lost_connection_is_opened_again(pair: Pair) -> None:
    led, followed = await pair.give(state(ME, **TWO))
    for value in (b"a", b"b", b"c"):
        pair.disconnect()
        pair.leader.produce(value)
        await until(lambda: led.high_watermark == led.log_end_offset)
    assert stored(followed) == [b"a", b"b", b"c"]


async def test_c_08_a_new_epoch_of_the_same_leader_goes_on_being_followed(pair: Pair) -> None:
    led, followed = await pair.give(state(ME, **TWO))
    pair.leader.produce(b"a")
    await until(lambda: led.high_watermark == 1)
    await pair.change(state(ME, **TWO, leader_epoch=2, partition_epoch=2))
    pair.leader.produce(b"b")
    await until(lambda: led.high_watermark == 2)
    assert list(followed.log.leader_epochs) == [(1, 0), (2, 1)]


async def test_a_follower_that_hears_of_an_epoch_first_asks_again(pair: Pair) -> None:
    """UNKNOWN_LEADER_EPOCH until the leader has heard as well."""
    led, followed = await pair.give(state(ME, **TWO))
    second = state(ME, **TWO, leader_epoch=2, partition_epoch=2)
    await pair.follower.change(second)
    assert followed.follower is not None
    await until(lambda: followed.follower is not None and followed.follower.phase is Phase.DELAYED)
    await pair.leader.change(second)
    pair.leader.produce(b"a")
    pair.follower.now_ms += 60_000
    await until(lambda: led.high_watermark == 1)


async def test_a_diverged_follower_truncates_and_catches_up(pair: Pair) -> None:
    # Broker 2 led epoch 1 and has records that nobody else got.
    led, followed = await pair.give(state(B, **TWO))
    pair.follower.produce(b"lost")
    pair.follower.produce(b"lost too")
    await pair.change(state(ME, **TWO, leader_epoch=2, partition_epoch=2))
    pair.leader.produce(b"a")
    await until(lambda: led.high_watermark == 1)
    assert stored(followed) == [b"a"]


async def test_a_follower_below_the_leaders_start_begins_there(pair: Pair) -> None:
    await pair.leader.give(state(ME, replicas=(ME, B), isr=(ME,)))
    for value in (b"a", b"b", b"c", b"d"):
        pair.leader.produce(value)
    await pair.leader.configure("min.insync.replicas", "1")
    led = pair.leader[0]
    assert led.high_watermark == 4
    led.log.advance_log_start(2)
    followed = await pair.follower.give(state(ME, replicas=(ME, B), isr=(ME,)))
    await until(lambda: followed.log_end_offset == 4)
    assert (followed.log_start_offset, stored(followed)) == (2, [b"c", b"d"])


async def test_a_fetcher_ends_with_its_last_partition(pair: Pair) -> None:
    await pair.give(state(ME, **TWO))
    assert len(pair.fetchers) == 1
    await pair.follower.change(state(B, **TWO, leader_epoch=2, partition_epoch=2))
    assert len(pair.fetchers) == 0
    await until(lambda: not pair.edge.connections)


async def test_after_the_first_fetch_only_changed_partitions_are_named(pair: Pair) -> None:
    led, _ = await pair.give(*[state(ME, **TWO)] * 5)
    pair.leader.produce(b"a", index=3)
    await until(lambda: pair.leader[3].high_watermark == 1)
    (session,) = pair.edge.sessions
    assert len(session.partitions) == 5
    assert session.epoch > 1
    assert led.leader is not None
    assert led.leader.followers[B].log_end_offset == 0
