"""The watched topics that the cluster does not have, since when, and whether that was said.

Pure. A topic that is being created, or that a broker has not heard of yet, is missing for a
moment: only what lasts is worth a line. `Metadata` says what is due, once for each time a topic
is missing.
"""

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from ..protocol.errors import ErrorCode
from ..runtime.spelling import did_you_mean

PATIENCE_MS: Final = 500
"""A missing topic is worth a line after this time: a broker usually hears of a new one sooner."""
CREATION_MS: Final = 2_000
"""The patience if asking for a topic creates it."""
NAMES_SHOWN: Final = 3
UNKNOWN: Final = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@dataclass(slots=True)
class _Missing:
    code: ErrorCode
    since_ms: int
    said: str | None = None
    """The line that was logged of the topic; None if none was."""


class MissingTopics:
    """The watched topics that are missing, and the lines that were logged of them."""

    def __init__(self, *, auto_create: bool = False) -> None:
        self._patience_ms = CREATION_MS if auto_create else PATIENCE_MS
        self._missing: dict[str, _Missing] = {}

    def on_answer(
        self, errors: Mapping[str, ErrorCode], watched: Container[str], now_ms: int
    ) -> list[str]:
        """Take over which topics an answer refused; name those of which that is due to be said."""
        before, self._missing = self._missing, {}
        due: list[str] = []
        for name, code in errors.items():
            if name not in watched:
                continue
            known = before.get(name)
            if known is None or known.code is not code:
                known = _Missing(code, now_ms)
            self._missing[name] = known
            is_lasting = not code.retriable or now_ms - known.since_ms >= self._patience_ms
            if known.said is None and is_lasting:
                due.append(name)
        return due

    def say(self, name: str, names: Iterable[str]) -> str:
        """Say why a topic that is due cannot be used; `names` are the topics that there are."""
        missing = self._missing[name]
        if missing.code is UNKNOWN:
            missing.said = f"the cluster does not have it{did_you_mean(name, names, NAMES_SHOWN)}"
        else:
            missing.said = f"{missing.code.name}: {missing.code.doc}"
        return f"topic {name}: {missing.said}"

    def said_of(self, name: str) -> str | None:
        """Return the line that was logged of a topic that is still missing, if any."""
        missing = self._missing.get(name)
        return None if missing is None else missing.said
