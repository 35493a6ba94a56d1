"""Shards of an internal topic over real logs: loading, appending, losing the leadership."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from minikafka.broker.coordinator import keys
from minikafka.broker.coordinator.keys import KEY_BYTES_MAX, is_key, java_hash, partition_of
from minikafka.broker.coordinator.shard import Shard, ShardSettings
from minikafka.broker.coordinator.shards import ShardCare, Shards
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.records.batch_header import BatchHeader
from minikafka.protocol.records.records import BatchBuilder

from .node_support import ME, WALL_MS, B, C, Node, state

ALONE = state(ME, replicas=(ME,), isr=(ME,))


class Words:
    """A state: the last value of each key, with pending ones of transactions."""

    def __init__(self) -> None:
        self.values: dict[bytes, bytes | None] = {}
        self.pending: dict[int, dict[bytes, bytes | None]] = {}

    def replay(self, key: bytes, value: bytes | None, offset: int, header: BatchHeader) -> None:
        if header.is_transactional:
            self.pending.setdefault(header.producer_id, {})[key] = value
        else:
            self.values[key] = value

    def replay_marker(self, header: BatchHeader, *, is_commit: bool) -> None:
        pending = self.pending.pop(header.producer_id, {})
        if is_commit:
            self.values |= pending


class Story:
    """The shards of the topic `orders` on one node, and what they told."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.told: list[str] = []
        self.events: list[str] = []
        care = ShardCare(make_state=Words, on_loaded=self.on_loaded, on_unloaded=self.on_unloaded)
        self.shards = Shards(node.runtime, node.partitions, ShardSettings("orders"), care)
        self.is_loaded = asyncio.Event()

    def on_loaded(self, shard: Shard[Words]) -> None:
        self.events.append(f"loaded {shard.epoch}")
        self.is_loaded.set()

    def on_unloaded(self, shard: Shard[Words]) -> None:
        self.events.append(f"unloaded {shard.epoch}")
        self.is_loaded.clear()

    def done(self, error: ErrorCode) -> None:
        self.told.append(error.name)

    async def loaded(self) -> Shard[Words]:
        await self.is_loaded.wait()
        shard = self.shards.at(0)
        assert isinstance(shard, Shard), shard
        return shard

    async def append(self, shard: Shard[Words], *pairs: tuple[bytes, bytes | None]) -> None:
        assert shard.append(pairs, self.done)
        await asyncio.sleep(0)  # The shard has asked the loop to write it.


@pytest.fixture
async def story(tmp_path: Path) -> AsyncIterator[Story]:
    node = await Node(tmp_path).start()
    made = Story(node)
    yield made
    await made.shards.close()
    await node.stop()


def test_hashes_are_java_s() -> None:
    assert [java_hash(text) for text in ("", "a", "hello")] == [0, 97, 99162322]
    assert java_hash("polygenelubricants") == -(2**31)
    assert java_hash("\U0001f600") == 1772899
    assert partition_of("polygenelubricants", 50) == 0
    assert partition_of("hello", 50) == 22


