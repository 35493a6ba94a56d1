"""Chooses the record codec: the compiled one if it was built, else the one in Python.

Both do what `record_python` documents and write the same bytes. The environment variable
MINIKAFKA_RECORDS chooses one, as `python` or `compiled`; an unknown or missing codec is an
ImportError.
"""

from collections.abc import Sequence
from typing import Any, Final, TypeVar

from ...runtime.switches import RECORDS
from . import record_python
from .record_python import BadRecord, Columns, encode_headers

T = TypeVar("T", bound=tuple[Any, ...])
COLUMNS_PAY_FROM: Final = 400
"""The number of records in a batch from which numpy is faster than the codec in Python."""


def _compiled() -> Any:
    """Import the compiled codec; return None if the codec in Python is to be used.

    Raise ImportError if MINIKAFKA_RECORDS is unknown, or names a codec that is missing.
    """
    if RECORDS == "python":
        return None
    if RECORDS not in ("", "compiled"):
        raise ImportError(f"MINIKAFKA_RECORDS is {RECORDS!r}: it may be python or compiled")
    try:
        from . import _records
    except ImportError:
        if RECORDS:
            raise
        return None
    return _records


compiled: Final[Any] = _compiled()
"""The compiled module; None if the codec in Python is in use."""
NAME: Final = "python" if compiled is None else "compiled"

_live: Any = compiled or record_python
RecordBody: Any = _live.RecordBody
measure: Any = _live.measure
decode: Any = _live.decode
examine: Any = _live.examine
highest_delta: Any = _live.highest_delta
find: Any = _live.find
first_at: Any = _live.first_at


def decode_many(
    body: Any, count: int, base: tuple[int, int, Any], make: type[T], prefix: tuple[Any, ...] = ()
) -> list[T]:
    """Decode as `decode` does, with numpy if that is faster and installed; for clients.

    Brokers and tools use `decode`, because they read few records and numpy costs memory.
    """
    if compiled is None and count >= COLUMNS_PAY_FROM:
        try:
            from . import record_columns
        except ImportError:
            pass
        else:
            return record_columns.decode(body, count, base, make, prefix)
    found: list[T] = decode(body, count, base, make, prefix)
    return found


def decode_named(
    body: Any, count: int, base: tuple[int, int, Any], make: type[T], names: Sequence[str]
) -> list[T]:
    """Decode as `decode` does, with only those headers that have one of these names, in ASCII.

    The compiled codec makes no objects of the others: a record may have a million of them.
    """
    if compiled is not None:
        found: list[T] = compiled.decode(body, count, base, make, (), names)
        return found
    rows: list[tuple[Any, ...]] = decode(body, count, base, tuple)
    return [
        tuple.__new__(make, (*rest, tuple(each for each in headers if each[0] in names)))
        for *rest, headers in rows
    ]


def decode_columns(body: Any, count: int, base: tuple[int, int, Any]) -> Columns:
    """Decode as the chosen codec's `decode_columns` does, with numpy as in `decode_many`."""
    if compiled is None and count >= COLUMNS_PAY_FROM:
        try:
            from . import record_columns
        except ImportError:
            pass
        else:
            return record_columns.decode_columns(body, count, base)
    found: Columns = _live.decode_columns(body, count, base)
    return found


__all__ = [
    "NAME",
    "BadRecord",
    "Columns",
    "RecordBody",
    "compiled",
    "decode",
    "decode_columns",
    "decode_many",
    "decode_named",
    "encode_headers",
    "examine",
    "find",
    "first_at",
    "highest_delta",
    "measure",
]
