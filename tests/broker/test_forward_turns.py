"""Folding a batch of very many records: others have their turn, and every replica agrees."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from minikafka.broker.forward.due_index import Entry
from minikafka.broker.forward.folding import SourceState
from minikafka.broker.forward.opening import TURN_BYTES, TURN_RECORDS
from minikafka.broker.forward.parked import READING_BYTES, ParkedRecords
from minikafka.broker.forward.replacing import MOST_OPENED, MOST_RECORDS, keys_behind
from minikafka.broker.forward.schedule import Schedule
from minikafka.broker.partition.intake import OPENED_AT_ONCE
from minikafka.protocol.compression import Codec, compress
from minikafka.protocol.delays import DELAY_MS, DelayRule
from minikafka.protocol.primitives import encode_varint
from minikafka.protocol.records.batch_header import BatchHeader, seal
from minikafka.protocol.records.records import (
    EndTransactionMarker,
    NewRecord,
    build,
    build_end_transaction_batch,
    record_bytes,
    records,
)
from minikafka.protocol.types import TopicPartition
from minikafka.runtime.errors import WorkerLost
from tests.support.bombs import Expanded, many_small, one_large

from .node_support import ME, WALL_MS, Node, state

MANY = 3 * TURN_RECORDS + 5
RULE = DelayRule("header", 0, 1_000_000)
ALONE = state(ME, replicas=(ME,), isr=(ME,))


def numbered(count: int, key: Callable[[int], bytes | None] = lambda n: None) -> bytearray:
    """A batch of `count` records, each due after its number in ms."""
    rows = [NewRecord(WALL_MS, key(n), b"v", [(DELAY_MS, b"%d" % n)]) for n in range(count)]
    return build(rows, compression=Codec.ZSTD)


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    made = await Node(tmp_path).start()
    await made.give(ALONE)
    yield made
    await made.stop()


async def at_once(job: Any, *args: Any) -> Any:
    await asyncio.sleep(0)
    return job(*args)


def scheduled(node: Node, offload: Any = at_once) -> Schedule:
    return Schedule(node[0], lambda step: None, lambda: None, offload)


async def until(holds: Callable[[], object]) -> None:
    """Give others their turns until something holds."""
    for _ in range(1_000):
        if holds():
            return
        await asyncio.sleep(0)
    raise AssertionError(holds)


async def largest_step(job: Coroutine[Any, Any, object], count: Callable[[], int]) -> int:
    """Finish a job; return by how much `count` has grown in one of its turns at most."""
    task = asyncio.ensure_future(job)
    seen = [count()]

    def is_done() -> bool:
        seen.append(count())
        return task.done()

    await until(is_done)
    assert await task
    return max(after - before for before, after in pairwise(seen))


def waiting(schedule: Schedule) -> list[Entry]:
    return [*schedule.index.behind(Entry(-1, -1))]


async def test_a_batch_of_many_records_is_folded_in_turns(node: Node) -> None:
    batch = numbered(MANY)
    node.append(batch)
    await node.configure("minikafka.delay.target", "now")
    schedule = scheduled(node)
    assert await largest_step(schedule.fold(), lambda: schedule.state.folded) == TURN_RECORDS
    whole = SourceState()
    folded = whole.fold(BatchHeader(batch), records(batch), RULE, lambda *_: None)
    assert waiting(schedule) == folded.entries
    assert (schedule.state.folded, schedule.state.epoch) == (MANY, 1)
    assert schedule.state.settled.lowest == whole.settled.lowest == 0


async def test_the_end_of_a_transaction_gives_its_records_to_the_index_in_turns(
    node: Node,
) -> None:
    await node.configure("minikafka.delay.target", "now")
    schedule = scheduled(node)
    schedule.state.undecided[9] = [Entry(each, each) for each in range(MANY)]
    schedule.state.folded = MANY
    marker = build_end_transaction_batch(EndTransactionMarker(True, 0), 9, 0, 0)

    async def fold() -> bool:
        await schedule._fold_part(BatchHeader(marker), records(marker), RULE)
        return True

    assert await largest_step(fold(), lambda: len(schedule.index)) == TURN_RECORDS
    assert len(schedule.index) == MANY


async def test_a_fold_that_is_cancelled_leaves_no_record_out_of_the_index(node: Node) -> None:
    await node.configure("minikafka.delay.target", "now")
    schedule = scheduled(node)
    schedule.state.undecided[9] = [Entry(each, each) for each in range(MANY)]
    schedule.state.folded = MANY
    marker = build_end_transaction_batch(EndTransactionMarker(True, 0), 9, 0, 0)
    task = asyncio.ensure_future(schedule._fold_part(BatchHeader(marker), records(marker), RULE))
    await asyncio.sleep(0)
    assert len(schedule.index) < MANY
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert len(schedule.index) == MANY


async def test_many_small_batches_that_expand_far_are_folded_in_turns(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = OPENED_AT_ONCE // 2
    for _ in range(20):
        node.append(one_large(WALL_MS, size=size))
    await node.configure("minikafka.delay.target", "now")
    schedule, expanded = scheduled(node), Expanded(monkeypatch)
    most = await largest_step(schedule.fold(), lambda: len(expanded.sizes))
    assert 0 < most * size <= TURN_BYTES + OPENED_AT_ONCE
    assert len(waiting(schedule)) == 20


async def test_a_batch_that_expands_far_is_opened_by_the_worker(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.append(one_large(WALL_MS))
    await node.configure("minikafka.delay.target", "now")
    jobs: list[Any] = []

    async def lost(job: Any, *args: Any) -> Any:
        jobs.append(job)
        raise WorkerLost("it has ended")

    schedule, expanded = scheduled(node, lost), Expanded(monkeypatch)
    assert not await schedule.fold(), "it is tried again later"
    assert (jobs, schedule.state.folded) == ([record_bytes], 0)
    assert expanded.largest <= OPENED_AT_ONCE
    parked = ParkedRecords(node[0], TopicPartition("orders", 0), lost)
    assert await parked.read([0]) is None
    again = scheduled(node)
    assert await again.fold()
    assert waiting(again) == [Entry(0, 0)]
    parked = ParkedRecords(node[0], TopicPartition("orders", 0), at_once)
    assert [*(await parked.read([0]) or {})] == [0]


async def test_a_fold_that_is_stopped_inside_of_a_batch_goes_on_from_its_snapshot(
    node: Node,
) -> None:
    node.append(numbered(MANY))
    await node.configure("minikafka.delay.target", "now")
    first = scheduled(node)
    folding = asyncio.ensure_future(first.fold())
    await until(lambda: first.state.folded)
    folding.cancel()
    await asyncio.gather(folding, return_exceptions=True)
    assert first.state.folded == TURN_RECORDS
    await first.save(())
    second, whole = scheduled(node), scheduled(node)
    await second.load()
    assert second.state.folded == TURN_RECORDS
    assert await second.fold()
    assert await whole.fold()
    assert waiting(second) == waiting(whole) == [Entry(WALL_MS + n, n) for n in range(MANY)]


async def test_a_batch_that_an_election_replaces_is_folded_no_further(node: Node) -> None:
    node.append(numbered(MANY))
    await node.configure("minikafka.delay.target", "now")
    schedule = scheduled(node)
    folding = asyncio.ensure_future(schedule.fold())
    await until(lambda: schedule.state.folded)
    epochs = node[0].log.leader_epochs
    epochs.truncate_from_end(0)
    epochs.assign(2, 0)
    await until(lambda: not schedule.state.folded)
    assert not waiting(schedule), "it begins anew"
    folding.cancel()
    await asyncio.gather(folding, return_exceptions=True)


@pytest.mark.parametrize("delta", [0, TURN_RECORDS + 1, MANY, 1 << 40, -1])
async def test_records_out_of_place_wait_nowhere(node: Node, delta: int) -> None:
    """Nobody has looked into the compressed batches of a topic that did not forward."""
    places = map(encode_varint, [*range(TURN_RECORDS + 2), delta])
    rows = [b"\x00\x00" + place + b"\x01\x00\x00" for place in places]
    body = b"".join(encode_varint(len(row)) + row for row in rows)
    batch = build([(WALL_MS, None, b"")] * (TURN_RECORDS + 3), compression=Codec.GZIP)
    batch[61:] = compress(Codec.GZIP, body)
    batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
    seal(batch)
    assert not node.append(batch).error
    await node.configure("minikafka.delay.target", "now")
    schedule = scheduled(node)
    assert await schedule.fold()
    assert waiting(schedule) == [Entry(0, n) for n in range(TURN_RECORDS)]
    assert schedule.state.folded == TURN_RECORDS + 3
    over = range(TURN_RECORDS, TURN_RECORDS + 3)
    assert [n for n in range(TURN_RECORDS + 4) if n in schedule.state.settled] == [*over]


async def test_records_are_read_in_turns(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(40):
        node.append(one_large(WALL_MS, size=OPENED_AT_ONCE // 2))
    parked = ParkedRecords(node[0], TopicPartition("orders", 0), at_once)
    expanded = Expanded(monkeypatch)
    most = await largest_step(parked.read(range(40)), lambda: len(expanded.sizes))
    assert 0 < most * (OPENED_AT_ONCE // 2 + READING_BYTES) <= TURN_BYTES + OPENED_AT_ONCE
    assert [*(await parked.read(range(40)) or {})] == [*range(40)]


async def test_keys_behind_the_fold_are_not_known_where_that_is_much(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    schedule = scheduled(node)
    node.append(numbered(3, lambda n: b"k%d" % n))
    found = keys_behind(node[0], schedule.state)
    assert found is not None
    assert [b"k%d" % n in found for n in range(4)] == [True, True, True, False]
    node.append(many_small(WALL_MS, MOST_RECORDS))
    assert keys_behind(node[0], schedule.state) is None
    schedule.state.skip_to(node[0].log_end_offset)
    assert keys_behind(node[0], schedule.state) is not None
    expanded = Expanded(monkeypatch)
    for _ in range(MOST_OPENED // (1 << 20) + 3):
        node.append(one_large(WALL_MS, size=1 << 20))
    assert keys_behind(node[0], schedule.state) is None
    assert sum(expanded.sizes) <= 3 * MOST_OPENED
