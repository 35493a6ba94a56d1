"""Source offsets in Connect's bytes, in memory and in files."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from minikafka.client.admin.topic_types import NewTopic
from minikafka.connect.offset_store import FileOffsets, OffsetsUnreadable, TopicOffsets
from minikafka.connect.offsets import OffsetMap, Pair, Reader, as_mapping
from minikafka.connect.submitted import Part, Submitted
from minikafka.runtime.runtime import SystemRuntime

from ..client.fake_broker import FakeCluster


def test_records_have_the_bytes_of_kafkas_connect() -> None:
    pairs: list[Pair] = [
        ({"filename": "/tmp/ä.txt"}, {"position": 31}),
        ({"b": 1, "a": None}, None),
    ]
    assert OffsetMap().records("local-file", pairs) == [
        ('["local-file",{"filename":"/tmp/ä.txt"}]'.encode(), b'{"position":31}'),
        (b'["local-file",{"b":1,"a":null}]', None),
    ]


def test_a_partition_is_known_by_its_fields_and_keeps_the_bytes_of_its_first_key() -> None:
    offsets = OffsetMap()
    offsets.apply(b'["c",{"b":1,"a":2}]', b'{"at":1}')
    assert offsets.get("c", {"a": 2, "b": 1}) == {"at": 1}
    assert offsets.get("d", {"a": 2, "b": 1}) is None
    made = offsets.records("c", [({"a": 2, "b": 1}, {"at": 2})])
    assert made == [(b'["c",{"b":1,"a":2}]', b'{"at":2}')]
    offsets.apply(*made[0])
    assert offsets.of("c") == [({"b": 1, "a": 2}, {"at": 2})]
    offsets.apply(b'["c",{"b":1,"a":2}]', None)
    assert offsets.of("c") == []


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"{}"),
        (b"\xff", b"{}"),
        (b'["c"]', b"{}"),
        (b'["c",[]]', b"{}"),
        (b'[1,{"a":1}]', b"{}"),
        (b'["c",{"a":1}]', b"7"),
        (b'["c",{"a":1}]', b"{"),
    ],
)
def test_records_of_others_are_left(key: bytes | None, value: bytes) -> None:
    offsets = OffsetMap()
    assert offsets.apply(key, value) is not None
    assert offsets.all_records() == []


def test_the_connectors_own_offsets_have_precedence() -> None:
    own, shared = OffsetMap(), OffsetMap()
    shared.apply(b'["c",{"a":1}]', b'{"at":1}')
    shared.apply(b'["c",{"a":2}]', b'{"at":1}')
    own.apply(b'["c",{"a":1}]', b'{"at":9}')
    reader = Reader("c", own, shared)
    expected = [({"a": 1}, {"at": 9}), ({"a": 2}, {"at": 1}), ({"a": 3}, None)]
    assert reader.read_all([{"a": 1}, {"a": 2}, {"a": 3}]) == expected
    assert sorted(reader.listed(), key=str) == expected[:2]
    frozen = reader.frozen()
    own.apply(b'["c",{"a":1}]', None)
    assert frozen.read({"a": 1}) == {"at": 9}
    assert as_mapping(expected[1:]) == {(("a", 2),): {"at": 1}, (("a", 3),): None}


def part(name: str, at: int, pending: int = 0) -> Part:
    made = Part(({"p": name}, {"at": at}))
    made.pending = pending
    return made


def test_parts_become_committable_in_order_for_each_source_partition() -> None:
    submitted = Submitted()
    first, second, other = part("a", 1, 1), part("a", 2), part("b", 1)
    submitted.add([first, second, other])
    assert submitted.committable() == [({"p": "b"}, {"at": 1})]
    first.pending = 0
    assert submitted.committable() == [({"p": "b"}, {"at": 1}), ({"p": "a"}, {"at": 2})]


def test_what_was_not_committed_stays_and_newer_offsets_replace_it() -> None:
    submitted = Submitted()
    submitted.add([part("a", 1)])
    taken = submitted.committable()
    assert submitted.committable() == taken
    submitted.add([part("a", 2)])
    assert submitted.committable() == [({"p": "a"}, {"at": 2})]
    submitted.committed(taken)
    newer = submitted.committable()
    assert newer == [({"p": "a"}, {"at": 2})]
    submitted.committed(newer)
    assert submitted.committable() == []


async def test_a_file_has_a_line_per_offset_and_is_replaced_as_a_whole(tmp_path: Path) -> None:
    runtime, path = SystemRuntime("connect"), tmp_path / "offsets"
    store = FileOffsets(runtime, str(path))
    await store.start()
    await store.write("c", [({"a": 1}, {"at": 1}), ({"a": 2}, {"at": 1})])
    await store.write("c", [({"a": 1}, {"at": 2}), ({"a": 2}, None)])
    assert path.read_text() == '{"key":["c",{"a":1}],"value":{"at":2}}\n'
    assert runtime.fs.listdir(str(tmp_path)) == ["offsets"]
    again = FileOffsets(runtime, str(path))
    await again.start()
    assert again.map.of("c") == [({"a": 1}, {"at": 2})]
    runtime.close()


@pytest.mark.parametrize("data", [b"\xac\xed\x00\x05sr", b'{"key":["c",{}]}', b"[]"])
async def test_a_file_of_another_format_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "offsets"
    path.write_bytes(data)
    runtime = SystemRuntime("connect")
    with pytest.raises(OffsetsUnreadable, match=r"offsets, line 1: .*name a new file"):
        await FileOffsets(runtime, str(path)).start()
    runtime.close()


@asynccontextmanager
async def topic_offsets(cluster: FakeCluster) -> AsyncIterator[TopicOffsets]:
    cluster.create("o")
    runtime = SystemRuntime("connect")
    common = {"bootstrap_servers": cluster.bootstrap}
    settings = dict.fromkeys(("producer", "consumer", "admin"), common)
    store = TopicOffsets(runtime, NewTopic("o", 1, 1), settings)
    try:
        yield store
    finally:
        await store.close()
        runtime.close()


async def test_two_tasks_may_write_their_first_offsets_at_the_same_time() -> None:
    async with FakeCluster() as cluster, topic_offsets(cluster) as store:
        await asyncio.gather(*(store.write(name, [({"a": 1}, {"at": 1})]) for name in "cd"))
        assert store.map.get("c", {"a": 1}) == store.map.get("d", {"a": 1}) == {"at": 1}


async def test_offsets_are_written_after_a_first_write_that_took_too_long() -> None:
    async with FakeCluster() as cluster, topic_offsets(cluster) as store:
        writing = asyncio.create_task(store.write("c", [({"a": 1}, {"at": 1})]))
        await asyncio.sleep(0)
        writing.cancel()
        await asyncio.wait([writing])
        await store.write("c", [({"a": 1}, {"at": 2})])
        assert store.map.get("c", {"a": 1}) == {"at": 2}
