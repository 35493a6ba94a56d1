"""Reads the rules by which a topic's records go to other topics, and applies them to a record.

Pure. The rules are JSON: a list, or an object that has it under "rules", and "first": true if only
the first rule counts that matches.

    [{"if": {"header": {"kind": {"equals": "order"}}, "key": {"prefix": "eu-"}}, "to": ["orders"]},
     {"else": true, "to": ["rest"]}]

A rule matches if all of its conditions hold, and "else" if no rule before it did. Conditions look
at headers and the key as UTF-8 text, never at the value.
"""

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

from .records.record_python import Headers

MOST_BYTES: Final = 8 << 10
"""The longest text of rules."""
MOST_TOPICS: Final = 32
"""The most topics that the rules of one topic may name: a record has as many copies at most."""
_OF_TEXT: Final = ("equals", "prefix", "in")
_OPERATIONS: Final = (*_OF_TEXT, "exists")


class Condition(NamedTuple):
    """One comparison of a record's key, or of one of its headers."""

    header: str | None
    """The name of the header; None for the key."""
    operation: str
    """equals, prefix, in, or exists."""
    wanted: tuple[bytes, ...] = ()
    """The values to compare with: one, or several of "in"."""
    is_wanted: bool = True
    """True if "exists" asks for a value, False if it asks for none; unused by the others."""

    def holds(self, key: bytes | None, headers: Mapping[str, bytes | None]) -> bool:
        """Return True if the record fulfils it."""
        value, is_there = key, key is not None
        if self.header is not None:
            value, is_there = headers.get(self.header), self.header in headers
        if self.operation == "exists":
            return is_there is self.is_wanted
        if value is None:
            return False
        if self.operation == "prefix":
            return value.startswith(self.wanted[0])
        return value in self.wanted


class Route(NamedTuple):
    """One rule."""

    conditions: tuple[Condition, ...]
    to: tuple[str, ...]
    is_else: bool = False


class Routes(NamedTuple):
    """The rules of one topic, in their order."""

    rules: tuple[Route, ...]
    is_first_only: bool = False

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that the rules name, each once."""
        return tuple(dict.fromkeys(topic for rule in self.rules for topic in rule.to))

    def of(self, key: bytes | None, headers: Headers) -> tuple[str, ...] | None:
        """Return the topics for a record, each once; None if no rule matches.

        Of a repeated header the last one counts.
        """
        by_name = dict(headers)
        found: dict[str, None] = {}
        has_matched = False
        for rule in self.rules:
            if rule.is_else:
                matches = not has_matched
            else:
                matches = all(each.holds(key, by_name) for each in rule.conditions)
            if matches:
                has_matched = True
                found.update(dict.fromkeys(rule.to))
                if self.is_first_only:
                    break
        return tuple(found) if has_matched else None


@lru_cache(maxsize=256)
def parse_routes(text: str) -> Routes:
    """Read rules; raise ValueError, which says where, if they cannot be read."""
    if len(text.encode()) > MOST_BYTES:
        raise ValueError(f"longer than {MOST_BYTES} bytes")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"no JSON: {error}") from None
    is_first_only = False
    if isinstance(found, dict):
        _only(found, "the rules", ("rules", "first"))
        is_first_only = _flag(found.get("first", False), '"first"')
        found = found.get("rules")
    if not isinstance(found, list) or not found:
        raise ValueError("must be a list of rules")
    rules = [_rule(each, f"rule {at}") for at, each in enumerate(found, 1)]
    routes = Routes(tuple(rules), is_first_only)
    if len(routes.topics) > MOST_TOPICS:
        raise ValueError(f"{len(routes.topics)} topics, more than {MOST_TOPICS}")
    return routes


def _rule(given: object, where: str) -> Route:
    fields = _only(given, where, ("if", "else", "to"))
    to = fields.get("to", [])
    if not isinstance(to, list) or not all(isinstance(each, str) and each for each in to):
        raise ValueError(f'{where}: "to" must be a list of topics')
    if _flag(fields.get("else", False), f'{where}: "else"'):
        if "if" in fields:
            raise ValueError(f'{where}: "if" or "else", not both')
        return Route((), tuple(to), is_else=True)
    if "if" not in fields:
        raise ValueError(f'{where}: needs "if" or "else": true')
    wanted = _only(fields["if"], f'{where}: "if"', ("header", "key"))
    conditions: list[Condition] = []
    headers = wanted.get("header", {})
    if not isinstance(headers, dict):
        raise ValueError(f'{where}: "header" must name headers')
    for name, tests in headers.items():
        conditions.extend(_conditions(name, tests, f"{where}: header {name}"))
    if "key" in wanted:
        conditions.extend(_conditions(None, wanted["key"], f"{where}: key"))
    if not conditions:
        raise ValueError(f'{where}: "if" without a condition')
    return Route(tuple(conditions), tuple(to))


def _conditions(header: str | None, tests: object, where: str) -> list[Condition]:
    found: list[Condition] = []
    for operation, value in _only(tests, where, _OPERATIONS).items():
        if operation == "exists":
            is_wanted = _flag(value, f"{where}: exists")
            found.append(Condition(header, operation, is_wanted=is_wanted))
            continue
        texts = value if operation == "in" else [value]
        if not isinstance(texts, list) or not all(isinstance(each, str) for each in texts):
            kind = "a list of texts" if operation == "in" else "a text"
            raise ValueError(f"{where}: {operation} must be {kind}")
        found.append(Condition(header, operation, tuple(each.encode() for each in texts)))
    return found


def _only(given: object, where: str, names: tuple[str, ...]) -> Mapping[str, Any]:
    """Return an object that has no other fields than these."""
    if not isinstance(given, dict):
        raise ValueError(f"{where}: must be an object")
    for name in given:
        if name not in names:
            raise ValueError(f"{where}: {name!r} is none of {', '.join(names)}")
    return given


def _flag(value: object, where: str) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{where} must be true or false")
    return value
