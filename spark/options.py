"""What the options of source and sink have in common: their errors, and how values are written.

Pure: strings in, values out, OptionError for what makes no sense. An option that nobody reads is
refused, not ignored: a misspelt name would skip records silently. Spark hands options over with
lower-case names.
"""

import difflib
import json
from collections.abc import Mapping
from typing import Any, Final

from ..client.config import ConsumerConfig, ProducerConfig, configured
from ..runtime.errors import ConfigError, MinikafkaError

EARLIEST: Final = -2
"""In a JSON of offsets: the first offset there is."""
LATEST: Final = -1
"""In a JSON of offsets: the offset that the next record gets."""

Offsets = dict[str, dict[int, int]]
"""Topic -> partition -> offset."""

CLIENT_OWN: Final = "kafka."
"""What begins so is a setting of the client."""
_OURS_TO_SET: Final = (
    "kafka.auto.offset.reset",
    "kafka.enable.auto.commit",
    "kafka.interceptor.classes",
    "kafka.key.deserializer",
    "kafka.key.serializer",
    "kafka.value.deserializer",
    "kafka.value.serializer",
)
_SPARKS_OWN: Final = ("checkpointlocation", "outputmode", "queryname")
"""Spark keeps these among the options of a streaming query."""


class OptionError(MinikafkaError, ValueError):
    """An option that is missing, wrong, or contradicts another."""

    def __init__(self, option: str, value: object, why: str) -> None:
        super().__init__(f"option {option!r} = {value!r}: {why}")
        self.option = option


def lower_names(options: Mapping[str, str]) -> dict[str, str]:
    """Give options as Spark hands them over: names in lower case, values as they are."""
    return {name.lower(): value for name, value in options.items()}


def check_names(options: Mapping[str, str], known: tuple[str, ...]) -> None:
    """Refuse names that nobody reads, with the nearest one that is read."""
    by_lower = {name.lower(): name for name in known}
    for name, value in options.items():
        if name in by_lower or name in _SPARKS_OWN or name.startswith(CLIENT_OWN):
            continue
        nearest = difflib.get_close_matches(name, by_lower, n=1)
        hint = f"; did you mean {by_lower[nearest[0]]}?" if nearest else ""
        raise OptionError(name, value, f"unknown option{hint}")


def client_settings(
    options: Mapping[str, str], table: type[ConsumerConfig] | type[ProducerConfig]
) -> dict[str, str]:
    """Give the kafka.* options without their prefix; refuse what the client would refuse."""
    for name in _OURS_TO_SET:
        if name in options:
            raise OptionError(name, options[name], "this source and sink set it themselves")
    client = {
        name.removeprefix(CLIENT_OWN): value
        for name, value in sorted(options.items())
        if name.startswith(CLIENT_OWN)
    }
    if not client.get("bootstrap.servers", "").strip():
        raise OptionError(
            "kafka.bootstrap.servers", client.get("bootstrap.servers"), "give HOST:PORT,HOST:PORT"
        )
    try:
        configured(table, None, client)
    except ConfigError as error:
        raise OptionError(CLIENT_OWN + error.key, error.value, error.why) from error
    return client


def json_object(option: str, text: str) -> dict[str, Any]:
    """Read a JSON object, whose names are topics."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise OptionError(option, text, f"not JSON: {error}") from error
    if not isinstance(value, dict):
        raise OptionError(option, text, "a JSON object of topics is needed")
    return value


def flag(options: Mapping[str, str], option: str, *, default: bool) -> bool:
    """Read true or false."""
    text = options.get(option.lower())
    if text is None:
        return default
    if text.strip().lower() not in ("true", "false"):
        raise OptionError(option, text, "write true or false")
    return text.strip().lower() == "true"


def whole_number(options: Mapping[str, str], option: str, *, at_least: int) -> int | None:
    """Read a whole number; None when the option is not given."""
    text = options.get(option.lower())
    if text is None:
        return None
    try:
        number = int(text)
    except ValueError:
        number = at_least - 1
    if number < at_least:
        raise OptionError(option, text, f"a whole number of at least {at_least} is needed")
    return number
