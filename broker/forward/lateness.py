"""Measures how late records come: from when they are due until their target has taken them.

Pure. One duration is noted for each plan, that of its record that is due first.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from ...protocol.delays import AT_ONCE
from ...runtime.metrics import Durations
from .due_index import Entry
from .steps import Plan

MOST_NOTED: Final = 10_000
"""The most plans on their way whose times are remembered; others are not measured."""


class Lateness:
    """The lateness of one source's records, since it began."""

    __slots__ = ("_due_ms", "durations")

    def __init__(self) -> None:
        self.durations: Durations | None = None
        """None until something was measured, because most sources are followers."""
        self._due_ms: dict[int, int] = {}

    def on_planned(self, plans: Iterable[Plan], taken: Sequence[Entry]) -> None:
        """Note the plans of a step, made of entries that are due."""
        due_ms = {offset: due for due, offset in taken if due != AT_ONCE}
        for plan in plans:
            first = due_ms.get(plan.offsets[0])
            if first is None or plan.kind.is_dead:
                continue
            if len(self._due_ms) < MOST_NOTED:
                self._due_ms[plan.plan_id] = first

    def on_taken(self, plan_id: int, wall_ms: int) -> None:
        """Note that a target has taken a plan."""
        due_ms = self._due_ms.pop(plan_id, None)
        if due_ms is not None:
            if self.durations is None:
                self.durations = Durations()
            self.durations.record(max(0, wall_ms - due_ms) * 1000)

    def on_given_up(self, plans: Iterable[Plan]) -> None:
        """Forget plans that others take the place of."""
        for plan in plans:
            self._due_ms.pop(plan.plan_id, None)

    def forget(self) -> None:
        """Forget what is on its way, because this broker leads no more."""
        self._due_ms.clear()
