"""Repeats plans that are over: records that a target has taken, and lost again, are sent once more.

Pure. The steps in the source's log tell which records were planned for which target. A request
looks at a part of the log and says where the next one goes on, so that it costs a bounded time.
What it finds is planned anew, as it was, if the source still has the records. The target gets
another copy, which names the same source.
"""

from collections.abc import Callable, Container, Iterable
from typing import Final, NamedTuple

from ...protocol.errors import ErrorCode
from .steps import DELIVERED_EARLIER, Plan, Step

MOST_REQUESTS: Final = 10
"""The most requests that wait."""


class Refired(NamedTuple):
    """The outcome of one request."""

    error: ErrorCode = ErrorCode.NONE
    records: int = 0
    """The records that are planned again."""
    position: int = -1
    """The offset of the log at which the next request goes on; -1 if all is looked at."""
    end: int = -1


class Refire(NamedTuple):
    """A request to plan records again."""

    first: int
    """The lowest offset of a record that is repeated."""
    last: int
    """The offset behind the last one; -1 for no bound."""
    since_ms: int
    """The wall time since which its plan was made."""
    position: int
    """The offset of the log at which to begin; FROM_START for its beginning."""
    end: int
    """The offset of the log at which to stop; -1 for its present end."""
    done: Callable[[Refired], None]

    def of(self, plan: Plan, taken: Container[int]) -> tuple[int, ...]:
        """Return the records of a plan that are meant and are not among those `taken`."""
        if plan.kind.is_dead or plan.planned_ms < self.since_ms:
            return ()
        return tuple(
            offset
            for offset in plan.offsets
            if self.first <= offset and (self.last < 0 or offset < self.last)
            if offset not in taken
        )


class Refires:
    """The requests of one leader epoch: those that wait, and those whose step is written."""

    def __init__(self) -> None:
        self._waiting: list[Refire] = []
        self._written: list[tuple[Refire, Refired]] = []

    def __bool__(self) -> bool:
        """True if requests wait."""
        return bool(self._waiting)

    def ask(self, request: Refire) -> None:
        """Let a request wait; refuse it at once if too many do."""
        if len(self._waiting) >= MOST_REQUESTS:
            request.done(Refired(ErrorCode.THROTTLING_QUOTA_EXCEEDED))
        else:
            self._waiting.append(request)

    def withdraw(self, request: Refire) -> None:
        """Do not carry out a request whose client waits no more."""
        self._waiting = [each for each in self._waiting if each is not request]

    @property
    def next(self) -> Refire:
        """The request that is carried out next."""
        return self._waiting[0]

    def on_written(self, outcome: Refired) -> None:
        """Note the outcome of the next request, which counts once its step is committed."""
        self._written.append((self._waiting.pop(0), outcome))

    def on_committed(self) -> None:
        """Answer the requests whose step is committed."""
        written, self._written = self._written, []
        for request, outcome in written:
            request.done(outcome)

    def fail(self) -> None:
        """Refuse all requests, because this broker leads no more; some may have been written."""
        waiting, self._waiting = self._waiting, []
        written, self._written = self._written, []
        for request in [*waiting, *(each for each, _ in written)]:
            request.done(Refired(ErrorCode.NOT_LEADER_OR_FOLLOWER))


class Found:
    """The plans of a part of the log that a request means, and which of them were delivered."""

    def __init__(self, asked: Refire, open_plans: Iterable[Plan]) -> None:
        self.count = 0
        """The records of all plans, also of those that were not delivered."""
        self._asked = asked
        self._plans: dict[int, Plan] = {}
        self._ends: dict[int, int] = {}
        self._on_their_way = {offset: None for plan in open_plans for offset in plan.offsets}

    def add(self, step: Step, *, is_asked: bool) -> None:
        """Note how plans have ended, and if the step is part of what is asked, its plans."""
        for end in step.ends:
            if end.plan_id in self._plans:
                self._ends[end.plan_id] = end.base_offset
        for plan in step.plans if is_asked else ():
            if self._asked.of(plan, self._on_their_way):
                self._plans[plan.plan_id] = plan
                self.count += len(plan.offsets)

    @property
    def knows_all_ends(self) -> bool:
        """True if it is known of all plans how they have ended."""
        return len(self._ends) == len(self._plans)

    def delivered(self) -> list[tuple[Plan, tuple[int, ...]]]:
        """Return the plans that targets have taken, with the records to repeat, each once.

        A plan whose end is not known counts as delivered.
        """
        taken = dict(self._on_their_way)
        found: list[tuple[Plan, tuple[int, ...]]] = []
        for plan in self._plans.values():
            offsets = self._asked.of(plan, taken)
            if offsets and self._ends.get(plan.plan_id, 0) >= DELIVERED_EARLIER:
                taken.update(dict.fromkeys(offsets))
                found.append((plan, offsets))
        return found
