"""The record codec, compiled: types of _records.pyx, whose contract record_python tells."""

from collections.abc import Sequence
from typing import Any, TypeVar

from .record_python import Columns, Headers

T = TypeVar("T", bound=tuple[Any, ...])
Spans = tuple[Any, Any, Any]
NAME: str

class RecordBody:
    record_count: int
    @property
    def size(self) -> int: ...
    @property
    def base_timestamp(self) -> int: ...
    @property
    def max_timestamp(self) -> int: ...
    def append(
        self, timestamp: int, key: bytes | None, value: bytes | None, headers: Headers = ()
    ) -> int: ...
    def extend(
        self,
        timestamp: int,
        values: Sequence[bytes | None],
        keys: Sequence[bytes | None] | None,
        start: int,
        max_size: int,
    ) -> int: ...
    def extend_spans(
        self,
        timestamps: Any,
        values: Spans,
        keys: Spans | None,
        start: int,
        max_size: int,
        headers: Spans | None = None,
    ) -> int: ...
    def take(self) -> bytearray: ...

def measure(
    values: Sequence[bytes | None], keys: Sequence[bytes | None] | None
) -> tuple[int, int]: ...
def decode(
    body: Any,
    count: int,
    base: tuple[int, int, Any],
    make: type[T],
    prefix: tuple[Any, ...] = (),
    names: Sequence[str] | None = None,
) -> list[T]: ...
def decode_columns(body: Any, count: int, base: tuple[int, int, Any]) -> Columns: ...
def examine(
    body: Any, count: int, needs_keys: bool, earliest: int, latest: int
) -> tuple[int, int, tuple[int, ...], tuple[int, ...]]: ...
def highest_delta(batch: Any, start: int, count: int, needs_keys: bool) -> int | None: ...
def first_at(
    body: Any, count: int, timestamp_delta: int, offset_delta: int
) -> tuple[int, int] | None: ...
def find(body: Any, count: int, offset_deltas: Sequence[int]) -> list[tuple[int, int]]: ...
def locate(body: Any, count: int, base: int, out: Any, column: int) -> None: ...
def murmur2(data: Any) -> int: ...
def murmur2_spans(keys: Spans, out: Any) -> None: ...
