"""The rules for topic names, which become names of directories and of metrics."""

from collections.abc import Mapping
from typing import Final

from ...protocol.control.records import METADATA_TOPIC
from ...protocol.errors import ApiError, ErrorCode

NAME_LENGTH_MAX: Final = 249
_ALLOWED: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


def metric_name(name: str) -> str:
    """Return the name as metrics show it, in which '.' and '_' are the same."""
    return name.replace(".", "_")


def check_topic_name(name: str, existing: Mapping[str, str]) -> None:
    """Raise ApiError INVALID_TOPIC_EXCEPTION if the name is not allowed.

    `existing` has the names of the existing topics by their metric names.
    """
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
    elif (other := existing.get(metric_name(name))) is not None:
        wrong = f"'.' and '_' are one in metrics, where it collides with topic {other!r}"
    if wrong is not None:
        shown = name if len(name) <= NAME_LENGTH_MAX else f"{name[:20]}..."
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"topic name {shown!r}: {wrong}")
