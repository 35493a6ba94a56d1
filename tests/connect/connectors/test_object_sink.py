import gzip
import json
import os
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from minikafka.connect.api import ConnectError, Retry
from minikafka.connect.config_def import BadConfig
from minikafka.connect.connectors.object_sink import ObjectSink, ObjectSinkTask
from minikafka.connect.connectors.object_store import ObjectStore
from minikafka.connect.data import (
    BYTES,
    INT64,
    STRING,
    TIMESTAMP_SCHEMA,
    array,
    decimal,
    map_of,
    struct,
)
from minikafka.connect.records import Header, SinkRecord
from minikafka.protocol.types import TopicPartition

from .sql_support import FakeSinkContext, fed, sink_record

T0 = TopicPartition("t", 0)
Made = tuple[ObjectSinkTask, FakeSinkContext]


class Killed(BaseException):
    """The process ends here."""


class Steps:
    """Counts what is asked of a store, and ends the process at the step that it is told."""

    def __init__(self) -> None:
        self.taken: list[str] = []
        self.kill_at: int | None = None
        self.fails: Callable[[str], Exception | None] = lambda name: None

    def step(self, name: str, act: Callable[[], Any]) -> Any:
        self._pass(f"before {name}")
        error = self.fails(name)
        if error is not None:
            raise error
        done = act()
        self._pass(f"after {name}")
        return done

    def _pass(self, name: str) -> None:
        self.taken.append(name)
        if self.kill_at == len(self.taken) - 1:
            raise Killed(name)


STEPS = Steps()


class WholeStore(MemoryFileSystem):  # type: ignore[misc]
    """An object store: a PUT is visible whole, and If-None-Match is known."""

    protocol = ("s3",)
    cachable = False
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return str(MemoryFileSystem._strip_protocol(path.replace("whole://", "memory://")))

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **_: Any) -> None:
        put = super().pipe_file
        STEPS.step("put", lambda: put(path, value, mode=mode))

    def ls(self, path: str, detail: bool = True, **kwargs: Any) -> Any:
        listed = super().ls
        return STEPS.step("list", lambda: listed(path, detail=detail, **kwargs))


