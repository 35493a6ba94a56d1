"""Two brokers replicating over loopback: a real leader's edge, a real fetcher, real logs."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from minikafka.broker.api.fetch_sessions import FetchSessions
from minikafka.broker.api.fetch_watch import FollowerWatch
from minikafka.broker.edge import Edge
from minikafka.broker.net.connection import Connection
from minikafka.broker.partition.partition import Partition
from minikafka.broker.partition.requests import FetchAnswer, FetchSpec
from minikafka.broker.peers import Reach
from minikafka.broker.replica.follower import Phase
from minikafka.broker.replica.leader import ProposeIsr
from minikafka.broker.replication.fetchers import ReplicaFetchers
from minikafka.protocol.control.image import PartitionState
from minikafka.protocol.control.messages import Endpoint
from minikafka.security.listener import Listener

from .channel_support import FakeChannel, config_with, until
from .edge_support import FakeController, Front, Stock, connections_of
from .node_support import ME, B, C, Node, state, values_in

TWO = {"replicas": (ME, B), "isr": (ME, B)}
SETTINGS = {"node.id": "1", "controller.quorum.bootstrap.servers": "localhost:1"}


@dataclass
class Pair:
    """Broker 1 leads and listens, broker 2 follows."""

    leader: Node
    follower: Node
    edge: Edge
    sessions: FetchSessions
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
        for connection in connections_of(self.edge):
            connection.close()


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[Pair]:
    """A fetch is parked for ten seconds."""
    async for made in pair_of(tmp_path, max_wait_ms=10_000):
        yield made


@pytest.fixture
async def brisk(tmp_path: Path) -> AsyncIterator[Pair]:
    """No fetch is parked: one follows the other."""
    async for made in pair_of(tmp_path, max_wait_ms=0):
        yield made


async def pair_of(tmp_path: Path, *, max_wait_ms: int) -> AsyncIterator[Pair]:
    leader = await Node(tmp_path / "leader").start()
    follower = await Node(tmp_path / "follower", me=B).start()
    stock = Stock(leader.runtime, leader.partitions, leader.wheel, leader, FakeController())
    front = Front(stock, SETTINGS, leader.defaults)
    edge, apis = front.edge, front.apis
    server = await asyncio.get_running_loop().create_server(
        lambda: Connection(edge, Listener("PLAINTEXT"), apis), "127.0.0.1", 0
    )
    channel = FakeChannel()
    channel.broker_epoch = follower.epoch(B)
    fetchers = ReplicaFetchers(
        follower.runtime,
        config_with(
            node_id=B,
            replica_fetch_max_bytes=300,
            replica_fetch_response_max_bytes=1 << 20,
            replica_fetch_wait_max_ms=max_wait_ms,
            replica_socket_timeout_ms=5_000,
        ),
        channel.as_channel(),
        Reach(lambda broker_id: Endpoint("PLAINTEXT", "127.0.0.1", made.port)),
    )
    made = Pair(leader, follower, edge, front.sessions, server, fetchers)
    follower.fetchers.real = fetchers
    yield made
    await fetchers.close()
    server.close()
    edge.doors.close()
    await server.wait_closed()
    await follower.stop()
    await leader.stop()


def stored(partition: Partition) -> list[bytes | None]:
    end = partition.log_end_offset
    found: list[bytes | None] = []
    offset = partition.log_start_offset
    while offset < end:
        data = partition.log.reader.read(offset, max_bytes=1 << 20, up_to=end).data
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
    data = led.log.reader.read(0, max_bytes=1 << 20, up_to=50).data
    assert followed.log.reader.read(0, max_bytes=1 << 20, up_to=50).data == data


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
    await until(lambda: not connections_of(pair.edge))


async def test_partitions_are_shared_out_over_the_fetchers_of_a_leader(pair: Pair) -> None:
    """Each of them keeps its fetcher, whatever else comes and goes."""
    pair.fetchers._config = replace(pair.fetchers._config, num_replica_fetchers=3)
    await pair.give(*[state(ME, **TWO)] * 7)
    assert len(pair.fetchers) == 3
    await until(lambda: len(connections_of(pair.edge)) == 3)
    places = dict(pair.fetchers._place_of)
    assert sorted(len([p for p in places.values() if p.number == n]) for n in range(3)) == [2, 2, 3]
    await pair.follower.change(state(ME, **TWO, leader_epoch=2, partition_epoch=2))
    assert pair.fetchers._place_of == places
    for index in range(1, 7):
        pair.leader.produce(b"a", index=index)
        led = pair.leader[index]
        await until(lambda led=led: led.high_watermark == 1)  # type: ignore[misc]


async def test_after_the_first_fetch_only_changed_partitions_are_named(pair: Pair) -> None:
    led, _ = await pair.give(*[state(ME, **TWO)] * 5)
    pair.leader.produce(b"a", index=3)
    await until(lambda: pair.leader[3].high_watermark == 1)
    (session,) = pair.sessions
    assert len(session.partitions) == 5
    assert session.epoch > 1
    assert led.leader is not None
    assert led.leader.followers[B].log_end_offset == 0


@dataclass
class Reads:
    """How often each partition was read for a follower."""

    counts: dict[int, int]

    def take(self) -> dict[int, int]:
        counts, self.counts = self.counts, {}
        return counts


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Reads:
    found = Reads({})
    original = Partition.fetch

    def fetch(partition: Partition, spec: FetchSpec, now_ms: int) -> FetchAnswer:
        found.counts[partition.index] = found.counts.get(partition.index, 0) + 1
        return original(partition, spec, now_ms)

    monkeypatch.setattr(Partition, "fetch", fetch)
    return found


def watch_in(pair: Pair) -> FollowerWatch:
    (watch,) = [
        each.session.watch for each in connections_of(pair.edge) if each.session.watch is not None
    ]
    assert isinstance(watch, FollowerWatch)
    return watch


async def quiet(pair: Pair) -> FollowerWatch:
    """Nothing is left to read or to tell."""
    await until(lambda: any(c.session.watch is not None for c in connections_of(pair.edge)))
    watch = watch_in(pair)
    await until(lambda: not watch.unread)
    return watch


async def test_only_what_changed_is_read_again(brisk: Pair, reads: Reads) -> None:
    await brisk.give(*[state(ME, **TWO)] * 20)
    await quiet(brisk)
    reads.take()
    brisk.leader.produce(b"a", index=7)
    await until(lambda: brisk.leader[7].high_watermark == 1)
    await quiet(brisk)
    (session,) = brisk.sessions
    epoch = session.epoch
    await until(lambda: session.epoch > epoch + 10)
    assert list(reads.take()) == [7]


async def test_a_new_high_watermark_is_told_of_a_partition_with_nothing_to_read(
    brisk: Pair,
) -> None:
    three = {"replicas": (ME, B, C), "isr": (ME, B, C)}
    _, followed = await brisk.give(state(ME, **three))
    brisk.leader.produce(b"a")
    await until(lambda: followed.log_end_offset == 1)
    await quiet(brisk)
    assert followed.high_watermark == 0
    brisk.leader.fetched_by(C, offset=1)
    await until(lambda: followed.high_watermark == 1)


async def test_a_follower_outside_the_isr_is_looked_at_with_each_fetch(
    brisk: Pair, reads: Reads
) -> None:
    """When it may join is not the log's to say."""
    led, _ = await brisk.give(state(ME, replicas=(ME, B), isr=(ME,)))
    await until(lambda: led.leader is not None and led.leader.proposal is not None)
    reads.take()
    (session,) = brisk.sessions
    epoch = session.epoch
    await until(lambda: session.epoch > epoch + 5)
    assert reads.take()[0] >= 5


