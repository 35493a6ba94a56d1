"""The filter of messages: a bounded, safe match on text, keys, headers and paths into JSON. Pure.

oslo                         the key, the value or a header contains `oslo`, in any case
key == MK7                   the key is `MK7`
header.trace contains 4f     the header `trace` contains `4f`
$.flight.number >= 100       a path into a JSON value; [0] is the first item of a list
$.to == "OSL" and key != x   both comparisons hold
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from ....runtime.errors import MinikafkaError
from .records import Record, json_of

MOST_LETTERS: Final = 500
MOST_STEPS: Final = 16
_CLAUSE: Final = re.compile(
    r"(key|value|header\.[\w.-]+|\$[\w.\[\]-]*)\s*(==|!=|<=|>=|<|>|contains\b)\s*(.+)", re.DOTALL
)
_PATH: Final = re.compile(r"(?:\.[\w-]+|\[\d{1,9}\])*")
_STEP: Final = re.compile(r"\.([\w-]+)|\[(\d+)\]")
_AND: Final = re.compile(r"\s+and\s+")
MISSING: Final = object()
Match = Callable[[Record], bool]


class BadFilter(MinikafkaError):
    """A filter cannot be parsed; the message names the part that is wrong."""


@dataclass(frozen=True, slots=True)
class Clause:
    """One comparison of a filter."""

    read: Callable[[Record], Any]
    operator: str
    wanted: Any

    def __call__(self, record: Record) -> bool:
        """True if the comparison holds. If the record lacks the field, only `!=` holds."""
        found = self.read(record)
        if self.operator == "!=":
            return found is MISSING or not _is_equal(found, self.wanted)
        if found is MISSING:
            return False
        if self.operator == "==":
            return _is_equal(found, self.wanted)
        if self.operator == "contains":
            return _has(found, self.wanted)
        return _is_ordered(found, self.operator, self.wanted)


def filter_of(text: str) -> Match | None:
    """Parse a filter; None if it is empty and so matches all.

    Raise BadFilter if it is not valid.
    """
    text = text.strip()
    if not text:
        return None
    if len(text) > MOST_LETTERS:
        raise BadFilter(f"a filter has {MOST_LETTERS} letters at the most")
    clauses = [_clause(part) for part in _AND.split(text)] if _CLAUSE.match(text) else [_any(text)]
    return lambda record: all(clause(record) for clause in clauses)


def _any(text: str) -> Match:
    wanted = text.lower().encode()

    def match(record: Record) -> bool:
        if record.value is not None and wanted in record.value.lower():
            return True
        if record.key is not None and wanted in record.key.lower():
            return True
        return any(
            wanted in name.lower().encode() or wanted in (value or b"").lower()
            for name, value in record.headers
        )

    return match


def _clause(text: str) -> Clause:
    found = _CLAUSE.fullmatch(text.strip())
    if found is None:
        raise BadFilter(f"{text[:80]!r} is no comparison, such as $.to == OSL or key contains x")
    name, operator, literal = found.groups()
    if name.startswith("$"):
        return Clause(_path(name), operator, _literal(literal))
    if name.startswith("header."):
        wanted_name = name.removeprefix("header.")
        return Clause(lambda record: _header(record, wanted_name), operator, _plain(literal))
    return Clause(_key if name == "key" else _value, operator, _plain(literal))


def _literal(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text.strip()


def _plain(text: str) -> str:
    """Read a text that may be quoted."""
    found = _literal(text)
    return found if isinstance(found, str) else text.strip()


def _path(text: str) -> Callable[[Record], Any]:
    if _PATH.fullmatch(text, 1) is None:
        raise BadFilter(f"{text[:80]!r} is no path, such as $.flight.legs[0].to")
    steps = [int(found[2]) if found[2] else found[1] for found in _STEP.finditer(text)]
    if len(steps) > MOST_STEPS:
        raise BadFilter(f"a path has {MOST_STEPS} steps at the most")

    def read(record: Record) -> Any:
        at = json_of(record.value)
        if at is None:
            return MISSING
        for step in steps:
            if isinstance(step, int):
                if not isinstance(at, list) or step >= len(at):
                    return MISSING
                at = at[step]
            elif isinstance(at, dict) and step in at:
                at = at[step]
            else:
                return MISSING
        return at

    return read


def _decoded(data: bytes | None) -> Any:
    return MISSING if data is None else data.decode(errors="replace")


def _key(record: Record) -> Any:
    return _decoded(record.key)


def _value(record: Record) -> Any:
    return _decoded(record.value)


def _header(record: Record, wanted: str) -> Any:
    return next((_decoded(value) for name, value in record.headers if name == wanted), MISSING)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_equal(found: Any, wanted: Any) -> bool:
    # `$.id == 7` finds "7" as well: whoever types it rarely knows how it was written.
    return bool(found == wanted) or (isinstance(found, str) and found == str(wanted))


def _has(found: Any, wanted: Any) -> bool:
    if isinstance(found, list):
        return any(_is_equal(each, wanted) for each in found)
    if isinstance(found, dict):
        return str(wanted) in found
    return str(wanted).lower() in str(found).lower()


def _is_ordered(found: Any, operator: str, wanted: Any) -> bool:
    both_numbers = _is_number(found) and _is_number(wanted)
    if not both_numbers:
        if not isinstance(found, str):
            return False
        wanted = str(wanted)
    match operator:
        case "<":
            return bool(found < wanted)
        case "<=":
            return bool(found <= wanted)
        case ">":
            return bool(found > wanted)
    return bool(found >= wanted)
