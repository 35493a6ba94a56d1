"""Readers of whole files: lines, CSV and Parquet, in batches, from any place on.

A position counts bytes of lines, and rows of CSV and Parquet, without the header.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ..api import ConnectError
from ..data import BYTES, STRING, Schema
from .arrow_schemas import Rows
from .lines import LineSplitter, LineTooLong, text_of
from .ruled import needed

if TYPE_CHECKING:
    import pyarrow

log = logging.getLogger(__name__)

BLOCK: Final = 1 << 20
"""Bytes that are read at once; no row of a CSV file may be longer."""


class Batch(NamedTuple):
    """Values, never none, and for each the position behind it."""

    values: list[Any]
    positions: list[int]
    schema: Schema


class Column(NamedTuple):
    """A column of a CSV file."""

    name: str
    type: str = "string"
    scale: int = 0
    """Digits after the point of a decimal."""


@dataclass(frozen=True, slots=True)
class Format:
    """How files are read."""

    batch_size: int
    line_max_bytes: int = BLOCK
    as_bytes: bool = False
    delimiter: str = ","
    has_header: bool = True
    columns: tuple[Column, ...] = ()
    skips_bad_rows: bool = False


def lines(path: str, start: int, how: Format) -> Iterator[Batch]:
    """Yield the lines from byte `start` on; the last one may lack its end."""
    splitter, position = LineSplitter(how.line_max_bytes), start
    with open(path, "rb") as file:
        file.seek(start)
        while True:
            block = file.read(BLOCK)
            try:
                found = splitter.feed(block)
            except LineTooLong as error:
                raise ConnectError(f"{path}: {error}, at byte {position} or after it") from error
            if not block:
                found = [rest] if (rest := splitter.take_partial()) else []
            for first in range(0, len(found), how.batch_size):
                chunk = found[first : first + how.batch_size]
                batch = _batch_of_lines(chunk, position, how)
                position = batch.positions[-1]
                yield batch
            if not block:
                return


def _batch_of_lines(chunk: list[bytes], position: int, how: Format) -> Batch:
    positions = []
    for line in chunk:
        position += len(line) + 1
        positions.append(position)
    if how.as_bytes:
        return Batch(chunk, positions, BYTES)
    return Batch([text_of(line) for line in chunk], positions, STRING)


def parquet(path: str, start: int, how: Format) -> Iterator[Batch]:
    """Yield the rows from `start` on; row groups before it are not read."""
    with needed("pyarrow.parquet").ParquetFile(path) as file:
        rows, position = Rows(file.schema_arrow, path), 0
        groups: list[int] = []
        for group in range(file.num_row_groups):
            count = file.metadata.row_group(group).num_rows
            if not groups and position + count <= start:
                position += count
            else:
                groups.append(group)
        for batch in file.iter_batches(how.batch_size, row_groups=groups) if groups else ():
            skip, end = max(0, start - position), position + batch.num_rows
            if skip < batch.num_rows:
                positions = list(range(position + skip + 1, end + 1))
                yield Batch(rows.values(batch.slice(skip)), positions, rows.schema)
            position = end


def csv(path: str, start: int, how: Format) -> Iterator[Batch]:
    """Yield the rows from `start` on. Columns are text, but for those whose type is given.

    A row with another number of columns, or with a value that is not of its type, is skipped or
    raises ConnectError, with its number.
    """
    pa = needed("pyarrow")
    columns = _columns_of(path, how)
    if columns is None:
        return
    rows = Rows(pa.schema([(each.name, _arrow_type(pa, each)) for each in columns]), path)
    kinds = {column.name: _arrow_type(pa, column) for column in columns}
    position = 0
    with _open_csv(path, how, tuple(kinds)) as reader:
        for block in reader:
            for first in range(0, block.num_rows, how.batch_size):
                batch = block.slice(first, how.batch_size)
                skip, position = max(0, start - position), position + batch.num_rows
                if skip < batch.num_rows:
                    behind = range(position - batch.num_rows + skip + 1, position + 1)
                    typed, kept = _typed(batch.slice(skip), kinds, behind, _Bad(path, how))
                    if kept:
                        yield Batch(rows.values(typed), kept, rows.schema)


class _Bad:
    """Says what is wrong with rows of a file, and raises where they are not to be skipped."""

    def __init__(self, path: str, how: Format) -> None:
        self._path, self._skips = path, how.skips_bad_rows

    def row(self, number: int, why: str) -> None:
        text = f"{self._path}, row {number}: {why}"
        if not self._skips:
            raise ConnectError(f"{text}; mend the file, or set bad.rows=skip")
        log.warning("%s: skipped", text)

    def by_reader(self, row: Any) -> str:
        """Decide about a row of the wrong width, for pyarrow's reader, which counts the header."""
        why = f"{row.actual_columns} columns in place of {row.expected_columns}: {row.text[:200]!r}"
        log.warning("%s, line %s: %s", self._path, row.number, why)
        return "skip" if self._skips else "error"


