"""Reads the JSON files of Kafka's tools, with errors that name the option and the place."""

import json
from pathlib import Path
from typing import Any

from ...protocol.types import TopicPartition
from ...runtime.errors import ConfigError


def read_json(path: Path, option: str) -> dict[str, Any]:
    """Return the JSON object in the file.

    Raise ConfigError if the file has no JSON object, or one of another version.
    """
    try:
        found = json.loads(path.read_text())
    except (ValueError, OSError) as error:
        raise ConfigError(option, str(path), f"is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise ConfigError(option, str(path), "must hold an object")
    if found.get("version", 1) != 1:
        raise ConfigError(option, str(path), f"is of version {found['version']}: 1 is known")
    return found


def entries(found: dict[str, Any], key: str, option: str) -> list[dict[str, Any]]:
    """Return the list of objects under `key`.

    Raise ConfigError if the key is missing, or is not a list of objects.
    """
    listed = found.get(key)
    if not isinstance(listed, list) or not all(isinstance(one, dict) for one in listed):
        raise ConfigError(option, json.dumps(found)[:80], f'must hold a list "{key}" of objects')
    if not listed:
        raise ConfigError(option, json.dumps(found)[:80], f'"{key}" is empty')
    return listed


def text_of(entry: dict[str, Any], key: str, option: str) -> str:
    """Return the text under `key`; raise ConfigError if it is missing or not a text."""
    value = entry.get(key)
    if not isinstance(value, str):
        raise ConfigError(option, json.dumps(entry), f'needs a text "{key}"')
    return value


def number_of(entry: dict[str, Any], key: str, option: str) -> int:
    """Return the number under `key`; raise ConfigError if it is missing or not 0 or more."""
    value = entry.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ConfigError(option, json.dumps(entry), f'needs a number "{key}"')
    return value


def topic_partitions(found: dict[str, Any], option: str) -> list[TopicPartition]:
    """Return the topic and partition of each entry of `partitions`, in the file's order."""
    return [
        TopicPartition(text_of(one, "topic", option), number_of(one, "partition", option))
        for one in entries(found, "partitions", option)
    ]
