"""Configs: each setting in force, where it was set, and the value it would have otherwise. Pure."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import unescape
from typing import Final

from ....client.admin.config_types import ConfigEntry
from ....protocol.messages.describe_configs import ConfigSource
from .words import UNKNOWN

_TAG: Final = re.compile(r"</?[a-zA-Z][^>]*>")
ORIGINS: Final = {
    ConfigSource.TOPIC_CONFIG: "this topic",
    ConfigSource.DYNAMIC_BROKER_CONFIG: "this broker, while it ran",
    ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG: "all brokers, while they ran",
    ConfigSource.STATIC_BROKER_CONFIG: "the broker's file",
    ConfigSource.DEFAULT_CONFIG: "the default",
}


@dataclass(frozen=True, slots=True)
class ConfigRow:
    """One setting."""

    name: str
    value: str
    origin: str
    is_changed: bool
    """True if the setting is not at its default."""
    current: str
    """The value as a form takes it; empty if it is a secret or not set."""
    default: str
    """The value that would be in force if this one were not set; a dash if it is unknown."""
    is_read_only: bool
    documentation: str


@dataclass(frozen=True, slots=True)
class ConfigsView:
    """The settings of a topic, of a broker or of all brokers."""

    of: str
    """The owner of the settings: topic:NAME, broker:ID, or broker: for all brokers."""
    rows: tuple[ConfigRow, ...]
    changed: int
    query: str
    only_changed: bool
    brokers: tuple[int, ...]
    command: tuple[str, ...]


def config_rows(
    entries: Mapping[str, ConfigEntry], query: str, *, only_changed: bool
) -> tuple[ConfigRow, ...]:
    """List settings by name, changed ones first."""
    wanted = query.strip().lower()
    rows = [_row(entries[name]) for name in sorted(entries) if wanted in name.lower()]
    kept = [row for row in rows if row.is_changed or not only_changed]
    return tuple(sorted(kept, key=lambda row: not row.is_changed))


def _row(entry: ConfigEntry) -> ConfigRow:
    return ConfigRow(
        entry.name,
        "secret" if entry.is_sensitive else UNKNOWN if entry.value is None else entry.value,
        ORIGINS.get(entry.source, "elsewhere"),
        not entry.is_default,
        "" if entry.is_sensitive else entry.value or "",
        _default_of(entry.synonyms),
        entry.is_read_only,
        _plain(entry.documentation or ""),
    )


def _plain(text: str) -> str:
    """Return text without markup, which Apache Kafka's documentation has."""
    return unescape(_TAG.sub("", text))


def _default_of(synonyms: Sequence[tuple[str, str | None, ConfigSource]]) -> str:
    found = [value for _, value, source in synonyms if source is ConfigSource.DEFAULT_CONFIG]
    return found[0] if found and found[0] is not None else UNKNOWN
