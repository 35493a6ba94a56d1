"""When the broker compacts: the dirtiest first, up to what is committed, within its rate."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from minikafka.broker.partition.requests import CONSUMER, DEBUGGING_CONSUMER, FetchSpec
from minikafka.broker.topic_defaults import TopicDefaults
from minikafka.broker.upkeep.compaction import Compaction, CompactionConfig
from minikafka.protocol.control.records import BROKER, ConfigRecord
from minikafka.protocol.records import record_batch
from minikafka.protocol.types import TopicPartition
from minikafka.runtime.config import from_mapping
from minikafka.storage.checkpoints import decode_offsets

from .edge_support import settle
from .node_support import ME, B, Node, led_batch, state

LEAD, FOLLOW, ALONE = state(ME), state(B), state(ME, replicas=(ME,), isr=(ME,))


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    made = await Node(tmp_path).start()

    async def offload(job: Callable[..., Any], *args: Any) -> Any:
        return job(*args)

    made.runtime.offload = offload  # type: ignore[method-assign]
    yield made
    await made.stop()


def compaction(node: Node, **keys: str) -> Compaction:
    config = from_mapping(CompactionConfig, {f"log.cleaner.{k}": v for k, v in keys.items()})
    return Compaction(node.runtime, lambda: config, node.partitions)


async def fill(node: Node, count: int, index: int = 0) -> None:
    for n in range(count):
        node.produce(b"%d" % n, index=index)
    node[index].log.roll()
    await node[index].log.flush()


def offsets(node: Node, index: int = 0) -> list[int]:
    log = node[index].log
    found: list[int] = []
    at = 0
    while at < log.log_end_offset:
        data = log.reader.read(at, max_bytes=1 << 20, up_to=log.log_end_offset).data
        for position, header in record_batch.headers(data):
            found += [record.offset for record in record_batch.records(data, position)]
            at = header.next_offset
    return found


async def test_only_what_is_committed_is_compacted(node: Node) -> None:
    partition = await node.give(LEAD)
    await node.configure("cleanup.policy", "compact")
    await fill(node, 3)
    await fill(node, 3)
    node.fetched_by(B, 3, offset=3)
    assert partition.high_watermark == 3
    work = compaction(node)
    assert await work.compact_one()
    assert offsets(node) == [2, 3, 4, 5]
    assert not await work.compact_one()
    node.fetched_by(B, 3, offset=6)
    assert await work.compact_one()
    assert offsets(node) == [5]
    directory = node.partitions.directory_of(partition)
    assert directory.compacted.of(TopicPartition("orders", 0)) == 6
    data = (node.root / "data" / "cleaner-offset-checkpoint").read_bytes()
    assert decode_offsets(data) == {TopicPartition("orders", 0): 6}


async def test_a_topic_that_is_not_compacted_is_left_alone(node: Node) -> None:
    await node.give(LEAD)
    await fill(node, 3)
    node.fetched_by(B, 3, offset=3)
    assert not await compaction(node).compact_one()


async def test_the_dirtiest_goes_first(node: Node) -> None:
    await node.give(ALONE, ALONE)
    await node.configure("cleanup.policy", "compact")
    await node.configure("min.cleanable.dirty.ratio", "0.1")
    work = compaction(node)
    await fill(node, 8, index=1)
    assert await work.compact_one()
    await fill(node, 1, index=1)
    await fill(node, 1, index=0)
    assert await work.compact_one()
    directory = node.partitions.directory_of(node[0])
    assert directory.compacted.of(TopicPartition("orders", 0)) == 1, "all of it was dirty"
    assert directory.compacted.of(TopicPartition("orders", 1)) == 8
    assert await work.compact_one()
    assert directory.compacted.of(TopicPartition("orders", 1)) == 9


async def test_a_follower_compacts_what_it_has(node: Node) -> None:
    await node.give(FOLLOW)
    await node.configure("cleanup.policy", "compact")
    for n in range(4):
        node.follow(led_batch(n, 1, b"%d" % n), high_watermark=n)
    node[0].log.roll()
    await node[0].log.flush()
    work = compaction(node)
    assert not await work.compact_one(), "the last record is not committed as far as it knows"
    node.follow(led_batch(4, 1, b"4"), high_watermark=4)
    assert await work.compact_one()
    assert offsets(node) == [3, 4]


async def test_a_consumers_fetch_begins_with_a_record_a_followers_with_what_is_next(
    node: Node,
) -> None:
    partition = await node.give(LEAD)
    await node.configure("cleanup.policy", "compact")
    await node.configure("segment.bytes", "100")
    await fill(node, 4)
    node.fetched_by(B, 3, offset=4)
    assert await compaction(node).compact_one()

    def first_batch(replica_id: int) -> tuple[int, int]:
        spec = FetchSpec(fetch_offset=0, max_bytes=1, replica_id=replica_id)
        if replica_id == B:
            spec = node.follower_fetch(B, 0)
        answer = partition.fetch(spec, node.now_ms)
        _, header = next(iter(record_batch.headers(answer.records)))
        return header.base_offset, header.record_count

    assert first_batch(CONSUMER) == (3, 1)
    assert first_batch(DEBUGGING_CONSUMER) == (0, 0)
    assert first_batch(B) == (0, 0)


async def test_it_keeps_to_its_rate(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    await node.give(ALONE)
    await node.configure("cleanup.policy", "compact")
    await fill(node, 50)
    size = node[0].log.size_bytes
    waited_ms: list[float] = []

    async def pause(pause_ms: float) -> bool:
        waited_ms.append(pause_ms)
        node.now_ms += int(pause_ms)
        return True

    work = compaction(node, **{"io.max.bytes.per.second": "1000"})
    monkeypatch.setattr(work, "_pause", pause)
    assert await work.compact_one()
    assert sum(waited_ms) >= 2 * size, "read for its keys, then for what is to stay"


async def test_a_rate_raised_at_run_time_ends_the_waiting_at_the_old_one(node: Node) -> None:
    await node.give(ALONE)
    await node.configure("cleanup.policy", "compact")
    await fill(node, 50)
    key = "log.cleaner.io.max.bytes.per.second"
    defaults = TopicDefaults(ME, {key: "1"})
    work = Compaction(
        node.runtime, lambda: defaults.table_of(node.image, CompactionConfig), node.partitions
    )
    round_ = asyncio.ensure_future(work.compact_one())
    await settle()
    await node.apply(ConfigRecord(BROKER, "", key, "1000000000"))
    work.on_settings()
    async with asyncio.timeout(5):
        assert await round_
    assert offsets(node) == [49]


async def test_a_shorter_backoff_counts_at_once(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    await node.give(ALONE)
    await node.configure("cleanup.policy", "compact")
    await fill(node, 5)
    defaults = TopicDefaults(ME, {})
    work = Compaction(
        node.runtime, lambda: defaults.table_of(node.image, CompactionConfig), node.partitions
    )
    compacted = asyncio.Event()
    compact_one = work.compact_one

    async def watched() -> bool:
        if not await compact_one():
            compacted.set()
        return not compacted.is_set()

    monkeypatch.setattr(work, "compact_one", watched)
    work.start()
    await settle()
    await node.apply(ConfigRecord(BROKER, str(ME), "log.cleaner.backoff.ms", "1"))
    work.on_settings()
    async with asyncio.timeout(5):
        await compacted.wait()
    assert offsets(node) == [4]
    await work.close()


async def test_a_log_with_a_damaged_batch_is_put_off(node: Node) -> None:
    await node.give(ALONE)
    await node.configure("cleanup.policy", "compact")
    await fill(node, 5)
    file = node.root / "data" / "orders-0" / f"{0:020d}.log"
    data = bytearray(file.read_bytes())
    data[100] ^= 1
    file.write_bytes(data)
    work = compaction(node)
    assert await work.compact_one()
    assert not await work.compact_one()
    data[100] ^= 1
    file.write_bytes(data)
    node.now_ms += 60_001
    assert await work.compact_one()
    assert offsets(node) == [4]


async def test_what_is_cut_away_is_not_called_compacted(node: Node) -> None:
    """A tombstone may go on the strength of nothing older being there."""
    partition = await node.give(ALONE)
    await node.configure("cleanup.policy", "compact")
    await fill(node, 5)
    node.produce(b"x")
    await compaction(node).compact_one()
    name = TopicPartition("orders", 0)
    directory = node.partitions.directory_of(partition)
    assert directory.compacted.of(name) == 5
    partition.log.truncate_to(4)
    assert directory.compacted.of(name) == 4
    data = (node.root / "data" / "cleaner-offset-checkpoint").read_bytes()
    assert decode_offsets(data) == {TopicPartition("orders", 0): 4}
