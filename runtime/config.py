"""The configuration table: one frozen class per owner, one declared setting per field.

The parsing of properties files and overrides, the bounds, DescribeConfigs and docs/config.md are
derived from this declaration. The owner of a setting gives it its meaning.

A field's type is int, float, bool, str or tuple[str, ...], perhaps with `| None`: then an empty
value is None. A class may define `check(self)` for rules across fields.
"""

import dataclasses
import re
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, TypeVar, dataclass_transform

from .errors import SECRET_WORDS, ConfigError
from .spelling import did_you_mean

C = TypeVar("C")
INT32_MAX = 2**31 - 1
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
PORT_MAX = 65_535
KiB, MiB, GiB = 1 << 10, 1 << 20, 1 << 30

PLUGIN_PREFIXES = (
    "authorizer.",
    "config.providers.",
    "confluent.",
    "cruise.control.",
    "metric.reporters.",
    "metrics.reporter.",
)
"""Prefixes of keys that belong to Kafka's plugins: such keys are accepted without a warning."""

_BOOLEANS = {"true": True, "false": False}
_REQUIRED: Any = object()
_MAYBE_SECRET = re.compile(SECRET_WORDS + "|keystore|token")


@dataclass(frozen=True, slots=True)
class Setting:
    """One row of a table of settings."""

    key: str
    """Kafka's dotted name."""
    field: str
    """The name of the attribute that holds the value."""
    type: type
    """The type of the value: int, float, bool, str or tuple."""
    optional: bool
    default: Any
    doc: str
    """The effect of the setting, in a sentence."""
    at_least: float | None = None
    at_most: float | None = None
    choices: tuple[str, ...] = ()
    dynamic: bool = False
    """True if the setting may change while the daemon runs."""
    secret: bool = False
    """True if the value is never shown."""
    aliases: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """Other keys for the setting, in order of precedence. A number given by such a key is
    multiplied by the factor."""

    @property
    def required(self) -> bool:
        """True if the setting has no default."""
        return self.default is _REQUIRED

    @property
    def kafka_type(self) -> str:
        """The name of the type in Kafka's DescribeConfigs."""
        if self.secret:
            return "PASSWORD"
        if self.type is int:
            return "INT" if self.at_most is not None and self.at_most <= INT32_MAX else "LONG"
        return {float: "DOUBLE", bool: "BOOLEAN", str: "STRING"}.get(self.type, "LIST")

    def parse(self, text: str, key: str | None = None) -> Any:
        """Return the checked value of `text`. Raise ConfigError, naming `key` or `self.key`."""
        key = key or self.key
        text = text.strip()
        if not text and self.optional:
            return None
        value = self._convert(text, key)
        if key != self.key and self.type is int and value > 0:
            value *= self.aliases[key]
        self.check(value, key, text)
        return value

    def check(self, value: Any, key: str | None = None, text: str | None = None) -> None:
        """Raise ConfigError if the value is out of bounds or not one of the choices."""
        key, shown = key or self.key, self.format(value) if text is None else text
        if value is None:
            if not self.optional:
                raise ConfigError(key, None, "needs a value")
            return
        if self.type in (int, float):
            self._check_bounds(value, key, shown)
        if self.choices:
            for one in value if self.type is tuple else (value,):
                if one not in self.choices:
                    raise ConfigError(key, shown, f"must be one of {', '.join(self.choices)}")

    def _check_bounds(self, value: float, key: str, shown: str) -> None:
        """Raise ConfigError if the value is out of bounds, not finite, or an int beyond 64 bits."""
        least, most = self.at_least, self.at_most
        if self.type is int:
            least = INT64_MIN if least is None else least
            most = INT64_MAX if most is None else most
        elif not isfinite(value):
            raise ConfigError(key, shown, "must be a finite number")
        if least is not None and value < least:
            raise ConfigError(key, shown, f"must be at least {least}")
        if most is not None and value > most:
            raise ConfigError(key, shown, f"must be at most {most}")

    def format(self, value: Any) -> str:
        """Return the text of which `parse` makes this value."""
        if value is None:
            return ""
        if self.type is bool:
            return "true" if value else "false"
        return ",".join(value) if self.type is tuple else str(value)

    def _convert(self, text: str, key: str) -> Any:
        if self.type is str:
            return text
        if self.type is tuple:
            return tuple(part.strip() for part in text.split(",") if part.strip())
        if self.type is bool:
            if text.lower() not in _BOOLEANS:
                raise ConfigError(key, text, "must be true or false")
            return _BOOLEANS[text.lower()]
        try:
            return self.type(text)
        except ValueError:
            what = "an integer" if self.type is int else "a number"
            raise ConfigError(key, text, f"must be {what}") from None


