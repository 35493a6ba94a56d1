"""DirectorySource: whole files, each once, as lines, CSV and Parquet."""

import os
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from minikafka.connect.api import ConnectError
from minikafka.connect.config_def import BadConfig
from minikafka.connect.connectors.directory import DirectorySource, DirectorySourceTask
from minikafka.connect.converters.json import JsonConverter
from minikafka.connect.data import (
    DATE_SCHEMA,
    INT64,
    STRING,
    TIMESTAMP_SCHEMA,
    array,
    decimal,
    map_of,
    struct,
)
from minikafka.connect.records import SourceRecord

from .support import FakeOffsets, FakeSource, drain, started


def props_of(directory: Path, **props: str) -> dict[str, str]:
    keys = {name.replace("_", "."): value for name, value in props.items()}
    base = {"dir": str(directory), "topic": "t", "scan.interval.ms": "0", "min.age.ms": "0"}
    return {**base, **keys}


def task_of(
    directory: Path, offsets: FakeOffsets | None = None, **props: str
) -> DirectorySourceTask:
    return started(DirectorySourceTask(), props_of(directory, **props), offsets)


def values(records: list[SourceRecord]) -> list[Any]:
    return [record.value for record in records]


def committed(task: DirectorySourceTask, records: list[SourceRecord]) -> None:
    for record in records:
        task.commit_record(record, object())


def test_files_are_read_in_the_order_of_names_and_each_once(tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_text("three\nfour, without an end")
    (tmp_path / "a.txt").write_text("one\r\ntwo\n")
    (tmp_path / "empty.txt").touch()
    (tmp_path / "folder").mkdir()
    task = task_of(tmp_path)
    records = drain(task)
    assert values(records) == ["one", "two", "three", "four, without an end"]
    assert [each.source_offset["done"] for each in records] == [False, True, False, True]
    assert records[1].source_partition == {"filename": "a.txt"}
    (tmp_path / "c.txt").write_text("five\n")
    assert values(drain(task)) == ["five"]


def test_files_are_read_in_the_order_of_their_times(tmp_path: Path) -> None:
    for name, changed in (("a", 3), ("b", 1), ("c", 2)):
        (tmp_path / name).write_text(f"{name}\n")
        os.utime(tmp_path / name, (changed, changed))
    assert values(drain(task_of(tmp_path, order="mtime"))) == ["b", "c", "a"]


def test_a_glob_may_go_down_into_folders(tmp_path: Path) -> None:
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "deep" / "er" / "x.log").write_text("x\n")
    (tmp_path / "y.txt").write_text("y\n")
    (record,) = drain(task_of(tmp_path, glob="**/*.log"))
    assert record.source_partition == {"filename": "deep/er/x.log"}


def test_a_file_that_is_still_written_to_waits(tmp_path: Path) -> None:
    (tmp_path / "fresh").write_text("new\n")
    (tmp_path / "old").write_text("old\n")
    os.utime(tmp_path / "old", (1, 1))
    assert values(drain(task_of(tmp_path, min_age_ms="3600000"))) == ["old"]


def test_tasks_share_the_files(tmp_path: Path) -> None:
    names = [f"{number}.txt" for number in range(20)]
    for name in names:
        (tmp_path / name).write_text(f"{name}\n")
    connector = DirectorySource()
    connector.props = props_of(tmp_path)
    shares = [
        values(drain(started(DirectorySourceTask(), each))) for each in connector.task_configs(3)
    ]
    assert all(shares)
    assert sorted(name for share in shares for name in share) == sorted(names)


