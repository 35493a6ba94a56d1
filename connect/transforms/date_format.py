"""Dates and times by the letters of java.text.SimpleDateFormat, in UTC and English.

Letters that mislead are refused: Y (the year of the week, not the calendar's), more than three S
(Java reads 123456 as that many milliseconds), and those that depend on a locale. Reading is lenient
as in Java: the 32nd of January is the 1st of February, and text behind the date is ignored.
"""

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from ..data import DataError
from ..logical import from_milliseconds, to_milliseconds

MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_TOKEN = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']+", re.DOTALL)
_MAX_PATTERN = 200


class _Letters(NamedTuple):
    letter: str
    """Empty for text as it stands."""
    size: int
    """How often it is repeated."""
    text: str = ""


_NUMBERS: dict[str, Callable[[datetime], int]] = {
    "y": lambda at: at.year,
    "M": lambda at: at.month,
    "L": lambda at: at.month,
    "d": lambda at: at.day,
    "D": lambda at: at.timetuple().tm_yday,
    "u": lambda at: at.isoweekday(),
    "H": lambda at: at.hour,
    "k": lambda at: at.hour or 24,
    "K": lambda at: at.hour % 12,
    "h": lambda at: at.hour % 12 or 12,
    "m": lambda at: at.minute,
    "s": lambda at: at.second,
    "S": lambda at: at.microsecond // 1000,
}
_TEXTS = ("a", "E", "z", "Z", "X")
_REFUSED = {
    "Y": "the year of the week, which is not the calendar's at its ends; write y",
    "w": "the week, which depends on a locale",
    "W": "the week, which depends on a locale",
    "F": "the weekday's number in the month",
    "G": "the era",
}


def _parts(pattern: str) -> Iterator[_Letters]:
    if len(pattern) > _MAX_PATTERN:
        raise ValueError(f"longer than {_MAX_PATTERN} characters")
    end = 0
    for found in _TOKEN.finditer(pattern):
        if found.start() != end:
            break
        end = found.end()
        letter = found[2]
        if not letter:
            quoted = found[1]
            text = found[0] if quoted is None else quoted.replace("''", "'") or "'"
            yield _Letters("", 0, text)
            continue
        if letter in _REFUSED:
            raise ValueError(f"{letter} is {_REFUSED[letter]}")
        if letter not in _NUMBERS and letter not in _TEXTS:
            raise ValueError(f"{letter} is no letter of SimpleDateFormat")
        count = len(found[0])
        if letter == "S" and count > 3:
            raise ValueError("S is milliseconds: at most SSS")
        yield _Letters(letter, count)
    if end != len(pattern):
        raise ValueError("a quote has no partner")


def is_no_format(pattern: str) -> str | None:
    """Return why a pattern cannot be used, or None: a check of a ConfigKey."""
    try:
        DateFormat(pattern)
    except ValueError as error:
        return f"not a date format: {error}"
    return None


class DateFormat:
    """A compiled pattern. Raises ValueError if the pattern cannot be used."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self._parts = list(_parts(pattern))
        self.reads_back = all(p.letter != "y" or p.size > 2 for p in self._parts)
        """False with years of two digits, which Java reads by today's date."""
        following = [*self._parts[1:], _Letters("", 0)]
        pieces = [_piece(part, after) for part, after in zip(self._parts, following, strict=True)]
        self._reads = re.compile("".join(pieces), re.IGNORECASE)

    def format(self, at: datetime) -> str:
        """Return the text of a time, which is taken in UTC."""
        utc = from_milliseconds(to_milliseconds(at))
        return "".join(_formatted(part, utc) for part in self._parts)

    def parse(self, text: str) -> datetime:
        """Return the time of a text. Raise DataError if it does not begin with the pattern."""
        found = self._reads.match(text) if self.reads_back else None
        if found is None:
            raise DataError(
                f"Could not parse timestamp: value ({text[:100]}) does not match pattern"
                f" ({self.pattern})"
            )
        fields = {"y": 1970, "M": 1, "d": 1}
        zone = ""
        letters = [part for part in self._parts if part.letter]
        for part, value in zip(letters, found.groups(), strict=True):
            if part.letter in ("z", "Z", "X"):
                zone = value
            elif part.letter in ("M", "L"):
                fields["M"] = _month(value)
            elif part.letter == "a":
                fields["a"] = 12 if value.lower() == "pm" else 0
            elif part.letter in _NUMBERS:
                fields[part.letter] = int(value)
        try:
            return _composed(fields) - _offset(zone)
        except (OverflowError, ValueError):
            raise DataError(f"{text[:100]} is not in the years 1 to 9999") from None


