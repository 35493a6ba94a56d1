"""The table of a plugin's configuration keys, and what is wrong with given values.

The table is answered by `PUT /connector-plugins/{plugin}/config/validate`; user interfaces
make forms of it (org.apache.kafka.common.config.ConfigDef; KIP-26). Values are texts, as in a
properties file.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from ..runtime.errors import MinikafkaError

NO_DEFAULT: Any = object()
"""The default of a key that must be given."""

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1
HIDDEN = "[hidden]"
"""Shown in place of a password."""


class ConfigType(Enum):
    """The types of values, by their names in Connect's REST API."""

    BOOLEAN = "BOOLEAN"
    STRING = "STRING"
    INT = "INT"
    SHORT = "SHORT"
    LONG = "LONG"
    DOUBLE = "DOUBLE"
    LIST = "LIST"
    CLASS = "CLASS"
    PASSWORD = "PASSWORD"


class Importance(Enum):
    """How much a key matters to most users."""

    HIGH = "HIGH"
    MEDIUM = "MEDIUM"
    LOW = "LOW"


class Width(Enum):
    """How wide a form makes the field."""

    NONE = "NONE"
    SHORT = "SHORT"
    MEDIUM = "MEDIUM"
    LONG = "LONG"


class BadConfig(MinikafkaError):
    """A configuration cannot be used; the message names key, value and what is allowed."""


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """One row: a key, its type, and what its value may be."""

    name: str
    type: ConfigType
    doc: str
    default: Any = NO_DEFAULT
    """The parsed value where the key is absent; NO_DEFAULT makes the key required."""
    importance: Importance = Importance.MEDIUM
    choices: tuple[str, ...] = ()
    """The only values, if any; of a LIST, of its items. Offered by forms."""
    at_least: float | None = None
    at_most: float | None = None
    check: Callable[[Any], str | None] | None = None
    """Returns what is wrong with a parsed value, or None."""
    group: str | None = None
    order: int = -1
    width: Width = Width.NONE
    display_name: str | None = None
    dependents: tuple[str, ...] = ()

    @property
    def required(self) -> bool:
        """True if the key has no default."""
        return self.default is NO_DEFAULT

    def parse(self, text: str) -> Any:
        """Return the value of `text`. Raise BadConfig if it breaks the type or the bounds."""
        value = _PARSERS[self.type](
            self, text.strip() if self.type is not ConfigType.PASSWORD else text
        )
        if isinstance(value, int | float) and not isinstance(value, bool):
            least, most = self.at_least, self.at_most
            if (least is not None and value < least) or (most is not None and value > most):
                raise self.refusal(text, f"must be {_bounds(least, most)}")
        for one in value if isinstance(value, list) else [value]:
            if self.choices and one not in self.choices:
                raise self.refusal(text, f"must be one of {', '.join(self.choices)}")
        wrong = self.check(value) if self.check is not None else None
        if wrong is not None:
            raise self.refusal(text, wrong)
        return value

    def refusal(self, text: str, why: str) -> BadConfig:
        """Return the error that names this key and the value, hidden if it is a password."""
        shown = HIDDEN if self.type is ConfigType.PASSWORD else text
        return BadConfig(f"Invalid value {shown} for configuration {self.name}: {why}")


@dataclass(slots=True)
class ConfigValue:
    """Facts about one key of a given configuration (an element of `configs` in REST)."""

    name: str
    value: str | None = None
    recommended_values: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    visible: bool = True


class ConfigDef:
    """A table of keys, in the order in which forms show them."""

    def __init__(self, keys: Iterable[ConfigKey] = ()) -> None:
        self.keys: dict[str, ConfigKey] = {key.name: key for key in keys}

    def __add__(self, other: "ConfigDef") -> "ConfigDef":
        return ConfigDef([*self.keys.values(), *other.keys.values()])

    def groups(self) -> list[str]:
        """Return the groups of the keys, each once, in order."""
        return list(dict.fromkeys(key.group for key in self.keys.values() if key.group))

    def validate(self, props: Mapping[str, str]) -> list[ConfigValue]:
        """Return one ConfigValue per key, with all errors. Keys outside the table are left."""
        return [_validated(key, props.get(key.name)) for key in self.keys.values()]

    def parse(self, props: Mapping[str, str]) -> dict[str, Any]:
        """Return the parsed value of every key. Raise BadConfig with all errors, a line each."""
        errors = [error for value in self.validate(props) for error in value.errors]
        if errors:
            raise BadConfig("\n".join(errors))
        return {
            name: key.parse(props[name]) if props.get(name) is not None else key.default
            for name, key in self.keys.items()
        }


def _validated(key: ConfigKey, text: str | None) -> ConfigValue:
    found = ConfigValue(key.name, text, list(key.choices))
    if text is None:
        if key.required:
            found.errors.append(
                f'Missing required configuration "{key.name}" which has no default value.'
            )
        elif key.default is not None:
            found.value = to_text(key.default)
        return found
    try:
        key.parse(text)
    except BadConfig as error:
        found.errors.append(str(error))
    return found


def to_text(value: Any) -> str:
    """Return the text of which `parse` makes this value."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(value) if isinstance(value, list | tuple) else str(value)


def _bounds(least: float | None, most: float | None) -> str:
    if least is None:
        return f"at most {most}"
    return f"at least {least}" if most is None else f"between {least} and {most}"


def _boolean(key: ConfigKey, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise key.refusal(text, "must be true or false")
    return text.lower() == "true"


def _integer(most: int) -> Callable[[ConfigKey, str], int]:
    def parse(key: ConfigKey, text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise key.refusal(text, f"not a number of type {key.type.value}") from None
        if not -most - 1 <= value <= most:
            raise key.refusal(text, f"not a number of type {key.type.value}")
        return value

    return parse


def _double(key: ConfigKey, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise key.refusal(text, "not a number of type DOUBLE") from None


def _list(key: ConfigKey, text: str) -> Sequence[str]:
    return [part.strip() for part in text.split(",")] if text else []


def _text(key: ConfigKey, text: str) -> str:
    return text


_PARSERS: dict[ConfigType, Callable[[ConfigKey, str], Any]] = {
    ConfigType.BOOLEAN: _boolean,
    ConfigType.STRING: _text,
    ConfigType.CLASS: _text,
    ConfigType.PASSWORD: _text,
    ConfigType.SHORT: _integer(2**15 - 1),
    ConfigType.INT: _integer(INT32_MAX),
    ConfigType.LONG: _integer(INT64_MAX),
    ConfigType.DOUBLE: _double,
    ConfigType.LIST: _list,
}
