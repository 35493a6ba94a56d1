"""Records handed over as lists or as Arrow's arrays: both codecs, the same batches."""

import asyncio
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from minikafka import Columns
from minikafka import Producer as SyncProducer
from minikafka.aio import Producer
from minikafka.client.errors import BufferFull, MessageTooLarge
from minikafka.client.producer.columns import rows_of
from minikafka.client.producer.spans import Spans
from minikafka.protocol.partitioning import partition_for_key
from minikafka.protocol.records import record_backend
from minikafka.protocol.records.record_batch import read_header, records

from .fake_broker import FakeCluster, FakePartition

Column = Callable[[list[Any]], Any]


def chunked(column: list[Any]) -> Any:
    half = len(column) // 2
    return pa.chunked_array([column[:half], column[half:]], type=pa.binary())


def sliced(column: list[Any]) -> Any:
    return pa.array([b"before", *column, b"behind"], type=pa.binary())[1:-1]


COLUMNS: dict[str, Column] = {
    "list": list,
    "tuple": tuple,
    "array": lambda column: pa.array(column, type=pa.binary()),
    "large": lambda column: pa.array(column, type=pa.large_binary()),
    "chunked": chunked,
    "sliced": sliced,
}
EACH_KIND = pytest.mark.parametrize("kind", COLUMNS)


