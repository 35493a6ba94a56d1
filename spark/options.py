"""The common part of source and sink options: their errors, and the formats of values.

Pure: strings are turned into values, with OptionError for wrong ones. An unknown option is refused,
not ignored, because a misspelt name would skip records silently. Spark passes the names of options
in lower case.
"""

import difflib
import json
import re
from collections.abc import Mapping
from typing import Any, Final

from ..client.config import ConsumerConfig, ProducerConfig, configured
from ..runtime.errors import ConfigError, MinikafkaError

EARLIEST: Final = -2
"""Stands for the first readable offset in a JSON of offsets."""
LATEST: Final = -1
"""Stands for the offset of the next record in a JSON of offsets."""

LARGEST: Final = 2**63 - 1
"""The largest offset, time or count: each is an int64."""

Offsets = dict[str, dict[int, int]]
"""Offsets by topic and partition."""

CLIENT_OWN: Final = "kafka."
"""The prefix of the options that are settings of the client."""
_OURS_TO_SET: Final = {
    "kafka.auto.offset.reset": "say where to start by startingOffsets or startingTimestamp",
    "kafka.enable.auto.commit": "offsets are kept in the checkpoint; see commitOffsetsGroup",
    "kafka.interceptor.classes": "Java classes that may change records do not run here",
    "kafka.key.deserializer": "keys are binary; convert the column",
    "kafka.key.serializer": "keys are written as they are; convert the column",
    "kafka.partitioner.class": "a Java class does not run here; give a column partition",
    "kafka.value.deserializer": "values are binary; convert the column",
    "kafka.value.serializer": "values are written as they are; convert the column",
}
_JVM_CACHES: Final = "spark.kafka."
"""The prefix of settings of the JVM connector's caches, which belong to a session, not a query."""
_SPARKS_OWN: Final = ("checkpointlocation", "outputmode", "queryname")
"""Options that Spark itself adds to those of a streaming query."""


class OptionError(MinikafkaError, ValueError):
    """An option that is missing, wrong, or contradicts another.

    `value` is None if the option is missing or its value is a secret.
    """

    def __init__(self, option: str, value: object, why: str) -> None:
        shown = f"option {option!r}" if value is None else f"option {option!r} = {value!r}"
        super().__init__(f"{shown}: {why}")
        self.option = option


def lower_names(options: Mapping[str, str]) -> dict[str, str]:
    """Return options as Spark passes them: names in lower case, values unchanged."""
    return {name.lower(): value for name, value in options.items()}


def check_names(options: Mapping[str, str], known: tuple[str, ...]) -> None:
    """Raise OptionError for an unknown name, and suggest the nearest known one."""
    by_lower = {name.lower(): name for name in known}
    for name, value in options.items():
        if name in by_lower or name in _SPARKS_OWN or name.startswith(CLIENT_OWN):
            continue
        if name.startswith(_JVM_CACHES):
            raise OptionError(name, value, "each Python worker keeps its own connections")
        nearest = difflib.get_close_matches(name, by_lower, n=1)
        hint = f"; did you mean {by_lower[nearest[0]]}?" if nearest else ""
        raise OptionError(name, value, f"unknown option{hint}")


def client_settings(
    options: Mapping[str, str], table: type[ConsumerConfig] | type[ProducerConfig]
) -> dict[str, str]:
    """Return the kafka.* options without their prefix.

    Raise OptionError for one that a client would refuse, or that is not the user's to set.
    """
    for name, value in options.items():
        if name in _OURS_TO_SET:
            raise OptionError(name, value, _OURS_TO_SET[name])
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
    """Read a JSON object, whose names are topics; raise OptionError if it is none."""
    twice: list[str] = []

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        if len(made) < len(pairs):
            names = [name for name, _ in pairs]
            twice.extend(name for name in made if names.count(name) > 1)
        return made

    try:
        value = json.loads(text, object_pairs_hook=once)
    except json.JSONDecodeError as error:
        raise OptionError(option, text, f"not JSON: {error}") from error
    if not isinstance(value, dict):
        raise OptionError(option, text, "a JSON object of topics is needed")
    if twice:
        raise OptionError(option, text, f"names {', '.join(map(repr, twice))} twice")
    return value


def is_partition(text: str) -> bool:
    """True if the text is a partition number without leading zeros, since 00 would repeat 0."""
    return text.isascii() and text.isdecimal() and str(int(text)) == text


def flag(options: Mapping[str, str], option: str, *, default: bool) -> bool:
    """Read an option that is true or false; raise OptionError for other texts."""
    text = options.get(option.lower())
    if text is None:
        return default
    if text.strip().lower() not in ("true", "false"):
        raise OptionError(option, text, "write true or false")
    return text.strip().lower() == "true"


def whole_number(options: Mapping[str, str], option: str, *, at_least: int) -> int | None:
    """Read a whole number; None if the option is not given.

    Raise OptionError if it is wrong or too small.
    """
    text = options.get(option.lower())
    if text is None:
        return None
    try:
        number = int(text)
    except ValueError:
        number = at_least - 1
    if not at_least <= number <= LARGEST:
        raise OptionError(option, text, f"a whole number of at least {at_least} is needed")
    return number


_UNITS_MS: Final = {
    "": 1,
    "ms": 1,
    "s": 1000,
    "m": 60_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
}


def milliseconds(options: Mapping[str, str], option: str, *, default: int) -> int:
    """Read a time as Spark writes it: 500ms, 30s, 15m, 1h, 2d; a bare number is milliseconds.

    Raise OptionError for another text.
    """
    text = options.get(option.lower())
    if text is None:
        return default
    found = re.fullmatch(r"([0-9]+)\s*([a-z]*)", text.strip().lower())
    if found is None or found[2] not in _UNITS_MS:
        raise OptionError(option, text, "write a time such as 500ms, 30s, 15m, 1h or 2d")
    return int(found[1]) * _UNITS_MS[found[2]]