@pytest.mark.parametrize("batches", range(6))
@pytest.mark.parametrize("format", ["lines", "csv", "parquet"])
def test_x_35_a_killed_task_goes_on_behind_what_was_committed(
    tmp_path: Path, format: str, batches: int
) -> None:
    rows = [{"n": str(number)} for number in range(7)]
    for name, part in (("a", rows[:4]), ("b", rows[4:])):
        if format == "parquet":
            pq.write_table(pa.Table.from_pylist(part), tmp_path / name, row_group_size=2)
        else:
            (tmp_path / name).write_text("".join(f"{row['n']}\n" for row in [{"n": "n"}, *part]))
    expected: list[Any] = rows
    if format == "lines":
        expected = ["n", "0", "1", "2", "3", "n", "4", "5", "6"]
    offsets, seen = FakeOffsets(), []
    killed = task_of(tmp_path, format=format, batch_size="2")
    for _ in range(batches):
        batch = list(killed.poll() or [])
        offsets.commit(batch)
        seen += values(batch)
    killed.poll()  # these are lost with the task
    again = task_of(tmp_path, offsets, format=format, batch_size="2")
    assert seen + values(drain(again)) == expected


def test_another_file_of_the_same_name_is_read_too(tmp_path: Path) -> None:
    offsets = FakeOffsets()
    (tmp_path / "data").write_text("monday\n")
    task = task_of(tmp_path, offsets)
    monday = drain(task)
    offsets.commit(monday)
    assert drain(task) == []
    (tmp_path / "data").write_text("tuesday\n")
    assert drain(task) == []  # what is on its way from the old one is not there yet
    committed(task, monday)
    assert values(drain(task)) == ["tuesday"]
    assert values(drain(task_of(tmp_path, offsets))) == ["tuesday"]


@pytest.mark.parametrize(
    ("after", "left"),
    [
        ("keep", ["a", "b"]),
        ("mark", ["a", "a.done", "b", "b.done"]),
        ("delete", []),
        ("move", []),
    ],
)
def test_a_file_is_dealt_with_once_all_its_records_are_in_the_topic(
    tmp_path: Path, after: str, left: list[str]
) -> None:
    directory, away = tmp_path / "in", tmp_path / "out"
    directory.mkdir()
    away.mkdir()
    (away / "a").write_text("of an earlier day\n")
    (directory / "a").write_text("1\n2\n")
    (directory / "b").touch()
    task = task_of(directory, after=after, move_dir=str(away))
    records = drain(task)
    committed(task, records[:1])
    assert (directory / "a").exists()
    assert not (directory / "a.done").exists()
    committed(task, records[1:])
    assert sorted(path.name for path in directory.iterdir()) == left
    if after == "move":
        assert sorted(path.name for path in away.iterdir()) == ["a", "a.1", "b"]
        assert (away / "a.1").read_text() == "1\n2\n"
    assert drain(task) == []


