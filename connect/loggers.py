"""The loggers of a worker and their levels, read and set while it runs (KIP-495).

A level set here lasts until the worker ends. Levels that were in force before are not kept.
"""

from typing import Final

from ..runtime.log_levels import LEVELS, ROOT, LogLevels
from ..runtime.runtime import Runtime
from .herding import BadRequest, Json, NotFound

MOST_LOGGERS: Final = 10_000
"""The most loggers of a process; a request may not add one beyond them."""


class Loggers:
    """The loggers of this process by name, each with its level and the time of its last change."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._changed: dict[str, int] = {}

    @property
    def _levels(self) -> LogLevels:
        return self._runtime.log_levels

    def listing(self) -> Json:
        """Return {logger: {level, last_modified}}, sorted; last_modified is null if unchanged."""
        return {
            name: {"level": level, "last_modified": self._changed.get(name)}
            for name, level in self._levels.in_force().items()
        }

    def set(self, namespace: str, level: str) -> list[str]:
        """Set the level of a logger and of all below it; return those that changed, sorted.

        A logger that does not exist is made, so that its level is set before its module is loaded.
        Raise NotFound for an unknown level, BadRequest if there are too many loggers.
        """
        if level not in LEVELS:
            raise NotFound(f"invalid log level; the levels are {', '.join(LEVELS)}")
        before = self._levels.in_force()
        namespace = ROOT if namespace.lower() == ROOT else namespace
        if namespace not in before and len(before) >= MOST_LOGGERS:
            raise BadRequest(f"There are {len(before)} loggers, and no more can be made")
        below = [name for name in before if name.startswith(f"{namespace}.")]
        for name in list(before) if namespace == ROOT else [namespace, *below]:
            self._levels.set(name, level)
        after = self._levels.in_force()
        changed = sorted(name for name in after if after[name] != before.get(name))
        self._changed.update(dict.fromkeys(changed, self._runtime.wall_ms()))
        return changed
