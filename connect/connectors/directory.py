"""DirectorySource: the files of a directory, each read once, as lines, CSV or Parquet.

A file must be complete when its name appears. Its offset holds how far it was read, its size and
its time, so that another file of the same name is read too.
"""

import logging
import os
import shutil
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ..api import ConnectError, Props, SourceConnector, SourceContext, SourceTask
from ..records import SourceRecord
from . import file_batches
from .file_batches import TYPES, Batch, Column, Format
from .file_stream import IDLE_S
from .keys import BATCH_SIZE, LINE_MAX_BYTES, TOPIC, VALUES, choice, flag, listed, text, whole
from .ruled import RuledDef, needed, share_of, shares

log = logging.getLogger(__name__)

DONE: Final = ".done"
"""The end of the name of the marker beside a file that was read."""
_READERS: Final[dict[str, Callable[[str, int, Format], Iterator[Batch]]]] = {
    "lines": file_batches.lines,
    "csv": file_batches.csv,
    "parquet": file_batches.parquet,
}


@dataclass(slots=True)
class _File:
    name: str
    """The path below the directory, with slashes."""
    path: str
    version: str
    """Size and time of the last change."""
    position: int = 0
    is_read: bool = False
    outstanding: int = 0
    """Records that were handed out and are not in their topic yet."""


class DirectorySourceTask(SourceTask):
    """Reads the files whose names' hashes are its own, one after the other."""

    def start(self, props: Props, context: SourceContext) -> None:
        """Look at the directory. Raise ConnectError if it is not there."""
        super().start(props, context)
        self._settings = settings = DirectorySource.config.parse(props)
        self._directory = Path(settings["dir"])
        if not self._directory.is_dir():
            raise ConnectError(f"{self._directory} is no directory; make it, or set dir")
        self._index, self._count = share_of(props)
        self._format = _format_of(settings)
        self._known: dict[str, _File] = {}
        self._queue: deque[_File] = deque()
        self._current: _File | None = None
        self._batches: Iterator[tuple[Batch, bool]] = iter(())
        self._look_at = 0.0

    def poll(self) -> Sequence[SourceRecord] | None:
        """Return the next rows of one file, or None if there is no file to read now."""
        while True:
            if self._current is None and not self._open():
                time.sleep(min(IDLE_S, self.context.poll_timeout_ms / 1000))
                return None
            file = self._current
            assert file is not None
            try:
                batch, is_last = next(self._batches)
            except StopIteration:
                file.is_read = True
                self._current = None
                self._settle(file)
                continue
            return self._records(file, batch, is_last)

    def commit_record(self, record: SourceRecord, metadata: Any | None) -> None:
        """Do with a file what is to be done once all its records are in their topic."""
        file = self._known.get(record.source_partition["filename"])
        if file is not None:
            file.outstanding -= 1
            self._settle(file)

    def stop(self) -> None:
        """Close the file in hand."""
        self._batches = iter(())

    def _open(self) -> bool:
        if not self._queue and time.monotonic() >= self._look_at:
            self._look_at = time.monotonic() + self._settings["scan.interval.ms"] / 1000
            self._scan()
        if not self._queue:
            return False
        file = self._current = self._queue.popleft()
        read = _READERS[self._settings["format"]]
        self._batches = _marking_last(_named(read(file.path, file.position, self._format), file))
        return True

    def _records(self, file: _File, batch: Batch, is_last: bool) -> list[SourceRecord]:
        file.outstanding += len(batch.values)
        topic, partition = self._settings["topic"], {"filename": file.name}
        records = [
            SourceRecord(
                topic=topic,
                value=value,
                value_schema=batch.schema,
                source_partition=partition,
                source_offset={"position": position, "version": file.version, "done": False},
            )
            for value, position in zip(batch.values, batch.positions, strict=True)
        ]
        if is_last:
            records[-1].source_offset = {**records[-1].source_offset, "done": True}
        return records

    def _scan(self) -> None:
        """Queue the files that are new or have changed, in order."""
        there = self._files()
        for name in [each for each, file in self._known.items() if file.is_read]:
            if name not in there and not self._known[name].outstanding:
                del self._known[name]
        fresh = [file for file in there.values() if self._is_fresh(file)]
        partitions = [{"filename": file.name} for file in fresh]
        for file, (_, offset) in zip(fresh, self.context.offsets.read_all(partitions), strict=True):
            self._known[file.name] = file
            if offset is not None and offset.get("version") == file.version:
                file.position, file.is_read = int(offset["position"]), bool(offset["done"])
            elif offset is not None:
                log.warning("%s has changed since it was read: it is read anew", file.path)
            if file.is_read:
                self._settle(file)
            else:
                self._queue.append(file)

    def _is_fresh(self, file: _File) -> bool:
        known = self._known.get(file.name)
        if known is None:
            return True
        return known.is_read and not known.outstanding and known.version != file.version

    def _files(self) -> dict[str, _File]:
        """Return the task's share of the directory, by name, in the order of reading."""
        found: list[tuple[Any, _File]] = []
        by_time = self._settings["order"] == "mtime"
        least_age_s, now = self._settings["min.age.ms"] / 1000, time.time()
        moved = Path(self._settings["move.dir"]).resolve() if self._settings["move.dir"] else None
        for path in self._directory.glob(self._settings["glob"]):
            name = path.relative_to(self._directory).as_posix()
            if zlib.crc32(name.encode()) % self._count != self._index or name.endswith(DONE):
                continue
            if moved is not None and moved in path.resolve().parents:
                continue
            try:
                status = path.stat()
            except FileNotFoundError:
                continue
            if not path.is_file() or now - status.st_mtime < least_age_s:
                continue
            if self._settings["after"] == "mark" and Path(f"{path}{DONE}").exists():
                continue
            file = _File(name, str(path), _version(status))
            found.append(((status.st_mtime_ns, name) if by_time else name, file))
        return {file.name: file for _, file in sorted(found, key=lambda each: each[0])}

    def _settle(self, file: _File) -> None:
        """Mark, move or delete a file that was read and whose records are all in their topic."""
        after = self._settings["after"]
        if after == "keep" or not file.is_read or file.outstanding:
            return
        try:
            if _version(os.stat(file.path)) != file.version:
                return  # it is another one by now
        except FileNotFoundError:
            return
        if after == "mark":
            Path(f"{file.path}{DONE}").touch()
        elif after == "delete":
            os.unlink(file.path)
        else:
            target = _free(Path(self._settings["move.dir"]) / file.name)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.move(file.path, target)


