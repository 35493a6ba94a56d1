"""Changes that an administrator asks for: a record that waits is cancelled, or gets another time.

Pure. The leader decides them against the fold of its whole log, and writes them down in a step of
their own. So a change is before or after a plan of the record in the log, on every replica alike.
A request is answered once its step is committed. A repeated request has the same outcome.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from ...protocol.errors import ErrorCode
from .folding import SourceState

MOST_REQUESTS: Final = 100
"""The most requests that wait for a step."""
MOST_MOVED: Final = 100_000
"""The most records of one source partition that wait with other times than their own."""

Done = Callable[[Sequence[ErrorCode]], None]
"""Called with one error code for each change."""


class Change(NamedTuple):
    """One record's change: the time in ms at which it is due, or None to cancel it."""

    offset: int
    due_ms: int | None


class Limits(NamedTuple):
    """The bounds of offsets and times within which records can be changed."""

    log_start: int
    log_end: int
    latest_ms: int
    """The latest time that a record may get."""


@dataclass(slots=True)
class Decided:
    """The outcome of requests: for each the codes of its changes, and what the step says."""

    codes: list[list[ErrorCode]] = field(default_factory=list)
    cancelled: dict[int, None] = field(default_factory=dict)
    moved: dict[int, int] = field(default_factory=dict)


def decide(requests: Sequence[Sequence[Change]], state: SourceState, limits: Limits) -> Decided:
    """Decide about requests in their order."""
    decided = Decided()
    for changes in requests:
        decided.codes.append([_decide(each, state, limits, decided) for each in changes])
    return decided


def _decide(change: Change, state: SourceState, limits: Limits, decided: Decided) -> ErrorCode:
    offset, due_ms = change
    if not limits.log_start <= offset < limits.log_end:
        return ErrorCode.OFFSET_OUT_OF_RANGE
    if offset in decided.cancelled or offset in state.cancelled:
        return ErrorCode.NONE if due_ms is None else ErrorCode.INVALID_RECORD_STATE
    if offset in state.settled:
        return ErrorCode.INVALID_RECORD_STATE
    if due_ms is None:
        decided.cancelled[offset] = None
        decided.moved.pop(offset, None)
        return ErrorCode.NONE
    if due_ms > limits.latest_ms:
        return ErrorCode.INVALID_TIMESTAMP
    if len(state.moved) + len(decided.moved) >= MOST_MOVED and offset not in state.moved:
        return ErrorCode.POLICY_VIOLATION
    decided.moved[offset] = due_ms
    return ErrorCode.NONE


class Changes:
    """The requests of one leader epoch: those that wait, and those of the step that is written."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Sequence[Change], Done]] = []
        self._written: list[tuple[Sequence[ErrorCode], Done]] = []

    def __bool__(self) -> bool:
        """True if requests wait to be decided."""
        return bool(self._waiting)

    def ask(self, changes: Sequence[Change], done: Done) -> None:
        """Let a request wait; refuse it at once if too many do."""
        if len(self._waiting) >= MOST_REQUESTS:
            done([ErrorCode.THROTTLING_QUOTA_EXCEEDED] * len(changes))
        else:
            self._waiting.append((changes, done))

    def decide(self, state: SourceState, limits: Limits) -> Decided:
        """Decide about all that waits, which goes on waiting until `on_written`."""
        return decide([changes for changes, _ in self._waiting], state, limits)

    def on_written(self, decided: Decided) -> None:
        """Note that the step of what was decided is written."""
        waiting, self._waiting = self._waiting, self._waiting[len(decided.codes) :]
        dones = [done for _, done in waiting]
        self._written.extend(zip(decided.codes, dones, strict=False))

    def on_committed(self) -> None:
        """Answer the requests whose step is committed."""
        written, self._written = self._written, []
        for codes, done in written:
            done(codes)

    def fail(self) -> None:
        """Refuse all requests, because this broker leads no more; some may have been written."""
        waiting, self._waiting = self._waiting, []
        written, self._written = self._written, []
        for codes, done in [*waiting, *written]:
            done([ErrorCode.NOT_LEADER_OR_FOLLOWER] * len(codes))
