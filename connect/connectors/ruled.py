"""Parts of several connectors: rules that span keys, shares of tasks, checks, late imports."""

import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ..api import ConnectError, Props
from ..config_def import ConfigDef, ConfigKey, ConfigValue

Rules = Callable[[Mapping[str, Any]], Mapping[str, str]]
"""Takes the parsed values, and returns what is wrong with which key."""


class RuledDef(ConfigDef):
    """A ConfigDef whose rules are asked once every key by itself is right."""

    def __init__(self, keys: Iterable[ConfigKey], rules: Rules) -> None:
        super().__init__(keys)
        self._rules = rules

    def validate(self, props: Mapping[str, str]) -> list[ConfigValue]:
        """Return one ConfigValue per key, with all errors, those of the rules among them."""
        found = super().validate(props)
        if any(value.errors for value in found):
            return found
        parsed = {
            name: key.parse(props[name]) if props.get(name) is not None else key.default
            for name, key in self.keys.items()
        }
        wrong = self._rules(parsed)
        for value in found:
            if value.name in wrong:
                value.errors.append(f"Invalid configuration {value.name}: {wrong[value.name]}")
        return found


def needed(module: str) -> Any:
    """Import a library that a plain install does not have. Raise ConnectError if it is missing."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ConnectError(
            f"{module} is not installed ({error}); run: pip install 'minikafka[connect]'"
        ) from error


def shares(props: Props, count: int) -> Sequence[Props]:
    """Return the configuration of `count` tasks, each of which knows its share."""
    return [{**props, "task.index": str(index), "task.count": str(count)} for index in range(count)]


def share_of(props: Props) -> tuple[int, int]:
    """Return the number of a task, from 0 on, and how many tasks there are."""
    return int(props.get("task.index", 0)), int(props.get("task.count", 1))


def whole_in(offset: Mapping[str, Any], field: str) -> int:
    """Return a number in a source offset. Raise ConnectError if it is not whole, from 0 on."""
    number = offset.get(field)
    if isinstance(number, bool) or not isinstance(number, int) or number < 0:
        raise ConnectError(
            f'an offset is {{"{field}": NUMBER}} with a whole number from 0 on, not {dict(offset)}'
        )
    return number