def setting(
    key: str,
    default: Any = _REQUIRED,
    *,
    at_least: float | None = None,
    at_most: float | None = None,
    choices: Sequence[str] = (),
    dynamic: bool = False,
    secret: bool = False,
    aliases: Mapping[str, int] | Sequence[str] = (),
    doc: str,
) -> Any:
    """Declare one setting. Without a default its key is required.

    `aliases` are other keys for the same setting. If `aliases` maps keys to factors, a number given
    by such a key is multiplied (`{"log.retention.hours": 3_600_000}`) unless it is zero or
    negative. Bounds are inclusive.
    """
    scales = aliases if isinstance(aliases, Mapping) else dict.fromkeys(aliases, 1)
    row = {
        "key": key,
        "default": default,
        "doc": doc,
        "at_least": at_least,
        "at_most": at_most,
        "choices": tuple(choices),
        "dynamic": dynamic,
        "secret": secret,
        "aliases": dict(scales),
    }
    if default is _REQUIRED:
        return dataclasses.field(repr=not secret, metadata={"setting": row})
    return dataclasses.field(default=default, repr=not secret, metadata={"setting": row})


def part(table: type) -> Any:
    """Declare a field that is a table itself; its settings count as those of the whole table."""
    return dataclasses.field(default_factory=table, metadata={"part": table})


def handed() -> Any:
    """Declare one field for an object of the program, which no text can give; None if unset."""
    return dataclasses.field(default=None, repr=False, metadata={"handed": True})


@dataclass_transform(
    frozen_default=True,
    kw_only_default=True,
    field_specifiers=(setting, part, handed, dataclasses.field),
)
def config_table(cls: type[C]) -> type[C]:
    """Make a class with `setting` fields a table: frozen, slotted and keyword-only."""
    made: Any = dataclass(frozen=True, kw_only=True, slots=True)(cls)
    hints = typing.get_type_hints(cls)
    rows: list[Setting] = []
    parts: dict[str, type] = {}
    objects: list[str] = []
    for field in dataclasses.fields(made):
        if "handed" in field.metadata:
            objects.append(field.name)
        if "part" in field.metadata:
            parts[field.name] = field.metadata["part"]
        if "setting" in field.metadata:
            kind, optional = _kind_of(hints[field.name])
            row = field.metadata["setting"]
            rows.append(Setting(field=field.name, type=kind, optional=optional, **row))
    made.OWN, made.PARTS, made.OWN_OBJECTS = tuple(rows), parts, tuple(objects)
    made.OBJECTS = (*objects, *(name for each in parts.values() for name in objects_of(each)))
    made.SETTINGS = (*rows, *(row for each in parts.values() for row in settings_of(each)))
    for row in rows:
        if not row.required:
            row.check(row.default)
    return made  # type: ignore[no-any-return]


def _kind_of(hint: Any) -> tuple[type, bool]:
    optional = False
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        inner = [arg for arg in typing.get_args(hint) if arg is not types.NoneType]
        optional = len(inner) < len(typing.get_args(hint))
        (hint,) = inner
    kind = typing.get_origin(hint) or hint
    if kind not in (int, float, bool, str, tuple):
        raise TypeError(f"a setting cannot have type {hint}")
    return kind, optional


def settings_of(cls: type) -> tuple[Setting, ...]:
    """Return the settings of a config table as they are declared, then those of its parts."""
    rows: tuple[Setting, ...] = cls.SETTINGS  # type: ignore[attr-defined]
    return rows


def objects_of(cls: type) -> tuple[str, ...]:
    """Return the fields of a config table, and of its parts, that hold objects of the program."""
    names: tuple[str, ...] = cls.OBJECTS  # type: ignore[attr-defined]
    return names


