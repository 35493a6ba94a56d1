"""The log of a daemon: its options, its two formats, and its file if it has one."""

import json
import logging
from dataclasses import dataclass
from datetime import UTC, datetime
from logging.handlers import RotatingFileHandler
from typing import Final, Literal

import click

from .config import MiB
from .errors import ConfigError
from .log_levels import LEVELS, ROOT, LogLevels
from .spelling import did_you_mean

OPTIONS: Final = (
    click.Option(
        ["--log-level"],
        multiple=True,
        metavar="[LOGGER=]LEVEL",
        help="Log from this level on, everywhere (INFO unless set) or in one logger.",
    ),
    click.Option(
        ["--log-format"],
        type=click.Choice(["text", "json"]),
        default="text",
        help="How lines look.",
    ),
    click.Option(["--log-file"], metavar="PATH", help="Log here, not to standard error."),
    click.Option(
        ["--log-file-bytes"],
        type=click.IntRange(min=1024),
        default=100 * MiB,
        show_default=True,
        help="Begin a new file at this size.",
    ),
    click.Option(
        ["--log-file-count"],
        type=click.IntRange(1, 1000),
        default=10,
        show_default=True,
        help="Older files that are kept: PATH.1 is the newest of them.",
    ),
)
"""The options on a daemon's command line that set LogSettings."""


@dataclass(frozen=True, slots=True)
class LogSettings:
    """The values of OPTIONS."""

    log_level: tuple[str, ...]
    log_format: Literal["text", "json"]
    log_file: str | None
    log_file_bytes: int
    log_file_count: int


class OneLine(logging.Formatter):
    """Formats a record as one line, tracebacks too, because tools read the log."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")
        self.default_msec_format = "%s.%03d"

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, with ` | ` in place of line ends."""
        return super().format(record).replace("\n", " | ")


class OneObject(logging.Formatter):
    """Formats a record as one JSON object in a line of ASCII; `ts` is UTC, as in RFC 3339."""

    def __init__(self, node: str) -> None:
        super().__init__()
        self._node = node

    def format(self, record: logging.LogRecord) -> str:
        """Return the line; `exception` is in it only if the record has a traceback."""
        when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        told = {
            "ts": when.replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            "node": self._node,
            "message": record.getMessage(),
        }
        if record.exc_info:
            told["exception"] = self.formatException(record.exc_info)
        return json.dumps(told)


def set_up_logging(node: str, settings: LogSettings) -> None:
    """Send every log record of this process to the output in `settings`.

    `node` is the name of the process in JSON. Raises ConfigError for an unknown level or logger,
    and for a file that cannot be written.
    """
    handler = _handler(settings)
    handler.setFormatter(OneObject(node) if settings.log_format == "json" else OneLine())
    logging.addLevelName(LEVELS["TRACE"], "TRACE")
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    levels = LogLevels(logging.root.manager)
    for text in settings.log_level:
        _set_level(levels, text)


def _handler(settings: LogSettings) -> logging.Handler:
    path = settings.log_file
    if path is None:
        return logging.StreamHandler()
    try:
        return RotatingFileHandler(
            path,
            maxBytes=settings.log_file_bytes,
            backupCount=settings.log_file_count,
            encoding="utf-8",
            errors="backslashreplace",
        )
    except OSError as error:
        raise ConfigError("--log-file", path, error.strerror or str(error)) from None


def _set_level(levels: LogLevels, text: str) -> None:
    name, equals, level = text.rpartition("=")
    if not equals:
        name = ROOT
    level = level.upper()
    if level not in LEVELS:
        raise ConfigError("--log-level", text, f"levels are {', '.join(LEVELS)}")
    if name not in levels:
        why = f"there is no logger {name}{did_you_mean(name, levels.in_force())}"
        raise ConfigError("--log-level", text, why)
    levels.set(name, level)