def test_a_file_whose_task_was_killed_before_it_was_deleted_is_deleted(tmp_path: Path) -> None:
    offsets = FakeOffsets()
    (tmp_path / "a").write_text("1\n")
    offsets.commit(drain(task_of(tmp_path, after="delete")))
    assert drain(task_of(tmp_path, offsets, after="delete")) == []
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_was_replaced_meanwhile_is_not_deleted(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old\n")
    task = task_of(tmp_path, after="delete")
    records = drain(task)
    (tmp_path / "a").write_text("newer\n")
    committed(task, records)
    assert values(drain(task)) == ["newer"]


def test_a_file_with_a_marker_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1\n")
    (tmp_path / "a.done").touch()
    (tmp_path / "b").write_text("2\n")
    assert values(drain(task_of(tmp_path, after="mark"))) == ["2"]


def test_what_was_moved_within_the_directory_is_not_read_again(tmp_path: Path) -> None:
    away = tmp_path / "read"
    (tmp_path / "a").write_text("1\n")
    task = task_of(tmp_path, glob="**/*", after="move", move_dir=str(away))
    records = drain(task)
    committed(task, records)
    assert (away / "a").exists()
    assert drain(task) == []


def test_rows_of_csv_have_the_types_that_are_given(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(
        'id;name;price;at;day\n1;"a;\nb";1.50;2026-01-02T03:04:05Z;2026-01-02\n2;"";;;\n'
    )
    columns = "id:int64,price:decimal:2,at:timestamp,day:date"
    rows = drain(task_of(tmp_path, format="csv", csv_columns=columns, csv_delimiter=";"))
    at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert values(rows) == [
        {
            "id": 1,
            "name": "a;\nb",
            "price": Decimal("1.50"),
            "at": at,
            "day": date(2026, 1, 2),
        },
        {"id": 2, "name": "", "price": None, "at": None, "day": None},
    ]
    schemas = {
        "id": INT64,
        "name": STRING,
        "price": decimal(2),
        "at": TIMESTAMP_SCHEMA,
        "day": DATE_SCHEMA,
    }
    expected = struct({name: schema.as_optional() for name, schema in schemas.items()})
    assert rows[0].value_schema == expected


def test_csv_without_a_header_has_the_columns_that_are_named(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1\t2026-01-02T03:04:05\n")
    columns = "n:int8,at:timestamp"
    task = task_of(
        tmp_path, format="csv", csv_header="false", csv_delimiter="tab", csv_columns=columns
    )
    (record,) = drain(task)
    assert record.value == {"n": 1, "at": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)}


BAD = "n,name\n1,a\n2\n3,c\nx,d\n5,e\n"


def test_bad_rows_are_skipped_and_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "a.csv").write_text(BAD)
    rows = drain(task_of(tmp_path, format="csv", bad_rows="skip", csv_columns="n:int32"))
    assert [row["n"] for row in values(rows)] == [1, 3, 5]
    path = tmp_path / "a.csv"
    assert [record.message for record in caplog.records] == [
        f"{path}, line 3: 1 columns in place of 2: '2'",
        f"{path}, row 3: n is 'x', not of type int32: skipped",
    ]


@pytest.mark.parametrize(
    ("content", "wrong"),
    [
        (BAD, r"a.csv cannot be read: CSV parse error: Row #3: Expected 2 columns, got 1"),
        ("n\n1\nx\n", r"a.csv, row 2: n is 'x', not of type int32; mend the file, or set bad.rows"),
        (b"n\n1\n\xff\n", r"a.csv cannot be read: .*UTF8"),
        ("m\n1\n", r"a.csv has no column n of csv.columns, but m"),
        ("n,n\n1,1\n", r"two columns have one name: n, n"),
    ],
)
def test_a_bad_file_is_named(tmp_path: Path, content: str | bytes, wrong: str) -> None:
    data = content if isinstance(content, bytes) else content.encode()
    (tmp_path / "a.csv").write_bytes(data)
    with pytest.raises(ConnectError, match=wrong):
        drain(task_of(tmp_path, format="csv", csv_columns="n:int32"))


def test_rows_before_a_bad_batch_are_handed_over(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("n\n1\n2\nx\n")
    task = task_of(tmp_path, format="csv", csv_columns="n:int32", batch_size="2")
    assert values(list(task.poll() or [])) == [{"n": 1}, {"n": 2}]
    with pytest.raises(ConnectError, match="row 3: n is 'x'"):
        task.poll()


def test_empty_csv_files_have_no_rows(tmp_path: Path) -> None:
    (tmp_path / "a.csv").touch()
    (tmp_path / "b.csv").write_text("n,m\n")
    assert drain(task_of(tmp_path, format="csv")) == []


def test_rows_of_parquet_have_the_schema_of_the_file(tmp_path: Path) -> None:
    fields: dict[str, tuple[pa.DataType, Any, Any]] = {
        "n": (pa.uint32(), 7, INT64),
        "big": (pa.uint64(), 2**64 - 1, decimal(0)),
        "at": (pa.timestamp("ns"), datetime(2026, 1, 2), TIMESTAMP_SCHEMA),
        "tags": (pa.list_(pa.string()), ["a"], array(STRING.as_optional())),
        "counts": (pa.map_(pa.string(), pa.int64()), {"a": 1}, map_of(STRING, INT64.as_optional())),
        "inner": (pa.struct([("m", pa.int64())]), {"m": 1}, struct({"m": INT64.as_optional()})),
        "kind": (pa.dictionary(pa.int8(), pa.string()), "x", STRING),
    }
    schema = pa.schema({name: kind for name, (kind, _, _) in fields.items()})
    row = {name: value for name, (_, value, _) in fields.items()}
    table = pa.Table.from_pylist([{**row, "counts": [("a", 1)]}], schema=schema)
    pq.write_table(table, tmp_path / "a.parquet", version="2.6")
    (record,) = drain(task_of(tmp_path, format="parquet"))
    expected = {**row, "big": Decimal(2**64 - 1), "at": datetime(2026, 1, 2, tzinfo=UTC)}
    assert record.value == expected
    assert record.value_schema == struct(
        {name: schema.as_optional() for name, (_, _, schema) in fields.items()}
    )


def test_a_type_that_connect_has_not_is_named(tmp_path: Path) -> None:
    table = pa.table({"wait": pa.array([1], pa.duration("s"))})
    pq.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(ConnectError, match=r"a.parquet: Arrow's type duration\[.*\] has no schema"):
        drain(task_of(tmp_path, format="parquet"))


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"PAR1 no more")
    with pytest.raises(ConnectError, match=r"a.parquet cannot be read: "):
        drain(task_of(tmp_path, format="parquet"))


@pytest.mark.parametrize(
    ("props", "wrong"),
    [
        ({"after": "move"}, "move.dir: must be set with after=move"),
        ({"csv.header": "false"}, "csv.columns: must name all columns"),
        ({"csv.columns": "a:text"}, "a:text is not NAME or NAME:TYPE with a TYPE of int8"),
        ({"csv.columns": "a:int8:2"}, "is not NAME"),
        ({"csv.columns": "a:decimal:x"}, "is not NAME"),
        ({"csv.delimiter": "||"}, "must be one character"),
        ({"glob": "../*"}, "must be a pattern below dir"),
        ({"format": "avro"}, "must be one of lines, csv, parquet"),
    ],
)
def test_what_cannot_work_is_refused(props: dict[str, str], wrong: str) -> None:
    with pytest.raises(BadConfig, match=wrong):
        DirectorySource.config.parse({"dir": "in", "topic": "t", **props})


def test_a_directory_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConnectError, match="nowhere is no directory"):
        DirectorySourceTask().start(props_of(tmp_path / "nowhere"), FakeSource())


