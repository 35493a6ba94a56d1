"""Limits how often a repeated refusal is logged: once, or once a minute.

A process with an old epoch, another cluster's id or an unknown name repeats its request many times
a second, and a peer that sends invalid bytes connects again. The memory of refusals is bounded.
"""

import logging
import re
from typing import Final

REMEMBERED_MAX: Final = 1_000
SAY_AGAIN_MS: Final = 60_000
_NUMBER: Final = re.compile(r"-?\d+")

log = logging.getLogger(__name__)


class Refusals:
    """Remembers the refusals that were logged, by peer and reason."""

    def __init__(self) -> None:
        self._said: dict[tuple[object, ...], None] = {}
        self._counts: dict[str, tuple[int, int]] = {}
        """By kind of reason, the ms when it was last logged, and how often it occurred since."""

    def note(self, who: tuple[object, ...], text: str, *values: object) -> None:
        """Log the text, unless the same text was logged about `who` before and is remembered."""
        key = (text, *who)
        if key in self._said:
            return
        if len(self._said) >= REMEMBERED_MAX:
            del self._said[next(iter(self._said))]
        self._said[key] = None
        log.warning(text, *values)

    def seldom(self, now_ms: int, text: str, *values: object) -> None:
        """Log the text with values that come from a peer, once a minute whatever they are.

        The next line has the count of those not logged.
        """
        more = self._more(text, now_ms)
        if more is not None:
            log.warning(text + "%s", *values, more)

    def close(self, peer: str, why: str, now_ms: int) -> None:
        """Log that a peer's connection was closed, once a minute for reasons of one kind.

        The next line gives the number of closed connections that were not logged. Reasons are of
        one kind if they differ only in numbers or behind the first colon.
        """
        more = self._more(_NUMBER.sub("n", why.partition(":")[0]), now_ms)
        if more is not None:
            log.warning("connection from %s closed: %s%s", peer, why, more)

    def _more(self, kind: str, now_ms: int) -> str | None:
        """Return the end of a line of this kind, or None if it is not to be logged."""
        said_ms, count = self._counts.get(kind, (now_ms - SAY_AGAIN_MS, 0))
        if now_ms - said_ms < SAY_AGAIN_MS:
            self._counts[kind] = (said_ms, count + 1)
            return None
        if kind not in self._counts and len(self._counts) >= REMEMBERED_MAX:
            del self._counts[next(iter(self._counts))]
        self._counts[kind] = (now_ms, 0)
        return f" (and {count} like it since it was last said)" if count else ""