def _version(status: os.stat_result) -> str:
    return f"{status.st_size}-{status.st_mtime_ns}"


def _free(path: Path) -> Path:
    """Return the path, or the first of path.1, path.2 ... that is free."""
    number, free = 0, path
    while free.exists():
        number += 1
        free = path.with_name(f"{path.name}.{number}")
    return free


def _named(batches: Iterator[Batch], file: _File) -> Iterator[Batch]:
    """Yield the batches. Raise ConnectError, with the file's name, for what cannot be read."""
    try:
        yield from batches
    except FileNotFoundError:
        log.warning("%s was gone before it was read", file.path)
    except (OSError, ValueError, NotImplementedError) as error:  # pyarrow's errors are among them
        raise ConnectError(f"{file.path} cannot be read: {error}") from error


def _marking_last(batches: Iterator[Batch]) -> Iterator[tuple[Batch, bool]]:
    batch = next(batches, None)
    while batch is not None:
        try:
            following = next(batches, None)
        except ConnectError:
            yield batch, False
            raise
        yield batch, following is None
        batch = following


def _format_of(settings: Mapping[str, Any]) -> Format:
    delimiter = settings["csv.delimiter"]
    if settings["format"] != "lines":
        needed("pyarrow")
    return Format(
        batch_size=settings["batch.size"],
        line_max_bytes=settings["line.max.bytes"],
        as_bytes=settings["values"] == "bytes",
        delimiter="\t" if delimiter == "tab" else delimiter,
        has_header=settings["csv.header"],
        columns=tuple(_column(each) for each in settings["csv.columns"]),
        skips_bad_rows=settings["bad.rows"] == "skip",
    )