def _formatted(part: _Letters, at: datetime) -> str:
    letter, count, text = part
    if not letter:
        return text
    if letter in ("M", "L") and count > 2:
        return MONTHS[at.month - 1] if count > 3 else MONTHS[at.month - 1][:3]
    if letter in _NUMBERS:
        number = _NUMBERS[letter](at)
        return f"{number % 100:02}" if (letter, count) == ("y", 2) else f"{number:0{count}}"
    if letter == "E":
        day = DAYS[at.weekday()]
        return day if count > 3 else day[:3]
    return {"a": "AM" if at.hour < 12 else "PM", "z": "UTC", "Z": "+0000", "X": "Z"}[letter]


def _piece(part: _Letters, after: _Letters) -> str:
    """Return the pattern of a part; a number before a number has as many digits as letters."""
    letter, count, text = part
    if not letter:
        return re.escape(text)
    if letter in ("M", "L") and count > 2:
        return f"({'|'.join((*MONTHS, *(month[:3] for month in MONTHS)))})"
    if letter == "S" and not _is_number(after):
        return r"\s*([0-9]{1,3})(?![0-9])"
    if letter in _NUMBERS:
        return rf"\s*([0-9]{{{count}}})" if _is_number(after) else r"\s*([0-9]{1,9})"
    return {
        "a": "(am|pm)",
        "E": f"({'|'.join((*DAYS, *(day[:3] for day in DAYS)))})",
        "z": r"((?:UTC|GMT)(?:[+-][0-9]{1,2}:?[0-9]{2})?|[+-][0-9]{4})",
        "Z": r"((?:GMT)?[+-][0-9]{1,2}:?[0-9]{2}|UTC|GMT)",
        "X": r"(Z|[+-][0-9]{2}(?::?[0-9]{2})?)",
    }[letter]


def _is_number(part: _Letters) -> bool:
    return part.letter in _NUMBERS and not (part.letter in ("M", "L") and part.size > 2)


def _month(text: str) -> int:
    if text.isdigit():
        return int(text)
    return next(at for at, month in enumerate(MONTHS, 1) if month[:3].lower() == text[:3].lower())


def _offset(zone: str) -> timedelta:
    digits = re.search(r"([+-])(\d{1,2}):?(\d{2})?$", zone)
    if digits is None:
        return timedelta()
    length = timedelta(hours=int(digits[2]), minutes=int(digits[3] or 0))
    return -length if digits[1] == "-" else length


def _composed(fields: dict[str, int]) -> datetime:
    """Return the time of numbers, which may be beyond their usual bounds."""
    years, month = divmod(fields["y"] * 12 + fields["M"] - 1, 12)
    days = fields["d"] - 1
    if "D" in fields:
        years, month, days = fields["y"], 0, fields["D"] - 1
    hours = fields.get("H", fields.get("k", 0))
    if "k" in fields and hours == 24:
        hours = 0
    if "h" in fields or "K" in fields:
        hours = fields.get("h", fields.get("K", 0)) % 12 + fields.get("a", 0)
    return datetime(years, month + 1, 1, tzinfo=UTC) + timedelta(
        days=days,
        hours=hours,
        minutes=fields.get("m", 0),
        seconds=fields.get("s", 0),
        milliseconds=fields.get("S", 0),
    )
