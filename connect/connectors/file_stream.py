"""FileStreamSource and FileStreamSink: lines of a file into a topic, records into lines of a file.

Keys, partitions and offsets are those of Kafka's connectors of the same names
(org.apache.kafka.connect.file). The source follows a file as it grows; the sink writes each record
once, also over crashes.
"""

import logging
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ...protocol.types import TopicPartition
from ..api import (
    ConnectError,
    Props,
    SinkConnector,
    SinkContext,
    SinkTask,
    SourceConnector,
    SourceContext,
    SourceTask,
)
from ..config_def import ConfigDef
from ..data import BYTES, STRING
from ..records import SinkRecord, SourceRecord
from .appended_file import AppendedFile, set_offsets
from .failures import report
from .followed_file import FollowedFile, Pipe, Turn
from .keys import BATCH_SIZE, LINE_MAX_BYTES, TOPIC, VALUES, text, whole
from .lines import LineSplitter, LineTooLong, text_of
from .plain_json import to_json
from .ruled import whole_in

log = logging.getLogger(__name__)

BLOCK: Final = 1 << 20
"""Bytes that are read at once."""
IDLE_S: Final = 0.1
"""Between two looks at a file that has nothing new."""
STANDARD_INPUT: Final = 0


class FileStreamSourceTask(SourceTask):
    """Reads big blocks, and hands out their lines by `batch.size`."""

    _input: FollowedFile | Pipe | None = None

    def start(self, props: Props, context: SourceContext) -> None:
        """Go on behind the committed position; raise ConnectError if that is no position."""
        super().start(props, context)
        settings = FileStreamSource.config.parse(props)
        self._topic: str = settings["topic"]
        self._batch: int = settings["batch.size"]
        self._as_bytes: bool = settings["values"] == "bytes"
        self._splitter = LineSplitter(settings["line.max.bytes"])
        path = settings["file"] or None
        self._partition = {"filename": path}
        if path is None:
            self._input = Pipe(STANDARD_INPUT)
        else:
            committed = context.offsets.read(self._partition) or {"position": 0}
            self._input = FollowedFile(
                path,
                whole_in(committed, "position"),
                committed.get("inode"),
                rotation_wait_ms=settings["rotation.wait.ms"],
            )
        self._lines: list[bytes] = []
        self._next = 0
        self._place: dict[str, int] = {}
        self._position = 0
        self._terminator = 1

    def poll(self) -> Sequence[SourceRecord] | None:
        """Return up to `batch.size` lines, or None if there is none now."""
        if self._next >= len(self._lines) and not self._read():
            time.sleep(min(IDLE_S, self.context.poll_timeout_ms / 1000))
            return None
        end = self._next + self._batch
        lines = self._lines[self._next : end]
        self._next = end
        return self._records(lines)

    def stop(self) -> None:
        """Close the file."""
        if self._input is not None:
            self._input.close()

    def _read(self) -> bool:
        """Read until there are lines. Return False if there is nothing more to read now."""
        assert self._input is not None
        self._next, self._lines = 0, []
        while not self._lines:
            found = self._input.read(BLOCK)
            if isinstance(found, Turn):
                self._end_line(found)
            elif found:
                self._split(self._input, found)
            else:
                return False
        return True

    def _split(self, file: FollowedFile | Pipe, block: bytes) -> None:
        self._position = file.position - len(block) - self._splitter.kept
        inode = file.inode
        self._place, self._terminator = ({} if inode is None else {"inode": inode}), 1
        try:
            self._lines = self._splitter.feed(block)
        except LineTooLong as error:
            raise ConnectError(
                f"{self._partition['filename'] or 'stdin'}: {error}, at byte {self._position} or "
                "after it; raise line.max.bytes, or is it a file of lines?"
            ) from error

    def _end_line(self, turn: Turn) -> None:
        """Take what is left as a line, unless the file was truncated below it."""
        rest = self._splitter.take_partial()
        if rest and turn is not Turn.TRUNCATED:
            self._lines, self._terminator = [rest], 0

    def _records(self, lines: list[bytes]) -> list[SourceRecord]:
        as_bytes, position, terminator = self._as_bytes, self._position, self._terminator
        values: list[Any] = lines if as_bytes else [text_of(line) for line in lines]
        topic, partition, place = self._topic, self._partition, self._place
        schema, now = (BYTES if as_bytes else STRING), time.time_ns() // 1_000_000
        records = []
        for line, value in zip(lines, values, strict=True):
            position += len(line) + terminator
            records.append(
                SourceRecord(
                    topic=topic,
                    value=value,
                    value_schema=schema,
                    timestamp_ms=now,
                    source_partition=partition,
                    source_offset={"position": position, **place},
                )
            )
        self._position = position
        return records