def _column(described: str) -> Column:
    """Return a column of NAME, NAME:TYPE or NAME:decimal:SCALE. Raise ValueError."""
    name, _, rest = described.partition(":")
    kind, _, scale = rest.partition(":")
    kind = kind or "string"
    if not name or kind not in (*TYPES, "decimal", "timestamp") or (scale and kind != "decimal"):
        raise ValueError(described)
    digits = int(scale or 0)
    if not 0 <= digits <= 38:
        raise ValueError(described)
    return Column(name, kind, digits)


def _wrong_columns(columns: list[str]) -> str | None:
    for column in columns:
        try:
            _column(column)
        except ValueError:
            types = ", ".join((*TYPES, "decimal:SCALE", "timestamp"))
            return f"{column} is not NAME or NAME:TYPE with a TYPE of {types}"
    return None


def _rules(settings: Mapping[str, Any]) -> Mapping[str, str]:
    wrong = {}
    if settings["after"] == "move" and not settings["move.dir"]:
        wrong["move.dir"] = "must be set with after=move"
    if not settings["csv.header"] and not settings["csv.columns"]:
        wrong["csv.columns"] = "must name all columns with csv.header=false"
    return wrong


def _wrong_delimiter(delimiter: str) -> str | None:
    return None if len(delimiter) == 1 or delimiter == "tab" else "must be one character, or tab"


def _wrong_glob(glob: str) -> str | None:
    if glob.startswith("/") or ".." in glob.split("/") or not glob:
        return "must be a pattern below dir, such as *.csv or **/*.csv"
    return None


class DirectorySource(SourceConnector):
    """Tasks that share the files of a directory by the hashes of their names."""

    task = DirectorySourceTask
    config = RuledDef(
        [
            text("dir", "The directory, which must be there on each worker."),
            text("glob", "The files below it; ** stands for any folders.", "*", _wrong_glob),
            choice("format", "A record is a line, or a row with a schema.", tuple(_READERS)),
            TOPIC,
            choice("order", "The order of files that are there together.", ("name", "mtime")),
            choice(
                "after",
                "What becomes of a file once all its records are in the topic: nothing, an empty "
                "file NAME.done beside it, a move to move.dir, or its deletion.",
                ("keep", "mark", "move", "delete"),
            ),
            text("move.dir", "The directory for after=move.", None),
            flag("csv.header", "Whether the first line of a CSV file names its columns.", True),
            listed(
                "csv.columns",
                "Columns as NAME or NAME:TYPE, where TYPE is int8 to int64, float, double, "
                "boolean, string, date, timestamp or decimal:SCALE. Other columns are strings; "
                "an empty cell is null.",
                _wrong_columns,
            ),
            text("csv.delimiter", "The character between cells, or tab.", ",", _wrong_delimiter),
            choice(
                "bad.rows",
                "Whether a row of a CSV file with too many or too few cells, or with a cell that "
                "is not of its column's type, fails the task, or is skipped and named in the log.",
                ("fail", "skip"),
            ),
            whole("scan.interval.ms", "How often the directory is looked at.", 1000),
            whole(
                "min.age.ms",
                "A file is read once nobody has changed it for so long; 0 where writers rename "
                "what is complete.",
                1000,
            ),
            BATCH_SIZE,
            VALUES,
            LINE_MAX_BYTES,
        ],
        _rules,
    )

    def exactly_once_support(self, props: Props) -> bool:
        """Return True: offsets say how far each file was read."""
        return True

    def task_configs(self, max_tasks: int) -> Sequence[Props]:
        """Return as many tasks as there may be; each knows its share."""
        return shares(self.props, max_tasks)

    def alter_offsets(self, props: Props, offsets: Mapping[Any, Mapping[str, Any] | None]) -> bool:
        """Take the removal of a file's offset, after which it is read anew; refuse all else."""
        for key, offset in offsets.items():
            if offset is not None or "filename" not in dict(key):
                raise ConnectError(
                    'offsets of files can only be removed: {"filename": NAME BELOW dir} with null'
                )
        return True
