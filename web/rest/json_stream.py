"""Cuts a stream of bytes into the JSON values that stand in it one after another.

Pure. Values may be divided by line ends or blanks, as in NDJSON, or by nothing. An error in the
text is found as soon as what has arrived cannot be the beginning of a value.
"""

import codecs
import io
import json
import re
from collections.abc import Iterator
from typing import Any, Final

from .errors import BAD_REQUEST, TOO_LARGE, RestError
from .schemas import may_be_halved, no_constant, unicode_of

_BLANK: Final = " \t\r\n"
_LITERALS: Final = ("true", "false", "null", "-")
"""A part of one of these is an error at its first character."""
_NUMBER_CUT: Final = re.compile(r"\.|[eE][-+]?")
"""The end of a text that was cut within a number, behind its digits."""
_MARK: Final = re.compile(r'["\[\]{}]')
_MARK_IN_TEXT: Final = re.compile(r'"|\\.?', re.DOTALL)


class JsonStream:
    """Takes bytes as they arrive, and hands out values; a value has a bound on its size."""

    def __init__(self, most: int) -> None:
        """A value longer than `most` characters is refused."""
        self._most = most
        self._held = io.StringIO()
        """The beginning of a value."""
        self._nesting = _Nesting()
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._parse = json.JSONDecoder(parse_constant=no_constant).raw_decode

    def feed(self, data: bytes, *, is_last: bool = False) -> Iterator[Any]:
        """Yield the values that are complete; raise RestError at the first that cannot be one."""
        try:
            text = self._decoder.decode(data, is_last)
        except UnicodeDecodeError as error:
            raise RestError(BAD_REQUEST, f"The body is not UTF-8: {error.reason}") from None
        # What has come is parsed when its brackets are closed, so a value in many parts costs
        # linear time.
        if self._held.tell() and self._nesting.is_open(text) and not is_last:
            self._hold(text)
            return
        text = self._held.getvalue() + text
        self._held, self._nesting = io.StringIO(), _Nesting()
        at, end, is_halved = 0, len(text), may_be_halved(text)
        while True:
            while at < end and text[at] in _BLANK:
                at += 1
            if at == end:
                return
            try:
                value, at = self._parse(text, at)
                value = unicode_of(value) if is_halved else value
            except json.JSONDecodeError as error:
                if is_last or not _is_part(error, text):
                    why = f"The body is not JSON: {error.msg} in {text[at : at + 60]!r}"
                    raise RestError(BAD_REQUEST, why) from None
                break
            except (ValueError, RecursionError) as error:
                raise RestError(BAD_REQUEST, f"The body is not JSON: {error}") from None
            yield value
        self._nesting.is_open(text[at:])
        self._hold(text[at:])

    def _hold(self, text: str) -> None:
        self._held.write(text)
        if self._held.tell() > self._most:
            raise RestError(TOO_LARGE, f"A record is longer than {self._most} characters.")


class _Nesting:
    """Follows brackets and strings through a text that comes in parts."""

    def __init__(self) -> None:
        self._depth = 0
        self._is_in_text = False
        self._is_escaped = False

    def is_open(self, text: str) -> bool:
        """Read on; return True if a bracket or a string is not closed yet."""
        at = 1 if self._is_escaped and text else 0
        self._is_escaped = self._is_escaped and not text
        while mark := (_MARK_IN_TEXT if self._is_in_text else _MARK).search(text, at):
            at = mark.end()
            if mark[0] == '"':
                self._is_in_text = not self._is_in_text
            elif self._is_in_text:
                self._is_escaped = len(mark[0]) == 1
            else:
                self._depth += 1 if mark[0] in "[{" else -1
        return self._is_in_text or self._depth > 0


def _is_part(error: json.JSONDecodeError, text: str) -> bool:
    """True if more text may make a value of what could not be parsed."""
    if error.msg.startswith(("Unterminated string", "Invalid \\")):
        return True
    rest = text[error.pos :]
    if _NUMBER_CUT.fullmatch(rest) and text[error.pos - 1].isdigit():
        return True
    return not rest.strip(_BLANK) or any(one.startswith(rest) for one in _LITERALS)
