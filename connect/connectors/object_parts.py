"""The files of one partition: where one ends and the next begins, and how each becomes visible.

A file ends by what its records say, their number, bytes and times, and never by a clock. Each
begins at the offset behind the last visible one, and has that offset in its name, so that a restart
makes the same files. A file is created only where there is none of its name; a task that meets one
reads on behind it. So two tasks together write each record into one file.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from ...protocol.types import TopicPartition
from ..api import ConnectError
from .object_formats import BY_EXTENSION, Format, Rows
from .object_store import ObjectStore


class Rules(NamedTuple):
    """The form of files, and when one ends."""

    format: Format
    compression: str
    most_records: int
    most_bytes: int
    most_ms: int
    """Milliseconds by the records' times; -1: no bound."""
    digits: int

    @classmethod
    def of(cls, format: Format, settings: Mapping[str, Any]) -> "Rules":
        """Return the rules of a configuration."""
        is_raw = format.extension == "bin"
        compression = settings["compression"]
        return cls(
            format,
            compression,
            1 if is_raw else settings["flush.size"],
            settings["flush.bytes"],
            settings["rotate.interval.ms"],
            settings["filename.offset.zero.pad.width"],
        )


def folder_of(partition: TopicPartition) -> str:
    """Return the folder of a partition's files."""
    return f"{partition.topic}/partition={partition.partition}"


