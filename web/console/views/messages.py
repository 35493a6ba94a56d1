"""A search for messages: parsed from the page's address, checked, and written back. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from .changes import BadField, number
from .filters import Match, filter_of
from .records import FORMS

FROM: Final = ("newest", "oldest", "offset", "time", "tail")
LIMITS: Final = (20, 50, 200, 500)
ALL: Final = -1


@dataclass(frozen=True, slots=True)
class Question:
    """A search for messages in one topic."""

    topic: str
    partition: int = ALL
    """The partition to search; `ALL` for every partition."""
    begin: str = "newest"
    """The place to begin: newest, oldest, offset, time, or tail for records that come from now on.
    """
    at: str = ""
    """The offset or the time to begin at, as the user typed it."""
    limit: int = 50
    filter: str = ""
    form: str = "auto"
    committed_only: bool = False

    @property
    def match(self) -> Match | None:
        """The filter, None if it is empty; raise BadFilter if it is not valid."""
        return filter_of(self.filter)

    @property
    def offset(self) -> int:
        """The offset to begin at; raise BadField if it is not a number."""
        found = number("Offset", self.at.strip())
        if found < 0:
            raise BadField("Offset: must be 0 or more")
        return found

    @property
    def time_ms(self) -> int:
        """The time to begin at, ms since the epoch; raise BadField if it is no time."""
        text = self.at.strip()
        if text.isascii() and text.isdigit():
            return number("Time", text)
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            why = "must look like 2026-01-31T10:00, in UTC, or be ms since 1970"
            raise BadField(f"Time: {text[:50]!r} {why}") from None
        return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)

    def address(self, **changed: object) -> dict[str, object]:
        """Return the query parameters of this search, with some of them changed."""
        values: dict[str, object] = {
            "partition": "" if self.partition == ALL else self.partition,
            "from": self.begin,
            "at": self.at,
            "limit": self.limit,
            "filter": self.filter,
            "as": self.form,
            "committed": "on" if self.committed_only else "",
        }
        return {k: v for k, v in {**values, **changed}.items() if v != ""}


def question_of(topic: str, asked: Mapping[str, str]) -> Question:
    """Parse a search; raise BadField if a part is wrong.

    Offset, time and filter are parsed when they are used.
    """
    begin, form = asked.get("from", "newest"), asked.get("as", "auto")
    partition, limit = asked.get("partition", ""), asked.get("limit", "50")
    if begin not in FROM or form not in FORMS:
        raise BadField("From, As: must be one of the choices")
    return Question(
        topic,
        number("Partition", partition, 2**31 - 1) if partition else ALL,
        begin,
        asked.get("at", "")[:100],
        min(max(number("Limit", limit), 1), max(LIMITS)),
        asked.get("filter", ""),
        form,
        asked.get("committed", "") == "on",
    )


@dataclass(frozen=True, slots=True)
class MessagesView:
    """The page of messages: the present search, and the choices for the next."""

    question: Question
    partitions: tuple[int, ...]
    wrong: str
    is_asked: bool

    @property
    def command(self) -> tuple[str, ...]:
        """Arguments of the command that prints the same records, without the filter."""
        one = self.question
        flags = ["console-consumer", "--topic", one.topic]
        if one.partition != ALL:
            flags += ["--partition", str(one.partition)]
            if one.begin == "offset" and one.at:
                flags += ["--offset", one.at]
        if one.begin == "oldest":
            flags.append("--from-beginning")
        if one.begin != "tail":
            flags += ["--max-messages", str(one.limit)]
        return tuple(flags)