def test_offsets_of_files_can_be_removed_and_not_set() -> None:
    alter = DirectorySource().alter_offsets
    key = (("filename", "a"),)
    assert alter({}, {key: None})
    with pytest.raises(ConnectError, match="can only be removed"):
        alter({}, {key: {"position": 3}})


def test_rows_pass_through_the_json_converter_with_their_types(tmp_path: Path) -> None:
    row = {
        "n": 7,
        "price": Decimal("1.50"),
        "at": datetime(2026, 1, 2, 3, 4, 5, 6000, tzinfo=UTC),
        "day": date(2026, 1, 2),
        "clock": time(1, 2, 3),
        "raw": b"\x00",
        "tags": ["a", None],
        "inner": {"x": 1.5, "ok": True},
        "gone": None,
    }
    table = pa.Table.from_pylist([row])
    pq.write_table(table, tmp_path / "a.parquet")
    (record,) = drain(task_of(tmp_path, format="parquet"))
    converter = JsonConverter()
    converter.configure({"schemas.enable": "true"}, False)
    data = converter.from_connect("t", record.value_schema, record.value)
    assert converter.to_connect("t", data) == (record.value_schema, row)


def test_a_directory_for_what_was_read_is_left_out_however_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("1\n")
    task = task_of(Path("in"), glob="**/*", after="move", move_dir=str(tmp_path / "in" / "read"))
    records = drain(task)
    assert values(records) == ["1"]
    committed(task, records)
    assert drain(task) == []
    assert (tmp_path / "in" / "read" / "a.txt").exists()
