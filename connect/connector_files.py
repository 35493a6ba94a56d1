"""Connectors in files, one to a file: properties as in Kafka, or JSON.

JSON is either the body of `POST /connectors`, {name, config, initial_state}, or the configuration
alone with `name` in it (KIP-1004's successor in Kafka 3.8 reads both).
"""

import json
from pathlib import Path
from typing import Final, NamedTuple

from ..runtime.config import parse_properties
from ..runtime.errors import ConfigError
from .states import TargetState

SUFFIXES: Final = (".json", ".properties")
MOST_BYTES: Final = 1024 * 1024
STATES: Final = {
    "RUNNING": TargetState.STARTED,
    "PAUSED": TargetState.PAUSED,
    "STOPPED": TargetState.STOPPED,
}
"""The states that a connector can be created in (KIP-980)."""


class ConnectorFile(NamedTuple):
    """The connector that a file describes."""

    name: str
    config: dict[str, str]
    """The configuration, with `name`."""
    state: str
    """One of STATES."""


def read_connector(path: Path) -> ConnectorFile:
    """Read one file. Raise ConfigError, which names the file, if it describes no connector."""
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise ConfigError(str(path), None, error.strerror or str(error)) from None
    if len(data) > MOST_BYTES:
        raise ConfigError(
            str(path), None, f"has more than {MOST_BYTES} bytes: this is no connector"
        )
    try:
        text = data.decode()
        if path.suffix != ".json":
            return _connector(path, dict[str, object](parse_properties(text)), "RUNNING")
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(str(path), None, f"cannot be read: {error}") from None
    if not isinstance(value, dict):
        raise ConfigError(str(path), None, "must have a JSON object")
    if not isinstance(value.get("config"), dict):
        return _connector(path, value, "RUNNING")
    config = {"name": value.get("name"), **value["config"]}
    return _connector(path, config, str(value.get("initial_state") or "RUNNING").upper())


def read_folder(folder: Path) -> list[ConnectorFile]:
    """Read the files of a folder whose names end as SUFFIXES, sorted by connector.

    Raise ConfigError if two of them describe the same connector.
    """
    found: dict[str, ConnectorFile] = {}
    for path in sorted(folder.iterdir()):
        if path.suffix not in SUFFIXES or not path.is_file():
            continue
        one = read_connector(path)
        if one.name in found:
            raise ConfigError(str(path), None, f"another file describes connector {one.name} too")
        found[one.name] = one
    return [found[name] for name in sorted(found)]


def _connector(path: Path, config: dict[str, object], state: str) -> ConnectorFile:
    texts = {key: _text(path, key, value) for key, value in config.items() if value is not None}
    name = texts.get("name", "").strip()
    if not name:
        raise ConfigError(str(path), None, "has no name of a connector")
    if state not in STATES:
        raise ConfigError(f"{path}: initial_state", state, f"must be one of {', '.join(STATES)}")
    return ConnectorFile(name, {**texts, "name": name}, state)


def _text(path: Path, key: str, value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    raise ConfigError(f"{path}: {key}", None, "must be a text")
