"""Reads the topic, and the partition, to which a record of a delay topic wants to go.

Pure. With `minikafka.delay.target=header` each record names its target, from a list of names and
patterns.
"""

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Final

from .errors import ApiError, ErrorCode
from .records.record_python import Headers
from .types import INTERNAL_TOPICS

BY_HEADER: Final = "header"
"""The value of `minikafka.delay.target` with which records name their targets."""
TARGET: Final = "minikafka-target"
PARTITION: Final = "minikafka-partition"
MOST_TARGETS: Final = 32
"""The most names and patterns of one topic."""
_LEGAL: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-*?")
_LONGEST: Final = 249
_DIGITS: Final = 9


def is_pattern(name: str) -> bool:
    """True if an item of the list stands for several topics: `*` for any text, `?` for a letter."""
    return "*" in name or "?" in name


def check_list(targets: Sequence[str]) -> None:
    """Raise ValueError if the list has an item that no topic can have as its name, or too many."""
    if not targets:
        raise ValueError("must name topics, or patterns such as orders-*")
    if len(targets) > MOST_TARGETS:
        raise ValueError(f"{len(targets)} names, more than {MOST_TARGETS}")
    for each in targets:
        if not each or len(each) > _LONGEST or not _LEGAL.issuperset(each):
            raise ValueError(f"{each!r} is no name of a topic, nor a pattern with * and ?")


def target_of(headers: Headers) -> str | None:
    """Return the topic that a record names, None if it names none; the last header counts."""
    found: bytes | None = None
    for name, value in headers:
        if name == TARGET:
            found = value
    try:
        return None if found is None else found.decode("ascii")
    except UnicodeDecodeError:
        return None


def is_allowed(name: str, targets: Sequence[str]) -> bool:
    """True if a record may name this topic."""
    return name not in INTERNAL_TOPICS and any(fnmatchcase(name, each) for each in targets)


def check_target(headers: Headers, targets: Sequence[str]) -> str:
    """Return the topic that a record names; raise ApiError INVALID_RECORD if it may not."""
    name = target_of(headers)
    if name is None:
        raise ApiError(ErrorCode.INVALID_RECORD, f"a header {TARGET} must name the target")
    if not is_allowed(name, targets):
        why = f"header {TARGET}: {name[:_LONGEST]!r} is not among minikafka.delay.targets"
        raise ApiError(ErrorCode.INVALID_RECORD, why)
    return name


def read_partition(headers: Headers) -> int | None:
    """Return the partition that a record names, None if it names none; the last header counts.

    Raise ApiError INVALID_RECORD if it is no number.
    """
    found = [value for name, value in headers if name == PARTITION]
    if not found:
        return None
    value = found[-1]
    if value is None or not value.isdigit() or len(value) > _DIGITS:
        shown = value if value is None else value[: _DIGITS + 1]
        raise ApiError(ErrorCode.INVALID_RECORD, f"header {PARTITION}: {shown!r} is no number")
    return int(value)
