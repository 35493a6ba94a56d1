"""The ways to read a web API step by step: by cursor, by ETag, by page; and JSON pointers.

Each takes the offset reached and an answer, and returns records with the offset behind each. It
sends nothing.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..api import ConnectError

Offset = Mapping[str, Any]


class Answer(NamedTuple):
    """An answer of 2xx or 304."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Page(NamedTuple):
    """The records of one answer that are new, and where to go on."""

    records: list[Any]
    offsets: list[dict[str, Any]]
    """The place to go on from, behind each record."""
    following: Offset
    more: bool
    """True if the next request has something at once, as far as one knows."""


@dataclass(frozen=True, slots=True)
class Cursor:
    """Each answer holds the cursor of the next one; the last one holds none, or the same."""

    records: str
    cursor: str
    parameter: str

    def request(self, offset: Offset) -> tuple[dict[str, str], dict[str, str]]:
        """Ask with the cursor, once there is one."""
        cursor = offset.get("cursor")
        return ({} if cursor is None else {self.parameter: str(cursor)}), {}

    def page(self, offset: Offset, answer: Answer) -> Page:
        """Return the records behind the index; the last one leads to the next cursor."""
        document = document_of(answer)
        here, index = offset.get("cursor"), int(offset.get("index", 0))
        records = records_of(document, self.records)[index:]
        offsets = [{"cursor": here, "index": index + count + 1} for count, _ in enumerate(records)]
        following = pointed(document, self.cursor, None)
        if following in (None, "", here):
            return Page(records, offsets, offsets[-1] if offsets else offset, False)
        ahead = {"cursor": following, "index": 0}
        return Page(records, [*offsets[:-1], ahead][: len(records)], ahead, bool(records))


@dataclass(frozen=True, slots=True)
class Etag:
    """The whole is read again once its ETag has changed (RFC 9110, 8.8.3)."""

    records: str

    def request(self, offset: Offset) -> tuple[dict[str, str], dict[str, str]]:
        """Ask for an answer only if it is another one than the last."""
        etag = offset.get("etag")
        return {}, ({} if etag is None else {"If-None-Match": etag})

    def page(self, offset: Offset, answer: Answer) -> Page:
        """Return all records; only the last one leads to the new ETag."""
        if answer.status == 304:
            return Page([], [], offset, False)
        etag = answer.headers.get("ETag")
        if etag is None:
            raise ConnectError("the answer has no ETag; use mode=cursor or mode=page")
        if etag.removeprefix("W/") == str(offset.get("etag")).removeprefix("W/"):
            return Page([], [], offset, False)  # from a server that knows no If-None-Match
        records = records_of(document_of(answer), self.records)
        ahead: dict[str, Any] = {"etag": etag}
        before: dict[str, Any] = {"etag": offset.get("etag")}
        offsets = [*[before] * (len(records) - 1), ahead][: len(records)]
        return Page(records, offsets, ahead, False)


@dataclass(frozen=True, slots=True)
class Numbered:
    """Pages have numbers; one with fewer records than its size is asked for again."""

    records: str
    parameter: str
    first: int
    size: int
    size_parameter: str | None

    def request(self, offset: Offset) -> tuple[dict[str, str], dict[str, str]]:
        """Ask for the page of the offset."""
        parameters = {self.parameter: str(offset.get("page", self.first))}
        return parameters | (
            {self.size_parameter: str(self.size)} if self.size_parameter else {}
        ), {}

    def page(self, offset: Offset, answer: Answer) -> Page:
        """Return the records behind the index; the last one of a full page leads to the next."""
        number, index = int(offset.get("page", self.first)), int(offset.get("index", 0))
        every = records_of(document_of(answer), self.records)
        records = every[index:]
        offsets = [{"page": number, "index": index + count + 1} for count, _ in enumerate(records)]
        if len(every) < self.size:
            return Page(records, offsets, offsets[-1] if offsets else offset, False)
        ahead = {"page": number + 1, "index": 0}
        return Page(records, [*offsets[:-1], ahead][: len(records)], ahead, True)


Mode = Cursor | Etag | Numbered


def document_of(answer: Answer) -> Any:
    """Return the JSON of an answer. Raise ConnectError if it is none."""
    try:
        return json.loads(answer.body)
    except ValueError as error:
        start = answer.body[:100].decode("utf-8", "replace")
        raise ConnectError(f"the answer is no JSON ({error}): {start!r}") from error


def records_of(document: Any, pointer: str) -> list[Any]:
    """Return the list at the pointer, or what is there as the only record."""
    found = pointed(document, pointer, _MISSING)
    if found is _MISSING:
        raise ConnectError(f"the answer has nothing at records.pointer={pointer}")
    return found if isinstance(found, list) else [found]


_MISSING: Any = object()


def pointed(document: Any, pointer: str, default: Any) -> Any:
    """Return what a JSON pointer leads to (RFC 6901), or the default if nothing is there."""
    for token in pointer.split("/")[1:]:
        token = token.replace("~1", "/").replace("~0", "~")
        if isinstance(document, dict) and token in document:
            document = document[token]
        elif isinstance(document, list) and token.isdecimal() and int(token) < len(document):
            document = document[int(token)]
        else:
            return default
    return document


def wrong_pointer(pointer: str) -> str | None:
    """Return what is wrong with the text of a JSON pointer, or None."""
    if pointer and not pointer.startswith("/"):
        return "must be a JSON pointer: empty for the whole answer, or /name/name"
    return None