class TornStore(WholeStore):
    """A store whose files grow as they are written, and that renames."""

    protocol = ("sftp",)
    store: ClassVar[dict[str, Any]] = {}

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **_: Any) -> None:
        put = super(WholeStore, self).pipe_file
        STEPS.step("half", lambda: put(path, value[: len(value) // 2]))
        STEPS.step("whole", lambda: put(path, value))

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        made = super().makedirs
        STEPS.step("makedirs", lambda: made(path, exist_ok=exist_ok))

    def mv(self, path1: str, path2: str, **kwargs: Any) -> None:
        def move() -> None:
            self.store[self._strip_protocol(path2)] = self.store.pop(self._strip_protocol(path1))

        STEPS.step("rename", move)


@pytest.fixture(autouse=True)
def fresh_stores(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    STEPS.__init__()  # type: ignore[misc]
    for cls in (WholeStore, TornStore, MemoryFileSystem):
        cls.store.clear()
        cls.pseudo_dirs[:] = [""]
    fsspec.register_implementation("whole", WholeStore, clobber=True)
    fsspec.register_implementation("torn", TornStore, clobber=True)
    yield
    MemoryFileSystem.store.clear()


@pytest.fixture
def local_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """The calls that make a local file visible are steps."""
    for name in ("link", "fsync", "unlink"):
        call = getattr(os, name)

        def stepped(*args: Any, name: str = name, call: Any = call) -> Any:
            return STEPS.step(name, lambda: call(*args))

        monkeypatch.setattr(f"minikafka.connect.connectors.object_store.os.{name}", stepped)


def task_of(url: str, *partitions: TopicPartition, tolerant: bool = False, **keys: Any) -> Made:
    given = {
        name if "." in name else name.replace("_", "."): str(value) for name, value in keys.items()
    }
    props = {"name": "to-files", "store.url": url, **given}
    ObjectSink.config.parse(props)
    context = FakeSinkContext(*(partitions or (T0,)), tolerant=tolerant)
    task = ObjectSinkTask()
    task.start(props, context)
    task.open(partitions or (T0,))
    return task, context


def log_of(count: int, start: int = 0) -> list[SinkRecord]:
    return [
        sink_record("t", 0, n, f"v{n}", value_schema=STRING, timestamp_ms=1000 + n)
        for n in range(start, count)
    ]


def files_of(url: str) -> dict[str, bytes]:
    """The content of the visible files, by the name below the folder."""
    fs, root = fsspec.url_to_fs(url)
    return {
        path[len(root) :].lstrip("/"): fs.cat_file(path)
        for path in sorted(fs.find(root))
        if not path.rpartition("/")[2].startswith(".")
    }


def offsets_in(files: dict[str, bytes]) -> list[int]:
    """The offsets of all records in the files, in the order of names."""
    found: list[int] = []
    for name, data in files.items():
        if name.endswith(".parquet"):
            found += pq.read_table(pa.BufferReader(data)).column("offset").to_pylist()
        else:
            text = gzip.decompress(data) if name.endswith(".gz") else data
            found += [json.loads(line)["offset"] for line in text.splitlines()]
    return found


def test_files_are_named_by_where_they_begin_and_hold_the_records() -> None:
    task, context = task_of("memory://out", flush_size=4)
    fed(task, context, log_of(10))
    files = files_of("memory://out")
    assert list(files) == [
        "t/partition=0/t+0+0000000000.parquet",
        "t/partition=0/t+0+0000000004.parquet",
    ]
    assert offsets_in(files) == list(range(8))
    second = pq.read_table(pa.BufferReader(files["t/partition=0/t+0+0000000004.parquet"]))
    assert second.to_pylist()[0] == {
        "offset": 4, "timestamp_ms": 1004, "key": None, "value": "v4", "headers": [],
    }  # fmt: skip
    assert task.pre_commit({T0: 10}) == {T0: 8}
    assert context.commit_requests > 0


@pytest.mark.parametrize("batch", [1, 3, 10])
@pytest.mark.parametrize("form", ["parquet", "jsonl"])
@pytest.mark.parametrize(
    "rules",
    [{"flush_size": 4}, {"flush_size": 100, "flush_bytes": 9}, {"rotate_interval_ms": 5}],
)
def test_files_end_by_their_records_however_these_come(
    rules: dict[str, Any], form: str, batch: int
) -> None:
    task, context = task_of("memory://whole", format=form, **rules)
    fed(task, context, log_of(40), batch=40)
    expected = files_of("memory://whole")
    assert len(expected) > 3
    task, context = task_of("memory://parts", format=form, **rules)
    fed(task, context, log_of(40), batch=batch)
    assert files_of("memory://parts") == expected


def test_bytes_end_a_file_with_the_record_that_reaches_them() -> None:
    task, context = task_of("memory://out", flush_bytes=6, format="jsonl")
    fed(task, context, log_of(14))
    assert [name.rpartition("+")[2] for name in files_of("memory://out")] == [
        f"{n:010d}.jsonl" for n in (0, 3, 6, 9, 12)
    ]


def lives(url: str, log: Sequence[SinkRecord], kill_at: int, **keys: Any) -> None:
    """A task that ends at a step, and its heirs, until the log is written."""
    STEPS.taken, STEPS.kill_at = [], kill_at
    for life in range(3):
        try:
            task, context = task_of(url, **keys)
            fed(task, context, log, batch=3)
        except Killed:
            assert life == 0
            STEPS.kill_at = None
        else:
            return


@pytest.mark.parametrize("form", ["parquet", "jsonl"])
@pytest.mark.parametrize("scheme", ["whole", "torn", "local"])
def test_x_40_a_sink_killed_at_any_step_has_each_record_in_one_file_of_the_same_name(
    scheme: str, form: str, tmp_path: Path, local_steps: None
) -> None:
    log = [each for each in log_of(12) if each.offset not in (4, 8)]  # compacted away
    keys = {"flush_size": 4, "format": form}

    def url(run: str) -> str:
        return f"file://{tmp_path}/{run}" if scheme == "local" else f"{scheme}://{run}"

    lives(url("undisturbed"), log, -1, **keys)
    expected, steps = files_of(url("undisturbed")), len(STEPS.taken)
    assert steps >= 5
    assert offsets_in(expected) == [0, 1, 2, 3, 5, 6, 7, 9]
    for step in range(steps):
        lives(url(f"run{step}"), log, step, **keys)
        assert files_of(url(f"run{step}")) == expected, STEPS.taken


@pytest.mark.parametrize("scheme", ["whole", "torn", "file"])
def test_x_40_two_tasks_that_write_at_once_make_each_file_once(scheme: str, tmp_path: Path) -> None:
    url = f"{scheme}://{tmp_path}"
    zombie, old = task_of(url, flush_size=4)
    heir, new = task_of(url, flush_size=3)  # and its configuration is another
    fed(zombie, old, log_of(6), batch=2)
    fed(heir, new, log_of(5))
    assert new.seeks == {T0: 4}
    fed(heir, new, log_of(11))
    fed(zombie, old, log_of(12, start=6))
    assert old.seeks == {T0: 10}
    fed(zombie, old, log_of(14))
    assert offsets_in(files_of(url)) == list(range(14))


def columns(start: int, stop: int) -> pa.RecordBatch:
    return pa.record_batch(
        {
            "offset": pa.array(range(start, stop), pa.int64()),
            "timestamp_ms": pa.array(range(start, stop), pa.int64()),
            "key": pa.array([None] * (stop - start), pa.binary()),
            "value": pa.array([b"v%d" % n for n in range(start, stop)], pa.binary()),
        }
    )


@pytest.mark.parametrize("theirs", [3, 5])
def test_x_40_what_was_fetched_before_a_seek_is_left_out(theirs: int) -> None:
    task, context = task_of("memory://out", flush_size=4)
    other, _ = task_of("memory://out", flush_size=theirs)
    other.put_columns(T0, columns(0, theirs))
    for start in range(0, 12, 3):  # one round: the seek takes effect after it
        task.put_columns(T0, columns(start, start + 3))
    assert context.seeks == {T0: theirs}
    assert task.pre_commit({T0: 12}) == {T0: theirs}
    for start in range(theirs, 20, 3):
        task.put_columns(T0, columns(start, start + 3))
    found = offsets_in(files_of("memory://out"))
    assert found == list(range(len(found)))
    assert len(found) > 12


def test_x_40_a_put_whose_answer_is_lost_is_not_repeated() -> None:
    task, context = task_of("whole://out", flush_size=3, max_retries=5, retry_backoff_ms=9)
    log = log_of(9)
    real = WholeStore.pipe_file
    lost = iter([True])

    def pipe_file(self: WholeStore, path: str, value: bytes, mode: str = "", **_: Any) -> None:
        real(self, path, value, mode)
        if next(lost, False):
            raise ConnectionResetError("no answer")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WholeStore, "pipe_file", pipe_file)
        task.put(log)
    assert offsets_in(files_of("whole://out")) == list(range(9))
    assert context.seeks == {}


def test_a_store_that_fails_is_tried_again_and_then_told() -> None:
    task, context = task_of("whole://out", flush_size=3, max_retries=2, retry_backoff_ms=9)
    log = log_of(8)
    STEPS.fails = lambda name: OSError("no space") if name == "put" else None
    for _ in range(2):
        with pytest.raises(Retry, match="OSError: no space") as caught:
            task.put(log)
        assert caught.value.after_ms == 9
    STEPS.fails = lambda name: None
    task.put(log)
    assert offsets_in(files_of("whole://out")) == list(range(6))
    STEPS.fails = lambda name: OSError("no space") if name == "put" else None
    more = log_of(20)
    for _ in range(2):
        with pytest.raises(Retry):
            task.put(more)
    with pytest.raises(ConnectError, match="tried 3 times"):
        task.put(more)
    assert context.seeks == {}


def test_columns_are_written_as_they_are() -> None:
    task, context = task_of("memory://out", flush_size=6)
    task.put_columns(T0, columns(0, 10))
    task.put_columns(T0, columns(8, 13))
    files = files_of("memory://out")
    assert offsets_in(files) == list(range(12))
    assert pq.read_table(pa.BufferReader(next(iter(files.values())))).column_names == [
        "offset", "timestamp_ms", "key", "value",
    ]  # fmt: skip
    heir, context = task_of("memory://out", format="jsonl", flush_size=2)
    assert context.seeks == {T0: 12}
    heir.put_columns(T0, columns(12, 14))
    last = list(files_of("memory://out").values())[-1]
    assert json.loads(last.splitlines()[0]) == {
        "offset": 12, "timestamp_ms": 12, "key": None, "value_base64": "djEy",
    }  # fmt: skip


def test_values_with_schemas_keep_their_types() -> None:
    schema = struct(
        {
            "id": INT64, "price": decimal(2), "at": TIMESTAMP_SCHEMA, "tags": array(STRING),
            "counts": map_of(STRING, INT64), "raw": BYTES.as_optional(),
        }
    )  # fmt: skip
    value = {
        "id": 1, "price": Decimal("1.50"), "at": datetime(2026, 1, 2, tzinfo=UTC), "tags": ["a"],
        "counts": {"x": 1}, "raw": None,
    }  # fmt: skip
    record = sink_record("t", 0, 0, value, value_schema=schema, headers=(Header("h", 1),))
    for form in ("parquet", "jsonl"):
        task, _ = task_of(f"memory://{form}", format=form, flush_size=1)
        task.put([record])
    (data,) = files_of("memory://parquet").values()
    (row,) = pq.read_table(pa.BufferReader(data)).to_pylist()
    assert row["value"] == {**value, "counts": [("x", 1)]}
    assert row["headers"] == [{"key": "h", "value": "1"}]
    (data,) = files_of("memory://jsonl").values()
    assert json.loads(data) == {
        "offset": 0, "timestamp_ms": None, "key": None, "headers": [["h", 1]],
        "value": {**value, "price": "1.50", "at": "2026-01-02T00:00:00+00:00"},
    }  # fmt: skip


def test_another_schema_begins_another_file_and_a_tombstone_does_not() -> None:
    task, _ = task_of("memory://out")
    one, two = struct({"a": INT64}), struct({"b": STRING})
    task.put(
        [
            sink_record("t", 0, 0, {"a": 1}, value_schema=one),
            sink_record("t", 0, 1, None),
            sink_record("t", 0, 2, {"a": 2}, value_schema=one),
            sink_record("t", 0, 3, {"b": "x"}, value_schema=two),
        ]
    )
    assert [
        pq.read_table(pa.BufferReader(data)).column("value").to_pylist()
        for data in files_of("memory://out").values()
    ] == [[{"a": 1}, None, {"a": 2}]]


def test_raw_values_are_files_of_their_own() -> None:
    task, context = task_of("memory://out", format="raw")
    log = [
        sink_record("t", 0, 3, b"\x00\xff"),
        sink_record("t", 0, 4, None),
        sink_record("t", 0, 6, "text"),
        sink_record("t", 0, 7, {"a": 1}),
    ]
    task.put(log)
    assert files_of("memory://out") == {
        "t/partition=0/t+0+0000000003.bin": b"\x00\xff",
        "t/partition=0/t+0+0000000006.bin": b"text",
        "t/partition=0/t+0+0000000007.bin": b'{"a":1}',
    }
    assert task.pre_commit({T0: 8}) == {T0: 8}
    _, context = task_of("memory://out", format="raw")
    assert context.seeks == {T0: 8}


@pytest.mark.parametrize("compression", ["gzip", "none"])
def test_json_lines_tell_their_end_however_long_they_are(compression: str) -> None:
    task, _ = task_of("memory://out", format="jsonl", flush_size=2, compression=compression)
    task.put([sink_record("t", 0, n, "x" * 100_000) for n in (5, 9)])
    (name,) = files_of("memory://out")
    assert name.endswith(".jsonl.gz" if compression == "gzip" else ".jsonl")
    _, context = task_of("memory://out")
    assert context.seeks == {T0: 10}


def test_a_record_without_a_form_is_reported_and_passed() -> None:
    task, context = task_of("memory://out", tolerant=True, format="jsonl", flush_size=2)
    log = log_of(4)
    log[1] = sink_record("t", 0, 1, float("nan"))
    task.put(log)
    assert offsets_in(files_of("memory://out")) == [0, 2]
    assert [record.offset for record, _ in context.reported] == [1]
    strict, _ = task_of("memory://other", format="jsonl")
    with pytest.raises(ConnectError, match="offset 1"):
        strict.put(log)


def test_a_foreign_file_in_the_place_of_ours_is_not_taken_for_ours() -> None:
    fs, _ = fsspec.url_to_fs("memory://out")
    fs.pipe_file("/out/t/partition=0/t+0+0000000003.jsonl", b"hello\n")
    fs.pipe_file("/out/t/partition=0/t+0+9.csv", b"not looked at")
    with pytest.raises(ConnectError, match="was not written by ObjectSink"):
        task_of("memory://out")


def test_what_cannot_work_is_refused() -> None:
    with pytest.raises(BadConfig, match="compressed with gzip, or not"):
        task_of("memory://out", format="jsonl", compression="zstd")
    with pytest.raises(BadConfig, match="must be one of parquet, jsonl, raw"):
        task_of("memory://out", format="avro")
    with pytest.raises(ConnectError, match="url cannot be used"):
        task_of("nowhere://out")
    assert ObjectSink().alter_offsets({}, {T0: None})
    with pytest.raises(ConnectError, match="remove the files"):
        ObjectSink().alter_offsets({}, {T0: {"kafka_offset": 1}})


class Azure(MemoryFileSystem):  # type: ignore[misc]
    """Creates and overwrites as adlfs does: its `mode` means nothing."""

    protocol = "abfs"

    def pipe_file(self, path: str, value: bytes, overwrite: bool = True, **_: Any) -> None:
        super().pipe_file(path, value, mode="overwrite" if overwrite else "create")


def test_azure_is_asked_in_its_own_words_to_overwrite_nothing() -> None:
    fsspec.register_implementation("abfs", Azure, clobber=True)
    store = ObjectStore("abfs://box/there", {})
    assert store.create("a", b"first")
    assert not store.create("a", b"second")
    assert store.fs.cat_file(store.path("a")) == b"first"
