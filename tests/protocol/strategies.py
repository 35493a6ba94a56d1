"""Hypothesis strategies for any declared message in any of its versions."""

from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

from minikafka.protocol import messages as messages
from minikafka.protocol.api import OWN_API_KEYS
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.schema import REQUESTS, RESPONSES, Element, Field, shape_of

RANGES = {
    "int8": (-(2**7), 2**7 - 1),
    "int16": (-(2**15), 2**15 - 1),
    "uint16": (0, 2**16 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "uint32": (0, 2**32 - 1),
    "int64": (-(2**63), 2**63 - 1),
}
OWN_TAGS = 10_000
TIMES = {"log_append_time_ms", "retention_time_ms"}
TIMES_FROM_ZERO = {
    "transaction_start_time_ms",
    "issue_timestamp_ms",
    "expiry_timestamp_ms",
    "max_timestamp_ms",
}
"""The times that kio reads only if they are not negative."""
ERROR_CODES = st.sampled_from([int(code) for code in ErrorCode])


def message_classes(*, kafkas_only: bool = False) -> list[type]:
    """Requests and responses; `kafkas_only`: without the APIs that are our own."""
    keys = [key for key in sorted(REQUESTS) if key < OWN_API_KEYS or not kafkas_only]
    return [declared[key] for key in keys for declared in (REQUESTS, RESPONSES)]


def every_version(*, kafkas_only: bool = False) -> Iterator[tuple[type, int]]:
    for cls in message_classes(kafkas_only=kafkas_only):
        versions = shape_of(cls).versions
        for version in range(versions.first, versions.last + 1):
            yield cls, version


def name_of(case: object) -> str:
    return case.__name__ if isinstance(case, type) else f"v{case}"


def messages_of(cls: type, version: int, *, foreign: bool = False) -> st.SearchStrategy[Any]:
    """Any message; `foreign`: one that other implementations can hold too.

    They lack our own tagged fields and give some numbers a meaning: codes, dates.
    """
    fields = {
        field.name: _of_field(field, version, foreign)
        for field in shape_of(cls).fields
        if version in field.versions and not (foreign and (field.tag or 0) >= OWN_TAGS)
    }
    return st.builds(cls, **fields)


def _of_field(field: Field, version: int, foreign: bool) -> st.SearchStrategy[Any]:
    if foreign and field.name.endswith("error_code"):
        return ERROR_CODES
    if foreign and field.name in TIMES:
        return st.sampled_from([-1, 0, 1_700_000_000_123])
    if foreign and field.name in TIMES_FROM_ZERO:
        return st.sampled_from([0, 1_700_000_000_123])
    values = _of_element(field.element, version, foreign)
    if version in field.nullable:
        return st.none() | values
    return values


def _of_element(element: Element, version: int, foreign: bool) -> st.SearchStrategy[Any]:
    if element.items is not None:
        return st.lists(_of_element(element.items, version, foreign), max_size=3)
    if element.struct is not None:
        made = messages_of(element.struct, version, foreign=foreign)
        # Others leave a tagged struct out when it equals its default: no such struct here.
        return made.filter(lambda o: not foreign or _says_something(o))
    assert element.wire is not None
    kind = element.wire.name
    if kind == "bool":
        return st.booleans()
    if kind == "string":
        return st.text(max_size=20) | st.sampled_from(["", "x" * 127, "ü" * 100])
    if kind in ("bytes", "records"):
        return st.binary(max_size=40) | st.sampled_from([b"", b"r" * 130, b"R" * 2000])
    if kind == "uuid":
        return st.binary(min_size=16, max_size=16)
    if kind == "float64":
        return st.floats(allow_nan=False)
    first, last = RANGES[kind]
    return st.integers(first, last) | st.integers(-1, 3).filter(lambda n: n >= first)


def _says_something(struct: Any) -> bool:
    values = [getattr(struct, field.name) for field in shape_of(type(struct)).fields]
    return any(value != -1 for value in values)
