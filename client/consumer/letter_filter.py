"""Chooses dead letters by what their headers tell.

Pure. A condition is a field, an operator and a text: `exception=builtins.KeyError`,
`message~no price`, `topic!=orders`. `~` looks for a regular expression anywhere in the field.
"""

import re
from collections.abc import Callable, Iterable
from typing import Final

from .retry_batch import Raw
from .retry_headers import Letter, letter_of

FIELDS: Final = (*Letter._fields, "key")
_CONDITION: Final = re.compile(r"\s*([a-z]+)\s*(!=|=|~)(.*)", re.DOTALL)
Choice = Callable[[Raw], bool]


def choice_of(conditions: Iterable[str]) -> Choice:
    """Return the function that is true for the letters that meet all conditions.

    Raise ValueError for a condition that is none.
    """
    tests = [_test_of(each) for each in conditions]

    def choose(record: Raw) -> bool:
        return all(test(record) for test in tests)

    return choose


def _test_of(condition: str) -> Choice:
    match = _CONDITION.fullmatch(condition)
    if match is None or match[1] not in FIELDS:
        raise ValueError(
            f"{condition!r} is no condition: needs FIELD=TEXT, FIELD!=TEXT or FIELD~REGEX, where "
            f"FIELD is one of {', '.join(FIELDS)}"
        )
    field, operator, wanted = match[1], match[2], match[3]
    if operator == "~":
        try:
            pattern = re.compile(wanted)
        except re.error as error:
            raise ValueError(
                f"{condition!r}: {wanted!r} is no regular expression: {error}"
            ) from error
        return lambda record: pattern.search(_field(record, field)) is not None
    is_wanted = operator == "="
    return lambda record: (_field(record, field) == wanted) is is_wanted


def _field(record: Raw, field: str) -> str:
    if field == "key":
        return (record.key or b"").decode(errors="replace")
    told: str = getattr(letter_of(record.headers), field)
    return told
