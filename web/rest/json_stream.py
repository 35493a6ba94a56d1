"""Cuts a stream of bytes into the JSON values that stand in it one after another.

Pure. Values may be divided by line ends or blanks, as in NDJSON, or by nothing. An error in the
text is found as soon as what has arrived cannot be the beginning of a value.
"""

import codecs
import json
from collections.abc import Iterator
from typing import Any, Final

from .errors import BAD_REQUEST, TOO_LARGE, RestError
from .schemas import may_be_halved, no_constant, unicode_of

_BLANK: Final = " \t\r\n"
_LITERALS: Final = ("true", "false", "null", "-")
"""A part of one of these is an error at its first character."""
_NUMBERS: Final = (".", "e", "E", "e+", "e-", "E+", "E-")
"""A number that is cut behind one of these is an error where that begins."""


class JsonStream:
    """Takes bytes as they arrive, and hands out values; a value has a bound on its size."""

    def __init__(self, most: int) -> None:
        """A value longer than `most` characters is refused."""
        self._most = most
        self._text = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._parse = json.JSONDecoder(parse_constant=no_constant).raw_decode
        self._tried = 0
        """The length of a text that was found to be the beginning of a value."""

    def feed(self, data: bytes, *, is_last: bool = False) -> Iterator[Any]:
        """Yield the values that are complete; raise RestError at the first that cannot be one."""
        try:
            text = self._text + self._decoder.decode(data, is_last)
        except UnicodeDecodeError as error:
            raise RestError(BAD_REQUEST, f"The body is not UTF-8: {error.reason}") from None
        at, end, is_halved = 0, len(text), may_be_halved(text)
        while True:
            while at < end and text[at] in _BLANK:
                at += 1
            # A part is parsed again when it has doubled, so that a long value costs linear time.
            grown = end - at >= 2 * self._tried or text[-1:] in "\n}]" or is_last
            if at == end or not grown:
                break
            try:
                value, at = self._parse(text, at)
                value = unicode_of(value) if is_halved else value
            except json.JSONDecodeError as error:
                if is_last or not _is_part(error, text):
                    why = f"The body is not JSON: {error.msg} in {text[at : at + 60]!r}"
                    raise RestError(BAD_REQUEST, why) from None
                self._tried = end - at
                break
            except (ValueError, RecursionError) as error:
                raise RestError(BAD_REQUEST, f"The body is not JSON: {error}") from None
            self._tried = 0
            yield value
        self._text = text[at:]
        if len(self._text) > self._most:
            raise RestError(TOO_LARGE, f"A record is longer than {self._most} characters.")


def _is_part(error: json.JSONDecodeError, text: str) -> bool:
    """True if more text may make a value of what could not be parsed."""
    if error.msg.startswith(("Unterminated string", "Invalid \\")):
        return True
    rest = text[error.pos :]
    if rest in _NUMBERS and text[error.pos - 1 : error.pos].isdigit():
        return True
    return not rest.strip(_BLANK) or any(one.startswith(rest) for one in _LITERALS)
