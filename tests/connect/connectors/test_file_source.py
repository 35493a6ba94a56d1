"""FileStreamSource: lines as they come, their positions, rotation, truncation, restarts."""

import logging
import os
from pathlib import Path
from typing import Any

import pytest

from minikafka.connect.api import ConnectError
from minikafka.connect.config_def import BadConfig
from minikafka.connect.connectors import file_stream
from minikafka.connect.connectors.file_stream import FileStreamSource, FileStreamSourceTask
from minikafka.connect.connectors.followed_file import FollowedFile, Turn
from minikafka.connect.data import BYTES, STRING

from .support import FakeOffsets, drain, started


def task_of(path: Path, offsets: FakeOffsets | None = None, **props: str) -> FileStreamSourceTask:
    keys = {name.replace("_", "."): value for name, value in props.items()}
    return started(
        FileStreamSourceTask(),
        {"file": str(path), "topic": "t", "rotation.wait.ms": "0", **keys},
        offsets,
    )


def values(task: FileStreamSourceTask) -> list[Any]:
    return [record.value for record in drain(task)]


def append(path: Path, text: str) -> None:
    with path.open("a", encoding="utf-8", newline="") as file:
        file.write(text)


def test_each_line_is_a_record_with_the_position_behind_it(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes("eins\r\nzwölf\n\n".encode())
    records = drain(task_of(path))
    inode = path.stat().st_ino
    assert [(each.value, each.source_offset) for each in records] == [
        ("eins", {"position": 6, "inode": inode}),
        ("zwölf", {"position": 13, "inode": inode}),
        ("", {"position": 14, "inode": inode}),
    ]
    assert {(each.topic, each.key, each.value_schema) for each in records} == {("t", None, STRING)}
    assert records[0].source_partition == {"filename": str(path)}


def test_a_partial_line_is_kept_back_until_its_end_comes(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text("one\ntw")
    task = task_of(path)
    assert values(task) == ["one"]
    assert values(task) == []
    append(path, "o\nthree\n")
    assert [(each.value, each.source_offset["position"]) for each in drain(task)] == [
        ("two", 8),
        ("three", 14),
    ]


def test_batches_have_the_size_that_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text("1\n2\n3\n")
    task = task_of(path, batch_size="2")
    assert [len(task.poll() or []) for _ in range(3)] == [2, 1, 0]


def test_a_missing_file_is_waited_for_and_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "later.log"
    task = task_of(path)
    assert task.poll() is None
    assert task.poll() is None
    assert [record.message for record in caplog.records] == [
        f"{path} does not exist: waiting for it"
    ]
    path.write_text("here\n")
    assert values(task) == ["here"]


def test_a_truncated_file_is_read_from_its_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "a.log"
    path.write_text("one\ntwo\npart")
    task = task_of(path)
    assert values(task) == ["one", "two"]
    path.write_text("new\n")
    assert [(each.value, each.source_offset["position"]) for each in drain(task)] == [("new", 4)]
    assert "was truncated" in caplog.text


def test_a_rotated_file_is_read_to_its_end_before_the_next_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    path = tmp_path / "a.log"
    path.write_text("one\n")
    task = task_of(path)
    assert values(task) == ["one"]
    path.rename(tmp_path / "a.log.1")
    append(tmp_path / "a.log.1", "two\nunended")
    assert values(task) == ["two"]
    path.write_text("three\n")
    rest = drain(task)
    assert [(each.value, each.source_offset["position"]) for each in rest] == [
        ("unended", 15),
        ("three", 6),
    ]
    assert rest[0].source_offset["inode"] != rest[1].source_offset["inode"]
    assert "was rotated" in caplog.text


def test_whoever_still_writes_to_a_rotated_file_is_heard(tmp_path: Path) -> None:
    clock = [0.0]
    path = tmp_path / "a.log"
    path.write_text("one\n")
    file = FollowedFile(str(path), rotation_wait_ms=5000, now=lambda: clock[0])
    assert file.read(100) == b"one\n"
    path.rename(tmp_path / "a.log.1")
    path.write_text("new\n")
    assert file.read(100) == b""
    clock[0] = 4.9
    assert file.read(100) == b""
    append(tmp_path / "a.log.1", "late\n")
    assert file.read(100) == b"late\n"
    assert file.read(100) == b""
    clock[0] = 9.0
    assert file.read(100) == b""
    clock[0] = 9.9
    assert file.read(100) is Turn.NEXT_FILE
    assert file.read(100) == b"new\n"
    file.close()


def test_a_rotation_while_nobody_reads_loses_nothing(tmp_path: Path) -> None:
    path, offsets = tmp_path / "a.log", FakeOffsets()
    path.write_text("one\ntwo\n")
    first = task_of(path, batch_size="1")
    offsets.commit(first.poll() or [])
    first.stop()
    path.rename(tmp_path / "a.log.1")
    path.write_text("much longer than the old one\n")
    assert values(task_of(path, offsets)) == ["two", "much longer than the old one"]


def test_another_file_at_the_path_is_read_from_its_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, offsets = tmp_path / "a.log", FakeOffsets()
    path.write_text("one\n")
    offsets.commit(drain(task_of(path)))
    (tmp_path / "other").write_text("another\nfile\n")
    (tmp_path / "other").replace(path)
    assert values(task_of(path, offsets)) == ["another", "file"]
    assert "is another file than before" in caplog.text


@pytest.mark.parametrize("handed_out", range(6))
def test_x_35_a_killed_task_goes_on_behind_what_was_committed(
    tmp_path: Path, handed_out: int
) -> None:
    path, offsets = tmp_path / "a.log", FakeOffsets()
    lines = ["a", "bb", "", "ccc", "ü"]
    path.write_text("".join(f"{line}\n" for line in lines))
    killed = task_of(path, batch_size="1")
    batches = [killed.poll() or [] for _ in range(handed_out)]
    seen = [record.value for batch in batches for record in batch]
    for batch in batches[:-1]:  # the last one is killed between its records and its commit
        offsets.commit(batch)
    committed = seen[:-1] if batches and batches[-1] else seen
    assert committed + values(task_of(path, offsets)) == lines


def test_a_position_without_an_inode_is_one_that_a_user_or_kafka_has_set(tmp_path: Path) -> None:
    path, offsets = tmp_path / "a.log", FakeOffsets()
    path.write_text("one\ntwo\n")
    offsets.committed[(("filename", str(path)),)] = {"position": 4}
    assert values(task_of(path, offsets)) == ["two"]


def test_bytes_are_handed_over_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"\xff\xfe\r\nok\n")
    assert [(each.value, each.value_schema) for each in drain(task_of(path, values="bytes"))] == [
        (b"\xff\xfe\r", BYTES),
        (b"ok", BYTES),
    ]
    assert values(task_of(path)) == ["��", "ok"]


def test_a_line_that_is_too_long_is_named_and_holds_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"short\n" + b"x" * 100)
    task = task_of(path, line_max_bytes="50")
    with pytest.raises(ConnectError, match=r"a.log: a line has more than 50 bytes, at byte 0 or"):
        task.poll()


