"""Writes YAML in block style, with two spaces, and quotes only if a scalar needs them.

Pure. Source: YAML 1.2, of which a JSON string is a double-quoted scalar.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

Value = str | int | Sequence["Value"] | Mapping[str, "Value"]

_PLAIN: Final = re.compile(r"[A-Za-z_][\w./-]*|\d+(?:ms|[smhd])", re.ASCII)
_NOT_TEXT: Final = ("true", "false", "yes", "no", "on", "off", "null", "y", "n")
"""Words that YAML 1.1 reads as something else."""


def text_of(document: Mapping[str, Value]) -> str:
    """Return the document as text; its strings must be printable, apart from line ends."""
    return "".join(f"{line}\n" for line in _block(document))


def _block(value: Mapping[str, Value] | Sequence[Value]) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _entry(f"{_scalar(key)}:", item)
    else:
        for item in value:
            if isinstance(item, Mapping) and item:
                first, *others = _block(item)
                yield f"- {first}"
                yield from (f"  {line}" for line in others)
            else:
                yield from _entry("-", item)


def _entry(head: str, item: Value) -> Iterator[str]:
    if isinstance(item, str) and "\n" in item:
        yield f"{head} |-"
        yield from (f"  {line}" for line in item.splitlines())
    elif isinstance(item, str | int):
        yield f"{head} {_scalar(item)}"
    elif item:
        yield head
        yield from (f"  {line}" for line in _block(item))
    else:
        yield f"{head} {'{}' if isinstance(item, Mapping) else '[]'}"


def _scalar(value: str | int) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if _PLAIN.fullmatch(value) and value.lower() not in _NOT_TEXT:
        return value
    if '"' in value:
        return "'{}'".format(value.replace("'", "''"))
    return json.dumps(value, ensure_ascii=False)
