"""Clients that outlive a task: one set for each use in a Python worker, which Spark uses again.

Owns how long they are kept, in which process, and which settings a client is given; what they are
for is decided by who makes them. One thread at a time, as in a worker.
"""

import atexit
import os
from collections.abc import Callable, Hashable, Mapping
from typing import Final, Generic, Protocol, TypeVar

from ..runtime.config import settings_of

MOST: Final = 8


class Closing(Protocol):
    """An object whose connections can be closed."""

    def close(self) -> None:
        """Close the connections."""


K = TypeVar("K", bound=Hashable)
C = TypeVar("C", bound=Closing)


class WorkerClients(Generic[K, C]):
    """The newest few, closed with the process; a forked one gets clients of its own."""

    def __init__(self) -> None:
        self.kept: dict[tuple[int, K], C] = {}
        """The clients by process and key; those used last are at the end."""
        atexit.register(self.close)

    def get(self, key: K, make: Callable[[], C]) -> C:
        """Find or make the clients for a key; beyond MOST the longest unused are closed."""
        place = (os.getpid(), key)
        clients = self.kept.pop(place, None) or make()
        self.kept[place] = clients
        mine = [other for other in self.kept if other[0] == os.getpid()]
        if len(mine) > MOST:
            self.kept.pop(mine[0]).close()
        return clients

    def close(self) -> None:
        """Close the clients of this process; forget those that a parent process made."""
        while self.kept:
            (process, _), clients = self.kept.popitem()
            if process == os.getpid():
                clients.close()


def known_to(table: type, settings: Mapping[str, str]) -> dict[str, str]:
    """Leave out the settings that a client does not have, by its table."""
    known = {row.key for row in settings_of(table)}
    return {key: value for key, value in settings.items() if key in known}
