"""The levels of a process's loggers by Kafka's names (KIP-412), read and changed while it runs.

A change lasts until the process ends. Loggers are never made here: their number is that of modules.
"""

import logging
from typing import Final

ROOT: Final = "root"
"""Kafka's name of the logger that all others are below."""
LEVELS: Final = {"TRACE": 5, "DEBUG": 10, "INFO": 20, "WARN": 30, "ERROR": 40, "FATAL": 50}
"""Python's number of each level, from the most to the least that is said."""


class LogLevels:
    """The loggers of one process, each with the level in force.

    A package is a logger too: its level holds for the modules in it that have none of their own.
    """

    def __init__(self, manager: logging.Manager) -> None:
        self._manager = manager

    def in_force(self) -> dict[str, str]:
        """Give the level in force of each logger, by name."""
        names = [ROOT, *self._manager.loggerDict]
        return {name: _name_of(self._logger(name).getEffectiveLevel()) for name in sorted(names)}

    def __contains__(self, name: str) -> bool:
        """True for a logger that there is."""
        return name == ROOT or name in self._manager.loggerDict

    def set(self, name: str, level: str) -> None:
        """Give an existing logger a level of its own, one of LEVELS."""
        self._logger(name).setLevel(LEVELS[level])

    def unset(self, name: str) -> None:
        """Take back an existing logger's own level: its package's holds. Never for the root."""
        self._logger(name).setLevel(logging.NOTSET)

    def _logger(self, name: str) -> logging.Logger:
        return self._manager.root if name == ROOT else self._manager.getLogger(name)


def _name_of(number: int) -> str:
    return next((name for name in reversed(LEVELS) if LEVELS[name] <= number), "TRACE")
