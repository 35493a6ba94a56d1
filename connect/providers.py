"""Config providers: `${file:path:key}`, `${env:KEY}` and `${dir:path:file}` in configurations.

Workers resolve them when a connector or a task starts, so that the config topic, the REST API and
logs have the references alone (KIP-297; org.apache.kafka.common.config.provider). A text that may
repeat a resolved value passes through `hide` before anybody sees it.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from ..runtime.config import parse_properties
from ..runtime.errors import MinikafkaError
from .chain import Find, Props, behind, names, taken
from .config_def import HIDDEN, BadConfig, ConfigDef, ConfigKey, ConfigType
from .transforms.patterns import full_matcher, is_no_pattern

MAX_BYTES = 1 << 20
"""The largest file that is read."""

_REFERENCE = re.compile(r"\$\{([^}:]*):(?:([^}]*):)?([^}:]*)\}")
_SHORTEST_HIDDEN = 4
"""Shorter values are in too many innocent words; a secret is longer."""

_ALLOWED = ConfigKey(
    "allowed.paths",
    ConfigType.LIST,
    "The files and directories that may be read, with what is below; empty for all (KIP-993).",
    [],
)


class ConfigProvider:
    """Looks values up. It may block for as long as a file takes to be read."""

    config: ClassVar[ConfigDef] = ConfigDef()

    def configure(self, params: Mapping[str, str]) -> None:
        """Take the settings behind `config.providers.NAME.param.`."""
        self.config.parse(params)

    def get(self, path: str, key: str) -> str | None:
        """Return the value of `key` at `path`, or None if there is none. Raise BadConfig."""
        raise NotImplementedError


class _Files(ConfigProvider):
    config = ConfigDef([_ALLOWED])

    def configure(self, params: Mapping[str, str]) -> None:
        """Take the paths that may be read."""
        self._allowed = [
            Path(each).resolve() for each in self.config.parse(params)["allowed.paths"]
        ]

    def _read(self, path: Path) -> str:
        """Return the text of a file; links count as what they lead to."""
        real = path.resolve()
        if self._allowed and not any(real.is_relative_to(each) for each in self._allowed):
            raise BadConfig(f"{path} is not below allowed.paths")
        try:
            with real.open("rb") as file:
                data = file.read(MAX_BYTES + 1)
            if len(data) > MAX_BYTES:
                raise BadConfig(f"{path} is larger than {MAX_BYTES} bytes")
            return data.decode()
        except OSError as error:
            raise BadConfig(f"{path} cannot be read: {error.strerror}") from None
        except UnicodeDecodeError:
            raise BadConfig(f"{path} is no UTF-8") from None


class FileProvider(_Files):
    """Values of a properties file: `${file:/etc/db.properties:password}`."""

    def get(self, path: str, key: str) -> str | None:
        """Return the value of a key of the file."""
        try:
            return parse_properties(self._read(Path(path))).get(key)
        except MinikafkaError as error:
            if isinstance(error, BadConfig):
                raise
            raise BadConfig(f"{path} is no properties file") from None


class DirProvider(_Files):
    """Whole files of a directory, as Kubernetes mounts secrets: `${dir:/etc/secrets:password}`."""

    def get(self, path: str, key: str) -> str | None:
        """Return the text of the file `key` in the directory `path`."""
        if not key or "/" in key or key in (".", ".."):
            raise BadConfig(f"{key!r} is no name of a file")
        file = Path(path) / key
        return self._read(file) if file.is_file() else None


class EnvProvider(ConfigProvider):
    """Environment variables of the worker: `${env:DB_PASSWORD}` (KIP-887)."""

    config = ConfigDef(
        [
            ConfigKey(
                "allowlist.pattern",
                ConfigType.STRING,
                "A regular expression of the names that may be read.",
                ".*",
                check=is_no_pattern,
            )
        ]
    )

    def configure(self, params: Mapping[str, str]) -> None:
        """Take the pattern of names."""
        self._pattern = full_matcher(self.config.parse(params)["allowlist.pattern"])

    def get(self, path: str, key: str) -> str | None:
        """Return the value of a variable."""
        if path:
            raise BadConfig("the path must be empty, as in ${env:NAME}")
        return os.environ.get(key) if self._pattern(key) else None


class ConfigProviders:
    """The providers of a worker, from `config.providers` and `config.providers.NAME.class`."""

    def __init__(self, worker_props: Props, find: Find) -> None:
        """Make the providers. Raise BadConfig, or what `find` raises."""
        self._providers: dict[str, ConfigProvider] = {}
        self._secrets: dict[str, None] = {}
        for name in names(worker_props, "config.providers"):
            prefix = f"config.providers.{name}."
            cls = worker_props.get(f"{prefix}class", "").strip()
            if not cls:
                raise BadConfig(f'Missing required configuration "{prefix}class"')
            provider = find(cls, "config_provider")()
            taken(prefix, provider.configure, behind(worker_props, f"{prefix}param."))
            self._providers[name] = provider

    def resolve(self, props: Props) -> dict[str, str]:
        """Return the configuration with values in place of references, each looked up once.

        A reference to a provider that the worker does not have stays as it is, as in Kafka. One
        that has no value raises BadConfig, which names the key and the reference.
        """
        return {key: self._resolved(key, text) for key, text in props.items()}

    def hide(self, text: str) -> str:
        """Return a text with a mark in place of each value that was looked up."""
        for secret in sorted(self._secrets, key=len, reverse=True):
            text = text.replace(secret, HIDDEN)
        return text

    def _resolved(self, key: str, text: str) -> str:
        def value(match: re.Match[str]) -> str:
            provider = self._providers.get(match[1])
            if provider is None:
                return match[0]
            try:
                found = provider.get(match[2] or "", match[3])
            except BadConfig as error:
                raise BadConfig(f"{key}: {match[0]}: {error}") from None
            if found is None:
                raise BadConfig(f"{key}: {match[0]} has no value")
            if len(found) >= _SHORTEST_HIDDEN:
                self._secrets[found] = None
            return found

        return _REFERENCE.sub(value, text)
