"""FileStreamSink: each record once in its file, whatever was torn."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from minikafka import TopicPartition
from minikafka.connect.api import ConnectError
from minikafka.connect.connectors import appended_file
from minikafka.connect.connectors.file_stream import FileStreamSink, FileStreamSinkTask

from .support import FakeSink, sink_record

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
LINES = [f"record {number}" for number in range(10)]


def start(path: Path, name: str = "sink") -> tuple[FileStreamSinkTask, FakeSink]:
    task, context = FileStreamSinkTask(), FakeSink(T0)
    task.start({"name": name, "file": str(path), "topics": "t"}, context)
    task.open([T0, T1])
    return task, context


def put(task: FileStreamSinkTask, first: int, end: int) -> None:
    task.put([sink_record(offset, LINES[offset]) for offset in range(first, end)])


def crash(task: FileStreamSinkTask) -> None:
    """End as a process that is killed does: files are closed, nothing more is written."""
    assert task._file is not None
    os.close(task._file._file)


def test_values_become_lines(tmp_path: Path) -> None:
    task, _ = start(tmp_path / "out")
    task.put([sink_record(0, "text"), sink_record(1, "more")])
    task.put([sink_record(2, {"a": [1, None]}), sink_record(3, b"\xff"), sink_record(4, None)])
    task.put([])
    task.stop()
    assert (tmp_path / "out").read_bytes() == b'text\nmore\n{"a":[1,null]}\n\xff\nnull\n'


@pytest.mark.parametrize("torn", range(0, 60, 7))
def test_x_42_a_torn_write_is_cut_off_and_comes_again(tmp_path: Path, torn: int) -> None:
    path = tmp_path / "out"
    task, _ = start(path)
    put(task, 0, 4)
    task.flush({T0: 4})
    durable = path.stat().st_size
    put(task, 4, 10)
    crash(task)
    os.truncate(path, durable + torn)  # the disk has got only so much of it

    again, context = start(path)
    assert context.sought == {T0: 4}
    put(again, context.sought[T0], 10)
    again.close([T0])
    again.stop()
    assert path.read_text().splitlines() == LINES


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_x_42_a_flush_that_is_interrupted_at_any_step_doubles_nothing(
    tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "out"
    task, _ = start(path)
    put(task, 0, 4)
    task.flush({T0: 4})
    put(task, 4, 8)
    with monkeypatch.context() as patch:
        patch.setattr(os, step, _killed)
        with pytest.raises(InterruptedError):
            task.flush({T0: 8})
    crash(task)
    again, context = start(path)
    assert context.sought == {T0: 4}
    put(again, 4, 10)
    again.flush({T0: 10})
    again.stop()
    assert path.read_text().splitlines() == LINES


def test_x_42_the_side_file_is_replaced_only_once_the_file_is_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, calls, replace = tmp_path / "out", [], os.replace
    task, _ = start(path)
    put(task, 0, 4)

    def replaced(source: str, target: str) -> None:
        calls.append(("replace", 0))
        replace(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", lambda file: calls.append(("fsync", os.fstat(file).st_ino)))
        patch.setattr(os, "replace", replaced)
        task.flush({T0: 4})
    task.stop()
    side = (tmp_path / "out.offsets").stat().st_ino
    assert calls == [
        ("fsync", path.stat().st_ino),
        ("fsync", side),
        ("replace", 0),
        ("fsync", tmp_path.stat().st_ino),
    ]


def test_offsets_behind_the_file_are_never_noted_below_what_it_has(tmp_path: Path) -> None:
    task, _ = start(tmp_path / "out")
    put(task, 0, 6)
    task.flush({T0: 4})
    task.stop()
    again, context = start(tmp_path / "out")
    assert context.sought == {T0: 6}
    again.stop()


def _killed(*_: Any) -> None:
    raise InterruptedError


def test_what_was_flushed_counts_more_than_what_the_group_has_committed(tmp_path: Path) -> None:
    task, context = start(tmp_path / "out")
    assert context.sought == {}
    put(task, 0, 10)
    task.flush({T0: 10, T1: 3})
    crash(task)  # before the group's offsets were committed
    again, context = start(tmp_path / "out")
    assert context.sought == {T0: 10, T1: 3}
    again.stop()


def test_partitions_that_are_given_back_are_flushed_before(tmp_path: Path) -> None:
    task, context = start(tmp_path / "out")
    put(task, 0, 6)
    task.close([T0])
    task.open([T0])
    assert context.sought == {T0: 6}
    task.stop()


def test_a_file_with_content_is_appended_to(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_text("older\n")
    task, _ = start(path)
    put(task, 0, 3)
    crash(task)
    again, _ = start(path)
    assert path.read_text() == "older\n"
    again.stop()


def test_a_file_that_is_rotated_away_is_followed_by_a_new_one(tmp_path: Path) -> None:
    path = tmp_path / "out"
    task, _ = start(path)
    put(task, 0, 5)
    path.rename(tmp_path / "out.1")
    task.flush({T0: 5})
    put(task, 5, 10)
    crash(task)
    again, context = start(path)
    assert context.sought == {T0: 5}
    put(again, 5, 10)
    again.flush({T0: 10})
    again.stop()
    files = [tmp_path / "out.1", path]
    assert [line for file in files for line in file.read_text().splitlines()] == LINES


def test_durable_bytes_that_are_gone_are_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "out"
    task, _ = start(path)
    put(task, 0, 5)
    task.close([T0])
    task.stop()
    os.truncate(path, 9)
    again, _ = start(path)
    again.stop()
    assert f"{path}: 36 bytes that were durable are gone" in caplog.text


def test_a_file_has_one_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task, _ = start(tmp_path / "out")
    with pytest.raises(ConnectError, match="is open in another task or process"):
        appended_file.AppendedFile(str(tmp_path / "out"), "sink", lock_wait_s=0)
    task.stop()
    with pytest.raises(ConnectError, match="belongs to connector sink"):
        start(tmp_path / "out", "another")


def test_a_side_file_that_is_no_json_is_named(tmp_path: Path) -> None:
    (tmp_path / "out.offsets").write_text("{")
    with pytest.raises(ConnectError, match=r"out.offsets cannot be read .*; remove it to go on"):
        start(tmp_path / "out")


def test_offsets_that_a_user_sets_are_those_beside_the_file(tmp_path: Path) -> None:
    path = tmp_path / "out"
    task, _ = start(path)
    put(task, 0, 5)
    task.flush({T0: 5, T1: 7})
    task.stop()
    changed = {T0: {"kafka_offset": 2}, T1: None}
    assert FileStreamSink().alter_offsets({"file": str(path)}, changed)
    again, context = start(path)
    assert context.sought == {T0: 2}
    put(again, 2, 3)
    again.flush({T0: 3})
    again.stop()
    assert json.loads((tmp_path / "out.offsets").read_text())["offsets"] == {"t-0": 3}


def test_without_a_file_records_go_to_the_standard_output(
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    task = FileStreamSinkTask()
    task.start({"name": "sink"}, FakeSink(T0))
    task.open([T0])
    put(task, 0, 2)
    task.flush({T0: 2})
    task.stop()
    assert capfdbinary.readouterr().out == b"record 0\nrecord 1\n"


def test_nothing_is_written_behind_a_flush_that_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "out"
    task, _ = start(path)
    put(task, 0, 4)
    task.flush({T0: 4})
    put(task, 4, 7)
    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", _disk_is_full)
        with pytest.raises(OSError, match="No space left"):
            task.pre_commit({T0: 7})
    # The worker goes back to what it has committed; what follows may not stand behind the rest.
    with pytest.raises(ConnectError, match="could not be made durable; start the task again"):
        put(task, 4, 10)
    with pytest.raises(ConnectError, match="could not be made durable"):
        task.close([T0])
    task.stop()
    again, context = start(path)
    put(again, context.sought[T0], 10)
    again.stop()
    assert path.read_text().splitlines() == LINES


def test_a_file_that_cannot_be_followed_leaves_no_closed_descriptor_in_use(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    task, _ = start(folder / "out")
    put(task, 0, 4)
    task.flush({T0: 4})
    folder.rename(tmp_path / "moved")
    with pytest.raises(OSError, match="No such file"):
        task.flush({T0: 4})
    with (tmp_path / "other").open("w") as other:  # gets the number of the file that was closed
        with pytest.raises(ConnectError, match="could not be made durable"):
            put(task, 4, 6)
        task.stop()
        other.write("mine")
    assert (tmp_path / "other").read_text() == "mine"


def _disk_is_full(*_: Any) -> None:
    raise OSError(28, "No space left on device")


def test_a_task_that_could_not_start_is_stopped_in_silence(tmp_path: Path) -> None:
    task = FileStreamSinkTask()
    with pytest.raises(OSError, match="No such file"):
        task.start({"name": "sink", "file": str(tmp_path / "none" / "out")}, FakeSink(T0))
    task.stop()


def test_a_value_without_a_form_is_reported(tmp_path: Path) -> None:
    task, context = start(tmp_path / "out")
    bad = {"x": float("nan")}
    task.put([sink_record(0, "a"), sink_record(1, "\ud800"), sink_record(2, bad)])
    task.put([sink_record(3, "b")])
    task.stop()
    assert [record.offset for record, _ in context.reported] == [1, 2]
    assert (tmp_path / "out").read_text() == "a\nb\n"
