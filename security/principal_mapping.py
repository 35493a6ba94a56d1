"""The rules that make a principal's name from a certificate's distinguished name.

ssl.principal.mapping.rules has one or more rules, of which the first that matches decides
(KIP-371). `DEFAULT` takes the whole name; `RULE:pattern/replacement/` takes the replacement, in
which `$1` is the first group, and `L` or `U` behind it makes the result lower or upper case.
"""

import re
from typing import Any, Final, NamedTuple

from ..protocol.patterns import compiled
from ..runtime.errors import ConfigError

KEY: Final = "ssl.principal.mapping.rules"
_RULE: Final = re.compile(
    r"\s*(?:(?P<default>DEFAULT)|RULE:(?P<pattern>(?:\\.|[^\\/])*)/"
    r"(?P<replacement>(?:\\.|[^\\/])*)/(?P<case>[LU]?))\s*(?:,|$)"
)
_REFERENCE: Final = re.compile(r"\$(\d+)|\\(.)")
PATTERN_MAX: Final = 1024
"""The most characters of a pattern."""


class _Rule(NamedTuple):
    pattern: Any
    """A compiled pattern of re2, which must match the whole name; None for DEFAULT."""
    replacement: str
    case: str

    def apply(self, name: str) -> str | None:
        """Return the name that the rule makes; None if it does not match."""
        if self.pattern is None:
            return name
        found = self.pattern.fullmatch(name)
        if found is None:
            return None
        made = _REFERENCE.sub(
            lambda each: each[2] if each[1] is None else found.group(int(each[1])) or "",
            self.replacement,
        )
        return {"L": made.lower(), "U": made.upper()}.get(self.case, made)


class PrincipalMapping:
    """The rules of one listener, in order."""

    def __init__(self, text: str) -> None:
        """Parse the rules. Raise ConfigError, which names a part that is no rule."""
        self._rules: list[_Rule] = []
        position = 0
        while position < len(text):
            found = _RULE.match(text, position)
            if found is None:
                why = f"{text[position:]!r} is neither DEFAULT nor RULE:pattern/replacement/[LU]"
                raise ConfigError(KEY, text, why)
            self._rules.append(_rule(text, found))
            position = found.end()
        if not self._rules:
            raise ConfigError(KEY, text, "has no rule; DEFAULT takes names as they are")

    def name_of(self, distinguished_name: str) -> str | None:
        """Return the principal's name; None if no rule matches, so that nobody is let in."""
        for rule in self._rules:
            made = rule.apply(distinguished_name)
            if made is not None:
                return made
        return None


def _rule(text: str, found: re.Match[str]) -> _Rule:
    if found["default"] is not None:
        return _Rule(None, "", "")
    source, replacement = found["pattern"].replace("\\/", "/"), found["replacement"]
    if len(source) > PATTERN_MAX:
        raise ConfigError(KEY, text, f"a pattern has at most {PATTERN_MAX} characters")
    try:
        pattern = compiled(source)
    except ValueError as error:
        why = f"{source!r} is no pattern of RE2, which has no look-around: {error}"
        raise ConfigError(KEY, text, why) from None
    for each in _REFERENCE.finditer(replacement):
        if each[1] is not None and int(each[1]) > pattern.groups:
            raise ConfigError(KEY, text, f"{each[0]}: {source!r} has {pattern.groups} groups")
    return _Rule(pattern, replacement, found["case"])