def test_keys_are_what_a_record_can_hold() -> None:
    """Two bytes each in UTF-8; the short ones are not measured."""
    assert all(map(is_key, ("", "g" * KEY_BYTES_MAX, "\u00e9" * (KEY_BYTES_MAX // 2))))
    assert not any(map(is_key, ("g" * (KEY_BYTES_MAX + 1), "\u00e9" * (KEY_BYTES_MAX // 2 + 1))))


def test_long_names_do_not_stay_in_memory() -> None:
    before = keys._absolute.cache_info().currsize
    assert partition_of("hello" * 100, 50) == abs(java_hash("hello" * 100)) % 50
    assert keys._absolute.cache_info().currsize == before


async def test_an_append_is_told_once_the_isr_has_it(story: Story) -> None:
    await story.node.give(state(ME))
    shard = await story.loaded()
    await story.append(shard, (b"k", b"v"))
    assert (story.told, shard.last_offset) == ([], 0)
    story.node.fetched_by(B, C, offset=1)
    assert story.told == ["NONE"]


async def test_a_new_leader_epoch_loads_the_log_again(story: Story) -> None:
    await story.node.give(ALONE)
    shard = await story.loaded()
    await story.append(shard, (b"k", b"1"), (b"l", b"2"))
    await story.append(shard, (b"k", None))
    assert story.told == ["NONE", "NONE"]
    await story.node.change(state(ME, replicas=(ME,), isr=(ME,), leader_epoch=2, partition_epoch=2))
    again = await story.loaded()
    assert again is not shard
    assert (again.epoch, again.state.values) == (2, {b"k": None, b"l": b"2"})
    assert story.events == ["loaded 1", "unloaded 1", "loaded 2"]


async def test_loading_ends_when_what_earlier_leaders_left_is_committed(story: Story) -> None:
    await story.node.give(state(ME))
    shard = await story.loaded()
    await story.append(shard, (b"k", b"1"))
    await story.node.change(state(ME, leader_epoch=2, partition_epoch=2))
    for _ in range(10):
        await asyncio.sleep(0)
    assert story.shards.at(0) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert story.told == ["NOT_COORDINATOR"]
    story.node.fetched_by(B, C, offset=1)
    assert (await story.loaded()).state.values == {b"k": b"1"}


async def test_losing_the_leadership_fails_what_waits(story: Story) -> None:
    await story.node.give(state(ME))
    shard = await story.loaded()
    await story.append(shard, (b"k", b"1"))
    shard.when_settled(0, story.done)
    await story.node.change(state(B, leader_epoch=2, partition_epoch=2))
    assert story.told == ["NOT_COORDINATOR", "NOT_COORDINATOR"]
    assert story.shards.at(0) is ErrorCode.NOT_COORDINATOR
    assert not shard.append([(b"k", b"2")], story.done)
    assert story.told[2:] == ["NOT_COORDINATOR"]


async def test_a_deleted_topic_is_unloaded_though_no_epoch_grew(story: Story) -> None:
    """KAFKA-16118, KAFKA-19274."""
    await story.node.give(ALONE)
    await story.loaded()
    await story.node.forget_topic()
    assert story.shards.at(0) is ErrorCode.NOT_COORDINATOR
    assert story.events == ["loaded 1", "unloaded 1"]
    assert story.shards.of("any") is ErrorCode.NOT_COORDINATOR


async def test_too_few_in_sync_replicas_refuse_an_append_before_it_is_written(
    story: Story,
) -> None:
    await story.node.configure("min.insync.replicas", "2")
    await story.node.give(state(ME, isr=(ME,)))
    shard = await story.loaded()
    assert not shard.append([(b"k", b"1")], story.done)
    assert story.told == ["COORDINATOR_NOT_AVAILABLE"]
    assert shard.partition.log_end_offset == 0


async def test_what_is_too_large_gets_the_coordinator_s_own_error(story: Story) -> None:
    await story.node.configure("max.message.bytes", "100")
    await story.node.give(ALONE)
    shard = await story.loaded()
    assert not shard.append([(b"k", b"1" * 200)], story.done)
    assert story.told == ["UNKNOWN_SERVER_ERROR"]


async def test_a_reader_waits_for_what_it_shows(story: Story) -> None:
    await story.node.give(state(ME))
    shard = await story.loaded()
    shard.when_settled(-1, story.done)
    assert story.told == ["NONE"]
    await story.append(shard, (b"k", b"1"))
    shard.when_settled(shard.last_offset, lambda error: story.told.append(f"reader {error.name}"))
    assert story.told == ["NONE"]
    story.node.fetched_by(B, C, offset=1)
    assert story.told == ["NONE", "NONE", "reader NONE"]


async def test_records_of_transactions_and_markers_are_told_apart(story: Story) -> None:
    await story.node.give(ALONE)
    shard = await story.loaded()
    for producer_id, value in ((7, b"seven"), (8, b"eight")):
        assert shard.append([(value, value)], story.done, producer=(producer_id, 0))
    await asyncio.sleep(0)
    append_marker(story, 7, is_commit=True)
    append_marker(story, 8, is_commit=False)
    await story.node.change(state(ME, replicas=(ME,), isr=(ME,), leader_epoch=2, partition_epoch=2))
    again = await story.loaded()
    assert again.state.values == {b"seven": b"seven"}
    assert again.state.pending == {}


def append_marker(story: Story, producer_id: int, *, is_commit: bool) -> None:
    builder = BatchBuilder(is_transactional=True, is_control=True)
    builder.append(WALL_MS, bytes((0, 0, 0, is_commit)), bytes(6))
    partition = story.node[0]
    batch = builder.build(
        producer_id=producer_id,
        producer_epoch=0,
        base_offset=partition.log_end_offset,
        leader_epoch=1,
    )
    partition.log.append([(BatchHeader(batch), batch)])
    assert partition.leader is not None
    partition.leader.high_watermark = partition.log_end_offset