def _open_csv(path: str, how: Format, names: tuple[str, ...] | None) -> Any:
    """Open a reader for the columns of these names, or one that finds the names."""
    module, pa = needed("pyarrow.csv"), needed("pyarrow")
    return module.open_csv(
        path,
        read_options=module.ReadOptions(
            use_threads=False,
            block_size=BLOCK,
            column_names=None if how.has_header else [column.name for column in how.columns],
        ),
        parse_options=module.ParseOptions(
            delimiter=how.delimiter,
            newlines_in_values=True,
            invalid_row_handler=_Bad(path, how).by_reader if names is not None else _skip,
        ),
        convert_options=module.ConvertOptions(
            column_types={name: pa.string() for name in names or ()},
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )


def _skip(row: Any) -> str:
    return "skip"


def _columns_of(path: str, how: Format) -> tuple[Column, ...] | None:
    """Return the columns of the file in order, None if it is empty."""
    with open(path, "rb") as file:
        if not file.read(1):
            return None
    if not how.has_header:
        return how.columns
    with _open_csv(path, how, None) as reader:
        names = reader.schema.names
    given = {column.name: column for column in how.columns}
    missing = [name for name in given if name not in names]
    if missing:
        raise ConnectError(
            f"{path} has no column {', '.join(missing)} of csv.columns, but {', '.join(names)}"
        )
    return tuple(given.get(name, Column(name)) for name in names)


TYPES: Final = {
    "int8": "int8",
    "int16": "int16",
    "int32": "int32",
    "int64": "int64",
    "float": "float32",
    "double": "float64",
    "boolean": "bool_",
    "string": "string",
    "date": "date32",
}
"""Types of columns by name; beside them decimal and timestamp."""


def _arrow_type(pa: Any, column: Column) -> "pyarrow.DataType":
    if column.type == "decimal":
        return pa.decimal128(38, column.scale)
    if column.type == "timestamp":
        return pa.timestamp("us", tz="UTC")
    return getattr(pa, TYPES[column.type])()


def _typed(
    batch: "pyarrow.RecordBatch", kinds: dict[str, "pyarrow.DataType"], behind: range, bad: _Bad
) -> tuple["pyarrow.RecordBatch", list[int]]:
    """Return the rows whose values have their types, and the position behind each of them."""
    pa = needed("pyarrow")
    wrong: dict[int, str] = {}
    arrays = [_cast_all(batch.column(name), kind, name, wrong) for name, kind in kinds.items()]
    for row in sorted(wrong):
        bad.row(behind[row], wrong[row])
    typed = pa.RecordBatch.from_arrays(arrays, names=list(kinds))
    kept = [row for row in range(batch.num_rows) if row not in wrong]
    return (typed.take(pa.array(kept)) if wrong and kept else typed), [behind[row] for row in kept]


def _cast_all(
    column: "pyarrow.Array", kind: "pyarrow.DataType", name: str, wrong: dict[int, str]
) -> "pyarrow.Array":
    pa = needed("pyarrow")
    try:
        return _cast(column, kind)
    except pa.ArrowInvalid:
        parts = []
        for row in range(len(column)):
            try:
                parts.append(_cast(column.slice(row, 1), kind))
            except pa.ArrowInvalid:
                wrong.setdefault(
                    row, f"{name} is {column[row].as_py()[:200]!r}, not of type {kind}"
                )
                parts.append(pa.nulls(1, kind))
        return pa.concat_arrays(parts)


def _cast(column: "pyarrow.Array", kind: "pyarrow.DataType") -> "pyarrow.Array":
    pa = needed("pyarrow")
    if not pa.types.is_timestamp(kind):
        return column.cast(kind)
    try:  # times without a zone are UTC
        return column.cast(pa.timestamp("us")).cast(kind)
    except pa.ArrowInvalid:
        return column.cast(kind)