@pytest.fixture(params=["compiled", "python"], autouse=True)
def codec(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Arrow's way into batches depends on the codec; without the compiled one it goes by lists."""
    name: str = request.param
    if name == "python":
        monkeypatch.setattr(record_backend, "compiled", None)
    elif record_backend.compiled is None:
        pytest.skip("nothing was compiled here")
    return name


def read(part: FakePartition) -> list[tuple[Any, Any, Any]]:
    return [(r.timestamp, r.key, r.value) for batch in part.batches for r in records(batch)]


@EACH_KIND
async def test_values_arrive_in_order_in_full_batches(kind: str) -> None:
    values = [b"%04d" % n * (n % 30) if n % 7 else None for n in range(1000)]
    async with FakeCluster() as cluster:
        part = cluster.create("t").partitions[0]
        async with Producer(cluster.bootstrap, batch_size=4_000) as producer:
            await producer.partitions_for("t")
            sent = producer.send_batch("t", Columns(COLUMNS[kind](values), timestamp_ms=77))
            runs = await sent
        assert read(part) == [(77, None, value) for value in values]
        assert all(len(batch) <= 4_000 for batch in part.batches)
        assert len(part.batches) < 22
    assert sum(run.record_count for run in runs) == 1000
    assert [run.base_offset for run in runs] == sorted(run.base_offset for run in runs)


@EACH_KIND
async def test_keys_choose_partitions_and_keep_their_order(kind: str) -> None:
    values = [b"%d" % n for n in range(300)]
    keys = [b"key %d" % (n % 11) if n % 5 else None for n in range(300)]
    async with FakeCluster() as cluster:
        topic = cluster.create("t", 4)
        async with Producer(cluster.bootstrap) as producer:
            await producer.partitions_for("t")
            make = COLUMNS[kind]
            await producer.send_batch("t", Columns(make(values), make(keys), list(range(300))))
        found = [read(part) for part in topic.partitions]
    for index, rows in enumerate(found):
        keyed = [row for row in rows if row[1] is not None]
        wanted = [
            (n, keys[n], values[n])
            for n in range(300)
            if (key := keys[n]) is not None and partition_for_key(key, 4) == index
        ]
        assert keyed == wanted
    without = sorted(row for rows in found for row in rows if row[1] is None)
    assert without == [(n, None, values[n]) for n in range(0, 300, 5)]


HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
MANY: list[Any] = [
    [("h", b"x" * 70), ("\xfc", None)],
    None,
    [],
    [("", b"")],
    *([("n", b"%d" % n)] * (n % 3) for n in range(200)),
]


def in_arrow(rows: list[Any]) -> Any:
    """The same headers, as a part of a longer array."""
    plain = [row and [{"key": key, "value": value} for key, value in row] for row in rows]
    return pa.array([[{"key": "before", "value": b"x"}], *plain, None], type=HEADERS)[1:-1]


@pytest.mark.parametrize("make", [list, in_arrow])
@EACH_KIND
async def test_headers_travel_with_their_records(kind: str, make: Column) -> None:
    values = [b"%d" % n for n in range(len(MANY))]
    keys = [b"%d" % (n % 9) if n % 2 else None for n in range(len(MANY))]
    async with FakeCluster() as cluster:
        topic = cluster.create("t", 3)
        async with Producer(cluster.bootstrap, batch_size=800) as producer:
            await producer.partitions_for("t")
            column = COLUMNS[kind]
            await producer.send_batch("t", Columns(column(values), column(keys), 5, make(MANY)))
        batches = [batch for part in topic.partitions for batch in part.batches]
    assert max(map(len, batches)) <= 800
    found = {int(r.value or b""): (r.key, r.headers) for each in batches for r in records(each)}
    assert found == {n: (keys[n], tuple(MANY[n] or ())) for n in range(len(MANY))}


@pytest.mark.parametrize("make", [list, in_arrow])
async def test_headers_wait_for_an_unknown_topic_too(make: Column) -> None:
    async with FakeCluster() as cluster:
        part = cluster.create("t").partitions[0]
        async with Producer(cluster.bootstrap) as producer:
            headers = make([[("h", b"1"), ("i", None)], None])
            await producer.send_batch("t", Columns(pa.array([b"a", b"b"]), headers=headers))
        found = [r.headers for batch in part.batches for r in records(batch)]
    assert found == [(("h", b"1"), ("i", None)), ()]


@pytest.mark.parametrize(
    ("headers", "error"),
    [
        (in_arrow([None, [(None, b"")]]), (ValueError, TypeError)),
        ([None, [(None, b"")]], TypeError),
        (pa.array([["a"], None]), TypeError),
        (in_arrow([None]), ValueError),
        ([None], ValueError),
        (in_arrow([None, [("h", b"x" * 1001)]]), MessageTooLarge),
        ([None, [("h", b"x" * 1001)]], MessageTooLarge),
    ],
)
@EACH_KIND
async def test_headers_that_cannot_be_are_refused(kind: str, headers: Any, error: Any) -> None:
    async with FakeCluster() as cluster:
        cluster.create("t")
        async with Producer(cluster.bootstrap, max_request_size=1000) as producer:
            await producer.partitions_for("t")
            with pytest.raises(error):
                producer.send_batch("t", Columns(COLUMNS[kind]([b"a", b"b"]), headers=headers))
            assert producer.used_bytes == 0


async def test_an_unknown_topic_has_them_wait() -> None:
    async with FakeCluster() as cluster:
        part = cluster.create("t").partitions[0]
        async with Producer(cluster.bootstrap) as producer:
            columns = Columns(pa.array([b"a", None]), pa.array([None, b"k"]), timestamp_ms=5)
            await producer.send_batch("t", columns)
        assert read(part) == [(5, None, b"a"), (5, b"k", None)]


async def test_a_partition_may_be_named_and_records_share_open_batches() -> None:
    async with FakeCluster() as cluster:
        topic = cluster.create("t", 3)
        async with Producer(cluster.bootstrap, linger_ms=50) as producer:
            await producer.partitions_for("t")
            producer.send("t", b"before", partition=2)
            producer.send_batch("t", Columns([b"a", b"b"], [b"k", b"k"]), partition=2)
            producer.send("t", b"behind", partition=2)
        assert [row[2] for row in read(topic.partitions[2])] == [b"before", b"a", b"b", b"behind"]
        assert len(topic.partitions[2].batches) == 1


async def test_what_cannot_be_sent_is_refused_as_a_whole() -> None:
    async with FakeCluster() as cluster:
        part = cluster.create("t").partitions[0]
        limits: Any = {"max_request_size": 1000, "buffer_memory": 2000}
        async with Producer(cluster.bootstrap, linger_ms=60_000, **limits) as producer:
            await producer.partitions_for("t")
            wrong: list[tuple[Columns[Any, Any], type[Exception]]] = [
                (Columns([b"a", "text"]), TypeError),
                (Columns(pa.array([1, 2])), TypeError),
                (Columns([b"a"], [b"k", b"l"]), ValueError),
                (Columns([b"a"], timestamp_ms=[1, 2]), ValueError),
                (Columns([b"a", b"x" * 1001]), MessageTooLarge),
                (Columns(pa.array([b"a", b"x" * 1001])), MessageTooLarge),
            ]
            for columns, error in wrong:
                with pytest.raises(error):
                    producer.send_batch("t", columns)
            assert producer.used_bytes == 0
            sent = producer.send_batch("t", Columns([b"x" * 500] * 5))
            with pytest.raises(BufferFull):
                producer.send_batch("t", Columns([b"y"]))
            await producer.flush()
            await sent
        assert [row[2] for row in read(part)] == [b"x" * 500] * 5


async def test_no_records_are_no_batch() -> None:
    async with FakeCluster() as cluster:
        part = cluster.create("t").partitions[0]
        async with Producer(cluster.bootstrap) as producer:
            await producer.partitions_for("t")
            assert await producer.send_batch("t", Columns([])) == []
            assert await producer.send_batch("t", Columns(pa.array([], pa.binary()))) == []
        assert part.batches == []


async def test_serializers_make_the_bytes() -> None:
    async with FakeCluster() as cluster:
        part = cluster.create("t").partitions[0]
        async with Producer(cluster.bootstrap, value_serializer=str.encode) as producer:
            await producer.partitions_for("t")
            await producer.send_batch("t", Columns(["a", None, "b"], [b"k", None, None]))
        assert [row[1:] for row in read(part)] == [(b"k", b"a"), (None, None), (None, b"b")]


async def test_text_is_sent_as_utf8() -> None:
    async with FakeCluster() as cluster:
        part = cluster.create("t").partitions[0]
        async with Producer(cluster.bootstrap) as producer:
            await producer.partitions_for("t")
            columns: Any = Columns(pa.array(["a", None, "ü"]))
            await producer.send_batch("t", columns)
        assert [row[2] for row in read(part)] == [b"a", None, "ü".encode()]


@pytest.mark.parametrize("compression", ["none", "lz4"])
async def test_sequences_count_records(compression: str) -> None:
    async with FakeCluster() as cluster:
        part = cluster.create("t").partitions[0]
        settings: Any = {"batch_size": 500, "compression_type": compression}
        async with Producer(cluster.bootstrap, **settings) as producer:
            await producer.partitions_for("t")
            await producer.send_batch("t", Columns([b"value %d" % n for n in range(200)]))
        headers = [read_header(batch) for batch in part.batches]
    next_sequence = 0
    for header in headers:
        assert header.base_sequence == next_sequence
        next_sequence += header.record_count
    assert next_sequence == 200


def test_arrow_goes_into_batches_as_it_lies_in_memory(codec: str) -> None:
    rows = rows_of(Columns(pa.array([b"a"])), 5)
    assert isinstance(rows, Spans) == (codec == "compiled")
    assert list(rows) == [(5, None, b"a", ())]


async def test_the_sync_producer_takes_columns_too() -> None:
    async with FakeCluster() as cluster:
        part = cluster.create("t").partitions[0]

        def send() -> int:
            with SyncProducer(cluster.bootstrap) as producer:
                sent = producer.send_batch("t", Columns([b"a", b"b"], timestamp_ms=5), partition=0)
                return sum(run.record_count for run in sent.result(10))

        assert await asyncio.to_thread(send) == 2
        assert read(part) == [(5, None, b"a"), (5, None, b"b")]
