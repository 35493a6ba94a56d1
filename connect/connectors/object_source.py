"""ObjectSource: files of an object store or a file system become records, each row once.

Each file is a part of the source, with the number of rows that were read as its offset. Files must
not change once they are visible; a file that was read to its end is not opened again.
"""

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from typing import Any
from zlib import crc32

from ..api import ConnectError, Props, SourceConnector, SourceContext, SourceTask
from ..config_def import INT64_MAX, ConfigDef
from ..records import SourceRecord
from .failures import Patience
from .keys import choice, flag, text, whole
from .object_reading import ReadRow, format_of, origin_of, read_rows
from .object_store import STORE, ObjectStore
from .ruled import share_of, shares

TOPIC = "${topic}"
log = logging.getLogger(__name__)

OBJECT_SOURCE = STORE + ConfigDef(
    [
        text(
            "topic",
            "The topic of the records. `${topic}` is the one in the name of a file that ObjectSink "
            "wrote.",
            TOPIC,
        ),
        flag(
            "partition.keep",
            "Records of files that ObjectSink wrote go to the partition that they came from.",
            False,
        ),
        choice(
            "format",
            "`auto` reads .parquet, .jsonl and .ndjson, also with .gz, and .bin, and leaves other "
            "files; another value reads only its own files, and those of other endings as such.",
            ("auto", "parquet", "jsonl", "raw"),
        ),
        text(
            "file.pattern",
            "The paths below store.url that are read, with `*` and `?` as wildcards, also for /.",
            "*",
        ),
        whole("poll.interval.ms", "How often new files are looked for.", 5000, 0, INT64_MAX),
        whole("batch.max.rows", "The most rows that are read at once.", 1000, 1),
    ]
)


class ObjectSourceTask(SourceTask):
    """Reads its share of the files one after the other, in the order of their paths."""

    _open: "_OpenFile | None" = None

    def start(self, props: Props, context: SourceContext) -> None:
        """Open the store."""
        super().start(props, context)
        self._settings = OBJECT_SOURCE.parse(props)
        self._index, self._count = share_of(props)
        try:
            self._store = ObjectStore.of(props)
        except (ImportError, ValueError) as error:
            raise ConnectError(f"store.url cannot be used: {error}") from None
        self._patience = Patience(self._settings["max.retries"], self._settings["retry.backoff.ms"])
        self._done: dict[str, None] = {}
        """Files that were opened, or are done."""
        self._waiting: list[str] = []
        """Files to open, the next one last."""
        self._rows_read: dict[str, int] = {}
        """The rows that were handed out of a file whose reading was interrupted."""
        self._look_at = 0.0

    def poll(self) -> list[SourceRecord] | None:
        """Return the next rows of the open file, or look for more files."""
        try:
            if self._open is None and not self._next_file():
                return None
            records = self._open.records(self._settings["batch.max.rows"]) if self._open else []
        except ConnectError:
            raise
        except Exception as error:
            path = self.props["store.url"]
            if self._open is not None:
                path = self._open.path
                self._rows_read[path] = self._open.rows_read
                self._waiting.append(path)
                self._close()
            raise self._patience.after(
                f"{path} cannot be read: {type(error).__name__}: {error}"
            ) from None
        self._patience.calm()
        if self._open is not None and self._open.is_done:
            self._rows_read.pop(self._open.path, None)
            self._close()
        return records or None

    def stop(self) -> None:
        """Close the open file."""
        self._close()

    def _close(self) -> None:
        if self._open is not None:
            self._open.close()
        self._open = None

    def _next_file(self) -> bool:
        """Open the next file; return False if there is none now."""
        if not self._waiting:
            left = self._look_at - time.monotonic()
            if left > 0:
                time.sleep(min(left, self.context.poll_timeout_ms / 1000))
                return False
            self._waiting = self._found()
            if not self._waiting:
                self._look_at = time.monotonic() + self._settings["poll.interval.ms"] / 1000
                return False
        while self._open is None and self._waiting:
            path = self._waiting[-1]
            offset = self.context.offsets.read({"file": path}) or {}
            if not offset.get("done"):
                row = self._rows_read.get(path) or int(offset.get("row", 0))
                try:
                    self._open = _OpenFile(self._store, path, self._settings, row)
                except FileNotFoundError:
                    log.warning("%s was gone before it was read", path)
            self._done[path] = None
            self._waiting.pop()
        return self._open is not None

    def _found(self) -> list[str]:
        """Return this task's files that are not done, the next one last."""
        chosen, pattern = self._settings["format"], self._settings["file.pattern"]
        names = self._store.files()
        # What was deleted need not be remembered.
        self._done = {path: None for path in self._done if path in names}
        found = [
            path
            for path in names
            if path not in self._done
            and crc32(path.encode()) % self._count == self._index
            and fnmatchcase(path, pattern)
            and format_of(path, chosen) is not None
        ]
        return found[::-1]