class PartitionFiles:
    """Rows that are not in a visible file yet, and the offset that the visible ones end at."""

    def __init__(self, partition: TopicPartition, store: ObjectStore, rules: Rules) -> None:
        self._partition, self._store, self._rules = partition, store, rules
        self.visible: int | None = None
        """The offset behind the last visible file; None: no file is known."""
        self.next: int = 0
        """The offset behind the last row that was taken; rows before it are taken already."""
        self._rows: list[Rows] = []
        self._type: list[pa.DataType] | None = None
        self._count = self._bytes = 0
        self._first_ms: int | None = None
        self._is_full = False
        self._expected: int | None = None
        """The offset that comes first after a seek; until it comes, rows are those from before."""

    def find_end(self) -> int | None:
        """Look for the newest file; return the offset behind it, None if there is no file."""
        partition = self._partition
        pattern = re.compile(
            rf"{re.escape(partition.topic)}\+{partition.partition}\+(\d+)\.(\w+(?:\.gz)?)"
        )
        folder = folder_of(partition)
        found = [
            (int(match[1]), match[2], match[0])
            for match in map(pattern.fullmatch, self._store.names(folder))
            if match is not None and match[2] in BY_EXTENSION
        ]
        if not found:
            return None
        first, extension, name = max(found)
        end = BY_EXTENSION[extension].next_offset(self._store, f"{folder}/{name}", first)
        self.visible = self.next = end
        return end

    @property
    def is_empty(self) -> bool:
        """True if all rows that were taken are visible, and none is to come again."""
        return not self._rows and self._expected is None

    @property
    def safe(self) -> int | None:
        """The offset before which everything is visible; None if it is not known."""
        if self._rows and self.visible is None:
            return int(self._rows[0].batch.column("offset")[0].as_py())
        return self.visible

    def take(self, rows: Rows) -> int | None:
        """Take rows in the order of offsets, and make the files visible that end in them.

        Return an offset to read on from if a file of another task was met, else None. Whatever the
        store raises leaves the rows that were taken where they are: `settle` tries it again.
        """
        start = 0
        if self._expected is not None:
            if rows.batch.column("offset")[0].as_py() > self._expected:
                return None
            self._expected = None
        while True:
            if (elsewhere := self.settle(rows)) is not None:
                return elsewhere
            if start == rows.batch.num_rows:
                return None
            rest = rows.slice(start, rows.batch.num_rows - start)
            room = self._room(rest)
            if room:
                self._keep(rest.slice(0, room))
                start += room
            else:
                self._is_full = True

    def settle(self, more: Rows | None = None) -> int | None:
        """Make the file visible that is complete, if any; as `take`, of which `more` are rows."""
        if not self._is_full:
            return None
        last = self._rows[-1].batch.column("offset")
        end = int(last[len(last) - 1].as_py()) + 1
        data = self._rules.format.encode(
            [each.batch for each in self._rows], end, self._rules.compression
        )
        if data is not None and not self._store.create(self._name(), data):
            before, dropped = self.next, self._rows
            self._drop()
            reached = self.find_end()
            if reached is None:
                raise ConnectError(f"a file of {self._partition} is there and cannot be listed")
            if reached == before:  # our own, from before its answer was lost
                return None
            self._expect(reached, dropped if more is None else [*dropped, more])
            return reached
        self.visible = end
        self._drop()
        return None

    def _expect(self, offset: int, dropped: Sequence[Rows]) -> None:
        """Note which of the rows that are dropped comes first again."""
        for each in dropped:
            offsets = each.batch.column("offset")
            index = pc.index(pc.greater_equal(offsets, offset), True).as_py()
            if index >= 0:
                self._expected = int(offsets[index].as_py())
                return

    def _name(self) -> str:
        begins = int(self._rows[0].batch.column("offset")[0].as_py())
        if self.visible is not None and self._rules.format.extension != "bin":
            begins = self.visible
        topic, partition = self._partition
        extension = self._rules.format.extension
        name = f"{topic}+{partition}+{begins:0{self._rules.digits}d}.{extension}"
        return f"{folder_of(self._partition)}/{name}"

    def _drop(self) -> None:
        self._rows, self._type, self._is_full = [], None, False
        self._count = self._bytes = 0
        self._first_ms = None

    def _room(self, rows: Rows) -> int:
        """Return how many of the next rows belong to the open file."""
        room: int = min(rows.batch.num_rows, self._rules.most_records - self._count)
        if not self._fits(rows.batch):
            return 0
        left = self._rules.most_bytes - self._bytes
        sizes = rows.sizes
        if (pc.sum(sizes).as_py() or 0) >= left:
            before = int(pc.sum(pc.less(pc.cumulative_sum(sizes), left)).as_py())
            room = min(room, before + 1)
        if self._rules.most_ms >= 0:
            room = min(room, self._in_time(rows.batch.column("timestamp_ms")))
        return room

    def _fits(self, batch: pa.RecordBatch) -> bool:
        if self._type is None:
            return True
        types = zip(self._type, batch.schema.types, strict=False)
        return len(self._type) == len(batch.schema.types) and all(
            ours == theirs or pa.types.is_null(ours) or pa.types.is_null(theirs)
            for ours, theirs in types
        )

    def _in_time(self, times: pa.Array) -> int:
        first = self._first_ms
        if first is None:
            known = times.drop_null()
            if not len(known):
                return len(times)
            first = int(known[0].as_py())
        late = pc.greater_equal(times, first + self._rules.most_ms)
        index = int(pc.index(late, True).as_py())
        return len(times) if index < 0 else index

    def _keep(self, rows: Rows) -> None:
        offsets, times = rows.batch.column("offset"), rows.batch.column("timestamp_ms").drop_null()
        types = rows.batch.schema.types
        self._type = [
            theirs if ours is None or pa.types.is_null(ours) else ours
            for ours, theirs in zip(self._type or [None] * len(types), types, strict=True)
        ]
        if self._first_ms is None and len(times):
            self._first_ms = int(times[0].as_py())
        self._rows.append(rows)
        self._count += rows.batch.num_rows
        self._bytes += int(pc.sum(rows.sizes).as_py() or 0)
        self.next = int(offsets[len(offsets) - 1].as_py()) + 1
        self._is_full = (
            self._count >= self._rules.most_records or self._bytes >= self._rules.most_bytes
        )
