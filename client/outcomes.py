"""The outcomes of the operations in one call: each has a result or an ApiError."""

from collections.abc import Callable, Mapping
from typing import TypeVar

from ..protocol.errors import ApiError, ErrorCode
from .errors import AdminError

K = TypeVar("K")
T = TypeVar("T")
Outcomes = dict[str, T | ApiError]


def error_of(code: int, message: str | None = None) -> ApiError | None:
    """Make the ApiError for a code in an answer; return None if the code is 0 (no error)."""
    return ApiError(ErrorCode(code), message or "") if code else None


def raise_for(code: int, message: str | None = None) -> None:
    """Raise ApiError unless the code is 0 (no error)."""
    if code:
        raise ApiError(ErrorCode(code), message or "")


def done_of(outcomes: Mapping[K, T | ApiError], name_of: Callable[[K], str] = str) -> dict[K, T]:
    """Return the results; if an operation was refused, raise AdminError with the errors by name."""
    done: dict[K, T] = {}
    errors: dict[str, ApiError] = {}
    for key, outcome in outcomes.items():
        if isinstance(outcome, ApiError):
            errors[name_of(key)] = outcome
        else:
            done[key] = outcome
    if errors:
        raise AdminError(errors)
    return done
