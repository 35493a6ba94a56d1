import gzip
import io
import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from minikafka.connect.api import ConnectError, Retry
from minikafka.connect.config_def import BadConfig
from minikafka.connect.connectors.object_source import ObjectSource, ObjectSourceTask
from minikafka.connect.data import INT64, STRING, TIMESTAMP_SCHEMA, decimal, map_of, struct
from minikafka.connect.records import Header, SinkRecord, SourceRecord
from minikafka.protocol.types import TopicPartition

from .sql_support import FakeSourceContext, StoredOffsets, fed, polled, schema_types, sink_record
from .test_object_sink import log_of, task_of

URL = "memory://in"


@pytest.fixture(autouse=True)
def fresh_store() -> Iterator[None]:
    MemoryFileSystem.store.clear()
    MemoryFileSystem.pseudo_dirs[:] = [""]
    yield
    MemoryFileSystem.store.clear()


def put(name: str, data: bytes) -> None:
    fsspec.filesystem("memory").pipe_file(f"/in/{name}", data)


def props_of(**keys: Any) -> dict[str, str]:
    given = {name.replace("_", "."): str(value) for name, value in keys.items()}
    return {"name": "from-files", "store.url": URL, "poll.interval.ms": "0", **given}


def source(offsets: StoredOffsets | None = None, share: int = 0, **keys: Any) -> ObjectSourceTask:
    props = props_of(**keys)
    connector = ObjectSource()
    connector.start(props, FakeSourceContext())
    task = ObjectSourceTask()
    mine = connector.task_configs(int(props.get("tasks.max", "1")))[share]
    task.start(mine, FakeSourceContext(offsets))
    return task


def values(records: list[SourceRecord]) -> list[Any]:
    return [record.value for record in records]


@pytest.mark.parametrize("form", ["parquet", "jsonl"])
def test_what_the_sink_wrote_is_read_back(form: str) -> None:
    schema = struct({"id": INT64, "price": decimal(2), "more": map_of(STRING, INT64)})
    value = {"id": 1, "price": Decimal("1.50"), "more": {"x": 2}}
    log: list[SinkRecord] = [
        sink_record(
            "orders", 3, 0, value, value_schema=schema, key=b"\xff", timestamp_ms=5,
            headers=(Header("h", "v"),),
        ),
        sink_record("orders", 3, 1, None, key=b"k"),
    ]  # fmt: skip
    partition = TopicPartition("orders", 3)
    sink, context = task_of(URL, partition, format=form, flush_size=2)
    fed(sink, context, log)
    first, second = polled(source(partition_keep="true"))
    expected: Mapping[str, Any] = value if form == "parquet" else {**value, "price": "1.50"}
    assert (first.topic, first.partition, first.key, first.value, first.timestamp_ms) == (
        "orders", 3, b"\xff", expected, 5,
    )  # fmt: skip
    assert [(each.key, each.value) for each in first.headers] == [("h", "v")]
    assert (second.key, second.value) == (b"k", None)
    assert second.source_offset == {"row": 2, "done": True}
    assert second.source_partition == {"file": f"orders/partition=3/orders+3+0000000000.{form}"}


def test_rows_are_read_once_whatever_was_committed() -> None:
    sink, context = task_of(URL, flush_size=4)
    fed(sink, context, log_of(12))
    every = polled(source(batch_max_rows=3))
    assert values(every) == [f"v{n}" for n in range(12)]
    for cut in range(13):
        offsets = StoredOffsets()
        offsets.commit(every[:cut])
        rest = polled(source(offsets, batch_max_rows=5))
        assert values(rest) == [f"v{n}" for n in range(cut, 12)]


def test_files_that_come_later_are_found_and_those_that_are_done_are_not_opened() -> None:
    put("a.jsonl", b'{"n": 1}\n{"n": 2}')
    task = source(topic="all")
    assert values(polled(task)) == [{"n": 1}, {"n": 2}]
    put("a.jsonl", b"broken")  # nobody looks
    put("0.jsonl.gz", gzip.compress(b'{"n": 3}\n'))
    put(".hidden.jsonl", b"broken")
    put("_temporary/b.jsonl", b"broken")
    put("readme.txt", b"not looked at")
    assert values(polled(task)) == [{"n": 3}]
    assert polled(task) == []


def test_empty_files_are_no_records() -> None:
    put("a.jsonl", b"")
    put("b.jsonl", b"[1]\n")
    assert values(polled(source(topic="all"))) == [[1]]


def test_any_parquet_is_a_struct_for_each_row() -> None:
    table = pa.table(
        {
            "id": pa.array([1, 2, 3], pa.int32()),
            "at": pa.array([datetime(2026, 1, 2)] * 3, pa.timestamp("us")),
            "name": pa.array(["a", None, "c"]).dictionary_encode(),
            "tags": pa.array([[], ["x"], None], pa.list_(pa.string())),
        }
    )
    buffer = io.BytesIO()
    pq.write_table(table, buffer, row_group_size=2)
    put("t.parquet", buffer.getvalue())
    every = polled(source(topic="rows", batch_max_rows=2))
    assert schema_types(every[0].value_schema) == {
        "id": "int32?", "at": "Timestamp?", "name": "string?", "tags": "array?",
    }  # fmt: skip
    assert every[1].value == {
        "id": 2, "at": datetime(2026, 1, 2, tzinfo=UTC), "name": None, "tags": ["x"],
    }  # fmt: skip
    assert every[0].value_schema is not None
    at = every[0].value_schema.field("at")
    assert at is not None
    assert at.schema == TIMESTAMP_SCHEMA.as_optional()
    for cut in (1, 2):
        offsets = StoredOffsets()
        offsets.commit(every[:cut])
        assert [each.value["id"] for each in polled(source(offsets, topic="rows"))] == [2, 3][
            cut - 1 :
        ]