class FileStreamSource(SourceConnector):
    """One task that reads one file, or the standard input."""

    task = FileStreamSourceTask
    config = ConfigDef(
        [
            text(
                "file",
                "The file to read, which is waited for while it is missing. Without it the "
                "standard input is read, of which no position is kept.",
                None,
            ),
            TOPIC,
            BATCH_SIZE,
            VALUES,
            LINE_MAX_BYTES,
            whole(
                "rotation.wait.ms",
                "How long a file that was renamed is still read without anything new, before the "
                "next file at its path is begun.",
                5000,
                most=3_600_000,
            ),
        ]
    )

    def exactly_once_support(self, props: Props) -> bool:
        """Return True for a file, False for the standard input."""
        return bool(props.get("file"))

    def alter_offsets(self, props: Props, offsets: Mapping[Any, Mapping[str, Any] | None]) -> bool:
        """Refuse what is no position in the file of this connector."""
        if not props.get("file"):
            raise ConnectError("the connector reads the standard input, which has no offsets")
        for key, offset in offsets.items():
            filename = dict(key).get("filename")
            if offset is None:
                continue
            if filename != props["file"]:
                raise ConnectError(
                    f'a partition is {{"filename": "{props["file"]}"}}, not {dict(key)}'
                )
            whole_in(offset, "position")
        return True


class FileStreamSinkTask(SinkTask):
    """Appends each batch with one write, and flushes when offsets are committed."""

    _file: AppendedFile | None = None

    def start(self, props: Props, context: SinkContext) -> None:
        """Open the file, and cut off what a crash has torn."""
        super().start(props, context)
        path = FileStreamSink.config.parse(props)["file"] or None
        if path:
            self._file = AppendedFile(path, props.get("name", ""))

    def open(self, partitions: Sequence[TopicPartition]) -> None:
        """Seek behind what the file has of each partition."""
        for partition in partitions if self._file else ():
            assert self._file is not None
            offset = self._file.offset(partition)
            if offset is not None:
                self.context.seek(partition, offset)

    def put(self, records: Sequence[SinkRecord]) -> None:
        """Append a line per record: texts and bytes as they are, other values as JSON."""
        if not records:
            return
        try:
            data = ("\n".join([record.value for record in records]) + "\n").encode()
        except (TypeError, UnicodeEncodeError):
            data = b"".join(map(self._line, records))
        if self._file is None:
            sys.stdout.buffer.write(data)
        else:
            self._file.append(data, {record.origin: record.offset + 1 for record in records})

    def flush(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Make the file durable, then note the offsets beside it."""
        if self._file is None:
            sys.stdout.buffer.flush()
        else:
            self._file.advance(offsets)
            self._file.flush()

    def _line(self, record: SinkRecord) -> bytes:
        value = record.value
        try:
            if isinstance(value, bytes | bytearray):
                return bytes(value) + b"\n"
            return (value if isinstance(value, str) else to_json(value)).encode() + b"\n"
        except ValueError as error:
            report(self.context, record, error)
            return b""

    def close(self, partitions: Sequence[TopicPartition]) -> None:
        """Flush what was put: whoever has the partitions next goes on behind it."""
        self.flush({})

    def stop(self) -> None:
        """Close the file; what was not flushed is cut off at the next start."""
        if self._file is not None:
            self._file.close()


class FileStreamSink(SinkConnector):
    """One task that appends to one file, or writes to the standard output."""

    task = FileStreamSinkTask
    config = ConfigDef(
        [
            text(
                "file",
                "The file to append to; FILE.offsets beside it says how far it is complete. "
                "Without a file, records go to the standard output, at least once.",
                None,
            ),
        ]
    )

    def alter_offsets(self, props: Props, offsets: Mapping[Any, Mapping[str, Any] | None]) -> bool:
        """Set the offsets beside the file, which count more than those of the group."""
        if not props.get("file"):
            return True
        wanted = (
            (key, offset["kafka_offset"] if offset else None) for key, offset in offsets.items()
        )
        set_offsets(props["file"], dict(wanted))
        return True