class _OpenFile:
    """A file that is being read, one row ahead, so that its last row is known as such."""

    def __init__(
        self, store: ObjectStore, path: str, settings: Mapping[str, Any], row: int
    ) -> None:
        self.path = path
        self.is_done = False
        form = format_of(path, settings["format"])
        if form is None:
            raise ConnectError(f"{path} has no format")
        self.rows_read = row
        """The rows that were handed out."""
        origin = origin_of(path)
        if TOPIC in settings["topic"] and origin is None:
            raise ConnectError(
                f"{path} is not named as ObjectSink names files, so that it tells no topic; set "
                "topic, or leave the file out by file.pattern"
            )
        self._topic = settings["topic"].replace(TOPIC, origin[0] if origin else "")
        keeps = settings["partition.keep"] and origin is not None
        self._partition = origin[1] if keeps and origin is not None else None
        self._rows: Iterator[ReadRow] = read_rows(store, path, form, row)
        self._ahead = next(self._rows, None)

    def records(self, most: int) -> list[SourceRecord]:
        """Return the next rows, at most as many."""
        records: list[SourceRecord] = []
        while self._ahead is not None and len(records) < most:
            row, self._ahead = self._ahead, next(self._rows, None)
            count = self.rows_read + len(records) + 1
            records.append(self._record(row, count, is_last=self._ahead is None))
        self.rows_read += len(records)
        self.is_done = self._ahead is None
        return records

    def close(self) -> None:
        """Close the file."""
        with suppress(AttributeError):
            self._rows.close()  # type: ignore[attr-defined]

    def _record(self, row: ReadRow, count: int, *, is_last: bool) -> SourceRecord:
        offset: dict[str, Any] = {"row": count}
        if is_last:
            offset["done"] = True
        return SourceRecord(
            topic=self._topic,
            partition=self._partition,
            key=row.key,
            key_schema=row.key_schema,
            value=row.value,
            value_schema=row.value_schema,
            headers=row.headers,
            timestamp_ms=row.timestamp_ms,
            source_partition={"file": self.path},
            source_offset=offset,
        )


class ObjectSource(SourceConnector):
    """Reads files that ObjectSink wrote, and any others of the same formats."""

    task = ObjectSourceTask
    config = OBJECT_SOURCE

    def task_configs(self, max_tasks: int) -> Sequence[Props]:
        """Give each task a share of the files, by their paths."""
        return shares(self.props, max_tasks)

    def exactly_once_support(self, props: Props) -> bool:
        """Return True: a file's rows are counted, and it does not change."""
        return True

    def alter_offsets(self, props: Props, offsets: Mapping[Any, Mapping[str, Any] | None]) -> bool:
        """Refuse offsets of what is no file, and such that are no number of rows."""
        for partition, offset in offsets.items():
            if "file" not in dict(partition):
                raise ConnectError(f"partition {dict(partition)} has no file")
            row = 0 if offset is None else offset.get("row")
            if not isinstance(row, int) or row < 0:
                raise ConnectError(f"row of {dict(partition)['file']} must be a number of rows")
        return True
