"""Refusals that would fill a log: each is said once, however often it happens.

A process that asks with an old epoch, another cluster's id or a name nobody knows asks again, many
times a second. Bounded; decides nothing.
"""

import logging
from typing import Final

REMEMBERED_MAX: Final = 1_000

log = logging.getLogger(__name__)


class Refusals:
    """What has been refused, by whom and why."""

    def __init__(self) -> None:
        self._said: dict[tuple[object, ...], None] = {}

    def note(self, who: tuple[object, ...], text: str, *values: object) -> None:
        """Say it, unless the same was said of `who` before."""
        key = (text, *who)
        if key in self._said:
            return
        if len(self._said) >= REMEMBERED_MAX:
            del self._said[next(iter(self._said))]
        self._said[key] = None
        log.warning(text, *values)