def test_the_standard_input_is_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    monkeypatch.setattr(file_stream, "STANDARD_INPUT", reading)
    task = started(FileStreamSourceTask(), {"topic": "t"})
    assert values(task) == []
    os.write(writing, b"one\ntw")
    assert [(each.value, each.source_partition) for each in drain(task)] == [
        ("one", {"filename": None})
    ]
    os.write(writing, b"o")
    os.close(writing)
    assert [(each.value, each.source_offset) for each in drain(task)] == [("two", {"position": 7})]
    assert values(task) == []
    task.stop()
    os.close(reading)


def test_exactly_once_needs_a_file() -> None:
    assert FileStreamSource().exactly_once_support({"file": "a.log", "topic": "t"})
    assert not FileStreamSource().exactly_once_support({"topic": "t"})


def test_a_topic_is_needed() -> None:
    with pytest.raises(BadConfig, match=r'Missing required configuration "topic"'):
        FileStreamSource.config.parse({"file": "a.log"})
    with pytest.raises(BadConfig, match="topic: must name a topic"):
        FileStreamSource.config.parse({"file": "a.log", "topic": " "})


@pytest.mark.parametrize(
    ("partition", "offset", "wrong"),
    [
        ({"filename": "a.log"}, {"position": -1}, "a whole number from 0 on"),
        ({"filename": "a.log"}, {"position": "7"}, "a whole number from 0 on"),
        ({"filename": "a.log"}, {"place": 7}, "a whole number from 0 on"),
        ({"filename": "b.log"}, {"position": 7}, "a partition is"),
        ({"file": "a.log"}, {"position": 7}, "a partition is"),
    ],
)
def test_offsets_that_are_no_positions_are_refused(
    partition: dict[str, str], offset: dict[str, Any], wrong: str
) -> None:
    props = {"file": "a.log", "topic": "t"}
    with pytest.raises(ConnectError, match=wrong):
        FileStreamSource().alter_offsets(props, {tuple(partition.items()): offset})


def test_offsets_may_be_set_and_removed() -> None:
    alter = FileStreamSource().alter_offsets
    props = {"file": "a.log", "topic": "t"}
    assert alter(props, {(("filename", "a.log"),): {"position": 7}})
    assert alter(props, {(("filename", "gone.log"),): None})
    with pytest.raises(ConnectError, match="standard input"):
        alter({"topic": "t"}, {(("filename", "a.log"),): {"position": 7}})
