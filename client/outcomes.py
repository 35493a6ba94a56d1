"""The outcome of each thing that one call asked for: it was done, or refused with an error."""

from collections.abc import Callable, Mapping
from typing import TypeVar

from ..protocol.errors import ApiError, ErrorCode
from .errors import AdminError

K = TypeVar("K")
T = TypeVar("T")
Outcomes = dict[str, T | ApiError]


def error_of(code: int, message: str | None = None) -> ApiError | None:
    """Make the error that an answer carries; None where the code is NONE."""
    return ApiError(ErrorCode(code), message or "") if code else None


def raise_for(code: int, message: str | None = None) -> None:
    """Raise ApiError unless the code is NONE."""
    if code:
        raise ApiError(ErrorCode(code), message or "")


def done_of(outcomes: Mapping[K, T | ApiError], name_of: Callable[[K], str] = str) -> dict[K, T]:
    """Give what was done; AdminError where anything was refused, by name."""
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