def from_mapping(
    cls: type[C], mapping: Mapping[str, str], objects: Mapping[str, object] | None = None
) -> C:
    """Make a table's object from its own keys in `mapping`; other keys are ignored.

    `objects` has the objects of the program, by field. Raise ConfigError if a value is wrong or
    missing.
    """
    table: Any = cls
    values: dict[str, Any] = {
        name: from_mapping(each, mapping, objects) for name, each in table.PARTS.items()
    }
    values |= {name: (objects or {}).get(name) for name in table.OWN_OBJECTS}
    for row in table.OWN:
        key = next((k for k in (row.key, *row.aliases) if k in mapping), None)
        if key is not None:
            values[row.field] = row.parse(mapping[key], key)
        elif row.required:
            raise ConfigError(row.key, None, "is required")
    return _checked(cls(**values))


def _checked(config: C) -> C:
    check = getattr(config, "check", None)
    if check is not None:
        check()
    return config


def parse_properties(text: str) -> dict[str, str]:
    r"""Read a Java properties file; return its keys and values.

    `#` and `!` begin comments. The first `=`, `:` or blank separates key and value. A backslash at
    the end of a line continues it on the next; `\t \n \r \f \uXXXX` are escapes. If a key is
    repeated, its last value counts.
    """
    properties: dict[str, str] = {}
    for line in _logical_lines(text):
        position, length = 0, len(line)
        while position < length and line[position] not in "=: \t":
            position += 2 if line[position] == "\\" else 1
        key, rest = line[:position], line[position:].lstrip(" \t")
        if rest[:1] in ("=", ":"):
            rest = rest[1:].lstrip(" \t")
        properties[_unescaped(key)] = _unescaped(rest).rstrip()
    return properties


def _logical_lines(text: str) -> Iterable[str]:
    whole = ""
    for raw in text.splitlines():
        line = raw.lstrip(" \t\f")
        if not whole and (not line or line[0] in "#!"):
            continue
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            whole += line[:-1]
            continue
        yield whole + line
        whole = ""
    if whole:
        yield whole


def _unescaped(text: str) -> str:
    if "\\" not in text:
        return text
    out: list[str] = []
    characters = iter(text)
    for character in characters:
        if character != "\\":
            out.append(character)
            continue
        following = next(characters, "")
        if following == "u":
            digits = "".join(next(characters, "") for _ in range(4))
            try:
                out.append(chr(int(digits, 16)))
            except ValueError:
                raise ConfigError(text, None, f"\\u{digits} is no character") from None
        else:
            out.append({"t": "\t", "n": "\n", "r": "\r", "f": "\f"}.get(following, following))
    return "".join(out)


def shown(key: str, value: object) -> object:
    """Return the value, or None if the key may be that of a secret, even misspelt."""
    return None if _MAYBE_SECRET.search(key.lower()) else value


def apply_overrides(mapping: Mapping[str, str], overrides: Iterable[str]) -> dict[str, str]:
    """Return the mapping with `key=value` texts from the command line added or replaced.

    Raise ConfigError for a text of another form.
    """
    merged = dict(mapping)
    for override in overrides:
        key, equals, value = override.partition("=")
        if not equals or not key.strip():
            raise ConfigError("--override", override, "must be key=value")
        merged[key.strip()] = value.strip()
    return merged


def check_keys(
    mapping: Mapping[str, str], *tables: type, known_unused: Mapping[str, str]
) -> list[str]:
    """Return warnings for keys that have no effect here; raise ConfigError for an unknown key.

    `known_unused` maps Kafka's keys without effect here to the reason. The error suggests the
    nearest known key.
    """
    known = {
        key: None
        for table in tables
        for row in settings_of(table)
        for key in (row.key, *row.aliases)
    }
    warnings: list[str] = []
    for key, value in mapping.items():
        if key in known or key.startswith(PLUGIN_PREFIXES):
            continue
        if key in known_unused:
            warnings.append(f"{key} has no effect: {known_unused[key]}")
            continue
        why = f"unknown key{did_you_mean(key, [*known, *known_unused])}"
        raise ConfigError(key, shown(key, value), why)
    return warnings
