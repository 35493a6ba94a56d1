"""The coordinators of groups and transactional ids that an admin has asked and may ask again."""

from typing import Final

from ...protocol.messages.find_coordinator import CoordinatorType
from ...runtime.runtime import Runtime
from ..config import AdminConfig
from ..coordinator import Coordinator
from ..metadata import Metadata

MOST_COORDINATORS: Final = 256
"""This many coordinators are remembered: some are asked once and never again."""


class Coordinators:
    """The coordinators used last, oldest first."""

    def __init__(self, runtime: Runtime, config: AdminConfig, metadata: Metadata) -> None:
        self.known: dict[tuple[CoordinatorType, str], Coordinator] = {}
        self._runtime = runtime
        self._config = config
        self._metadata = metadata

    def of(self, kind: CoordinatorType, key: str) -> Coordinator:
        """Give the coordinator of a key, remembered from now on."""
        coordinator = self.known.pop((kind, key), None) or self.once(kind, key)
        self.known[kind, key] = coordinator
        if len(self.known) > MOST_COORDINATORS:
            # The one that was used longest ago; a question that it is being asked goes on.
            del self.known[next(iter(self.known))]
        return coordinator

    def once(self, kind: CoordinatorType, key: str) -> Coordinator:
        """Give the coordinator of a key that will hardly be asked for again."""
        return Coordinator(self._runtime, self._config, self._metadata, key, kind)