def test_raw_files_are_values() -> None:
    put("x/one.bin", b"\x00\xff")
    put("x/two.png", b"png")
    assert values(polled(source(topic="raw"))) == [b"\x00\xff"]
    both = polled(source(topic="raw", format="raw", file_pattern="x/*"))
    assert values(both) == [b"\x00\xff", b"png"]
    assert both[0].source_offset == {"row": 1, "done": True}


def test_tasks_share_the_files() -> None:
    for n in range(20):
        put(f"{n}.jsonl", json.dumps(n).encode())
    shares = [values(polled(source(topic="t", share=n, tasks_max=3), 40)) for n in range(3)]
    assert all(shares)
    assert sorted(each for share in shares for each in share) == list(range(20))


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("a.jsonl", b'{"n": 1}\n{"n":', "a.jsonl, line 2: no record in JSON"),
        ("t+0+0.jsonl", b"[]\n", "line 1: no record in JSON"),
        ("a.parquet", b"PAR1 it is not", "a.parquet is no file of Parquet"),
    ],
)
def test_a_file_that_is_damaged_is_named(name: str, data: bytes, words: str) -> None:
    put(name, data)
    with pytest.raises(ConnectError, match=words):
        polled(source(topic="t"))


def test_a_line_without_end_takes_no_memory_without_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("minikafka.connect.connectors.object_reading.MAX_BYTES", 10)
    put("a.jsonl", b"[1]\n[" + b"1," * 50)
    with pytest.raises(ConnectError, match="line 2: longer than 10 bytes"):
        polled(source(topic="t"))
    put("a.jsonl", b"")
    put("b.bin", b"x" * 11)
    with pytest.raises(ConnectError, match=r"b\.bin is longer than 10 bytes"):
        polled(source(topic="t"))


def test_a_file_that_tells_no_topic_is_named() -> None:
    put("a.jsonl", b"1\n")
    with pytest.raises(ConnectError, match="set topic, or leave the file out"):
        polled(source())


def test_a_store_that_fails_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    put("a.jsonl", b"1\n2\n")
    task = source(topic="t", max_retries=1, retry_backoff_ms=3)

    def away(*_: Any, **__: Any) -> None:
        raise OSError("away")

    with monkeypatch.context() as patch:
        patch.setattr(MemoryFileSystem, "_open", away)
        with pytest.raises(Retry, match="OSError: away") as caught:
            task.poll()
        assert caught.value.after_ms == 3
    assert values(polled(task)) == [1, 2]


def test_a_file_that_is_interrupted_is_read_on_without_doubles(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    put("a.jsonl", b"0\n1\n2\n3\n4\n5\n")
    task = source(topic="t", batch_max_rows=2)
    assert values(list(task.poll() or ())) == [0, 1]
    real = json.loads

    def breaks(line: bytes) -> Any:
        if line == b"3\n":
            raise OSError("cut off")
        return real(line)

    with monkeypatch.context() as patch:
        patch.setattr("minikafka.connect.connectors.object_reading.json.loads", breaks)
        with pytest.raises(Retry, match=r"a\.jsonl cannot be read: OSError: cut off"):
            task.poll()
    assert values(polled(task)) == [2, 3, 4, 5]


def test_what_cannot_work_is_refused() -> None:
    with pytest.raises(BadConfig, match="must be one of auto, parquet"):
        source(format="csv")
    with pytest.raises(ConnectError, match="url cannot be used"):
        source(store_url="nowhere://x")
    assert ObjectSource().exactly_once_support(props_of())
    assert ObjectSource().alter_offsets({}, {(("file", "a"),): {"row": 1}, (("file", "b"),): None})
    with pytest.raises(ConnectError, match="must be a number of rows"):
        ObjectSource().alter_offsets({}, {(("file", "a"),): {"row": "x"}})
    with pytest.raises(ConnectError, match="has no file"):
        ObjectSource().alter_offsets({}, {(("table", "a"),): {"row": 1}})


def test_files_that_were_read_are_passed_over_in_one_poll() -> None:
    offsets = StoredOffsets()
    for number in range(30):
        put(f"{number:03}.jsonl", b'{"a": 1}\n')
    offsets.commit(polled(source(offsets, topic="t"), polls=100))
    put("new.jsonl", b'{"a": 2}\n')
    put("none.jsonl", b"")
    again = source(offsets, topic="t")
    assert values(polled(again, polls=1)) == [{"a": 2}]


def test_a_file_that_is_gone_before_it_is_read_is_left_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    for name in "abc":
        put(f"{name}.jsonl", b'{"a": 1}\n')
    task = source(topic="t", max_retries=0)
    assert len(polled(task, polls=1)) == 1
    fsspec.filesystem("memory").rm("/in/b.jsonl")
    assert len(polled(task, polls=3)) == 1
    assert "b.jsonl was gone before it was read" in caplog.text


def test_a_task_that_could_not_start_is_stopped_in_silence() -> None:
    ObjectSourceTask().stop()
