"""The levels of a process's loggers by Kafka's names (KIP-412), read and changed while it runs.

A change lasts until the process ends. Only existing loggers can be changed.
"""

import logging
from typing import Final

ROOT: Final = "root"
"""Kafka's name for the root logger."""
LEVELS: Final = {"TRACE": 5, "DEBUG": 10, "INFO": 20, "WARN": 30, "ERROR": 40, "FATAL": 50}
"""Python's number of each level, from the most verbose to the least."""


class LogLevels:
    """The loggers of one process, each with its effective level.

    A package is a logger too: its level applies to those of its modules that have no level of their
    own.
    """

    def __init__(self, manager: logging.Manager) -> None:
        self._manager = manager

    def in_force(self) -> dict[str, str]:
        """Return the effective level of each logger, by name."""
        names = [ROOT, *self._manager.loggerDict]
        return {name: _name_of(self._logger(name).getEffectiveLevel()) for name in sorted(names)}

    def __contains__(self, name: str) -> bool:
        """True if a logger of this name exists."""
        return name == ROOT or name in self._manager.loggerDict

    def set(self, name: str, level: str) -> None:
        """Set the level, one of LEVELS, of an existing logger."""
        self._logger(name).setLevel(LEVELS[level])

    def unset(self, name: str) -> None:
        """Remove a logger's own level, so that its package's level applies; not for the root."""
        self._logger(name).setLevel(logging.NOTSET)

    def _logger(self, name: str) -> logging.Logger:
        return self._manager.root if name == ROOT else self._manager.getLogger(name)


def _name_of(number: int) -> str:
    return next((name for name in reversed(LEVELS) if LEVELS[name] <= number), "TRACE")
