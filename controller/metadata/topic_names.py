"""Which topic names are allowed: they become directory names and metric names."""

from collections.abc import Iterable
from typing import Final

from ...protocol.control.records import METADATA_TOPIC
from ...protocol.errors import ApiError, ErrorCode

NAME_LENGTH_MAX: Final = 249
_ALLOWED: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


def check_topic_name(name: str, existing: Iterable[str]) -> None:
    """ApiError INVALID_TOPIC_EXCEPTION with what is wrong with the name."""
    wrong = None
    if not name:
        wrong = "it is empty"
    elif name in (".", ".."):
        wrong = "'.' and '..' are not allowed"
    elif len(name) > NAME_LENGTH_MAX:
        wrong = f"it has {len(name)} characters, {NAME_LENGTH_MAX} are allowed"
    elif not _ALLOWED.issuperset(name):
        wrong = "only ASCII letters, digits, '.', '_' and '-' are allowed"
    elif name == METADATA_TOPIC:
        wrong = "it is the controllers' own log"
    elif (other := _collision(name, existing)) is not None:
        wrong = f"'.' and '_' are one in metrics, where it collides with topic {other!r}"
    if wrong is not None:
        shown = name if len(name) <= NAME_LENGTH_MAX else f"{name[:20]}..."
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"topic name {shown!r}: {wrong}")


def _collision(name: str, existing: Iterable[str]) -> str | None:
    if "." not in name and "_" not in name:
        return None
    flat = name.replace(".", "_")
    return next((other for other in existing if other.replace(".", "_") == flat), None)
