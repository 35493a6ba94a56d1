"""Keeps the coordinators of groups and transactional ids that an admin has asked recently."""

from typing import Final

from ...protocol.messages.find_coordinator import CoordinatorType
from ...runtime.runtime import Runtime
from ..config import AdminConfig
from ..coordinator import Coordinator
from ..metadata import Metadata

MOST_COORDINATORS: Final = 256
"""The most coordinators that are kept; the least recently used one is dropped."""


class Coordinators:
    """The recently used coordinators, ordered from the least to the most recently used."""

    def __init__(self, runtime: Runtime, config: AdminConfig, metadata: Metadata) -> None:
        self.known: dict[tuple[CoordinatorType, str], Coordinator] = {}
        self._runtime = runtime
        self._config = config
        self._metadata = metadata

    def of(self, kind: CoordinatorType, key: str) -> Coordinator:
        """Return the coordinator of a key, as the most recently used one."""
        coordinator = self.known.pop((kind, key), None) or self.once(kind, key)
        self.known[kind, key] = coordinator
        if len(self.known) > MOST_COORDINATORS:
            # The least recently used one; a request to it that is under way continues.
            del self.known[next(iter(self.known))]
        return coordinator

    def once(self, kind: CoordinatorType, key: str) -> Coordinator:
        """Return a new coordinator of a key, and do not keep it."""
        return Coordinator(self._runtime, self._config, self._metadata, key, kind)
