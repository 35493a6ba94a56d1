"""Decides when to log that the cluster does not have a watched topic.

Pure. A topic that is being created, or that a broker does not know yet, is missing for a moment
only. If a topic is missing for longer, `Metadata` logs that once, and again only after the topic
was found.
"""

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from ..protocol.errors import ErrorCode
from ..runtime.spelling import did_you_mean

PATIENCE_MS: Final = 500
"""The ms after which a missing topic is logged; a broker usually learns of a new one sooner."""
CREATION_MS: Final = 2_000
"""The ms after which a missing topic is logged if a metadata request can create it."""
NAMES_SHOWN: Final = 3
UNKNOWN: Final = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@dataclass(slots=True)
class _Missing:
    code: ErrorCode
    since_ms: int
    said: str | None = None
    """The text that was logged about the topic; None if nothing was."""


class MissingTopics:
    """The watched topics that are missing, and the texts that were logged about them."""

    def __init__(self, *, auto_create: bool = False) -> None:
        self._patience_ms = CREATION_MS if auto_create else PATIENCE_MS
        self._missing: dict[str, _Missing] = {}

    def on_answer(
        self, errors: Mapping[str, ErrorCode], watched: Container[str], now_ms: int
    ) -> list[str]:
        """Replace the missing topics by the watched ones in `errors`; return those to log now."""
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
        """Return the line to log about a topic that `on_answer` returned.

        `names` are the topics of the cluster. If the topic is unknown, the line suggests the most
        similar ones.
        """
        missing = self._missing[name]
        if missing.code is UNKNOWN:
            missing.said = f"the cluster does not have it{did_you_mean(name, names, NAMES_SHOWN)}"
        else:
            missing.said = f"{missing.code.name}: {missing.code.doc}"
        return f"topic {name}: {missing.said}"

    def said_of(self, name: str) -> str | None:
        """Return the text that was logged about a topic that is still missing, if any."""
        missing = self._missing.get(name)
        return None if missing is None else missing.said