async def test_who_left_the_isr_while_it_was_idle_may_return(brisk: Pair) -> None:
    led, _ = await brisk.give(state(ME, **TWO))
    await quiet(brisk)
    await brisk.change(state(ME, replicas=(ME, B), isr=(ME,), partition_epoch=2))
    await until(lambda: led.leader is not None and led.leader.proposal is not None)


async def test_an_idle_follower_that_fetched_all_the_time_was_caught_up(brisk: Pair) -> None:
    """Its fetches looked at no partition for longer than any follower may lag."""
    led, _ = await brisk.give(state(ME, **TWO))
    await quiet(brisk)
    (session,) = brisk.sessions
    brisk.leader.now_ms += 60_000
    epoch = session.epoch
    await until(lambda: session.epoch > epoch + 2)
    brisk.leader.produce(b"a")
    assert led.leader is not None
    assert led.leader.on_lag_check(brisk.leader.now_ms) == ()


async def test_a_follower_that_was_silent_while_it_was_idle_was_not(brisk: Pair) -> None:
    led, _ = await brisk.give(state(ME, **TWO))
    await quiet(brisk)
    await brisk.fetchers.close()
    await until(lambda: not connections_of(brisk.edge))
    brisk.leader.now_ms += 60_000
    brisk.leader.produce(b"a")
    assert led.leader is not None
    assert [type(each) for each in led.leader.on_lag_check(brisk.leader.now_ms)] == [ProposeIsr]


async def test_a_lost_connection_ends_its_watch(pair: Pair) -> None:
    led, _ = await pair.give(state(ME, **TWO))
    for value in (b"a", b"b", b"c"):
        pair.disconnect()
        pair.leader.produce(value)
        await until(lambda: led.high_watermark == led.log_end_offset)
    assert len(led.data_waiters.waiting or ()) == 1


async def test_a_small_budget_serves_every_partition_in_turn(pair: Pair) -> None:
    """300 bytes a partition and 1000 in all: nobody waits for an append to be read again."""
    less = replace(pair.fetchers._config, replica_fetch_response_max_bytes=1_000)
    pair.fetchers._config = less
    await pair.give(*[state(ME, **TWO)] * 8)
    for index in range(8):
        for n in range(20):
            pair.leader.produce(b"%100d" % n, index=index)
    led = [pair.leader[index] for index in range(8)]
    await until(lambda: all(partition.high_watermark == 20 for partition in led))
