"""Regular expressions as Java writes them: compiled by RE2, with `$1` in replacements.

RE2 takes time that is linear in the text. Java's look-around and back-references, which RE2 does
not have, are refused when a configuration is checked.
"""

import re
from collections.abc import Callable
from typing import Any

from ...protocol.patterns import compiled
from ..config_def import BadConfig

_PARTS = re.compile(r"\\(.)|\$(\d)(\d*)|\$\{([a-zA-Z][a-zA-Z0-9]*)\}|([\\$])", re.DOTALL)


def java_pattern(text: str) -> Any:
    """Return the compiled pattern. Raise ValueError that says why it cannot be used."""
    try:
        return compiled(text)
    except ValueError as error:
        raise ValueError(
            f"{error}; patterns are RE2's, which have no look-around and no back-references"
        ) from None


def is_no_pattern(text: str) -> str | None:
    """Return why a text is no pattern, or None: a check of a ConfigKey."""
    try:
        java_pattern(text)
    except ValueError as error:
        return f"not a regular expression: {error}"
    return None


def full_matcher(text: str) -> Callable[[str], bool]:
    """Return a function that says whether a whole text matches. Raise BadConfig."""
    wrong = is_no_pattern(text)
    if wrong is not None:
        raise BadConfig(wrong)
    pattern = java_pattern(text)
    return lambda subject: pattern.fullmatch(subject) is not None


def replacement(text: str, pattern: Any) -> Callable[[Any], str]:
    r"""Return a function from a match to the text that Java puts in its place.

    `$1` and `${name}` are groups, `$12` is group 1 before a 2 where there is no group 12, and `\`
    makes the next character plain. Raise ValueError if there is no such group.
    """
    parts: list[str | int] = []
    end = 0
    for found in _PARTS.finditer(text):
        parts.append(text[end : found.start()])
        end = found.end()
        if found[5]:
            raise ValueError(f"{found[5]!r} alone at {found.start()}; write it as \\{found[5]}")
        if found[1]:
            parts.append(found[1])
        elif found[4]:
            if found[4] not in pattern.groupindex:
                raise ValueError(f"the pattern has no group {found[4]}")
            parts.append(pattern.groupindex[found[4]])
        else:
            parts += _group(found[2], found[3], pattern.groups)
    parts.append(text[end:])
    return lambda match: "".join(
        part if isinstance(part, str) else match.group(part) or "" for part in parts
    )


def _group(first: str, more: str, count: int) -> list[str | int]:
    """Take as many digits as still name a group."""
    number = int(first)
    if number > count:
        raise ValueError(f"the pattern has no group {number}")
    for at, digit in enumerate(more):
        if number * 10 + int(digit) > count:
            return [number, more[at:]]
        number = number * 10 + int(digit)
    return [number]
