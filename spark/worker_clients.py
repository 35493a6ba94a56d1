"""Clients that outlive a task, because Spark uses a Python worker again for later tasks.

This module decides how long clients are kept, in which process, and which settings they get; their
callers decide what they do. Only one thread at a time may use it; a worker has only one.
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
    """The clients used last, closed with the process; a forked process gets its own."""

    def __init__(self) -> None:
        self.kept: dict[tuple[int, K], C] = {}
        """The clients by process and key; those used last are at the end."""
        atexit.register(self.close)

    def get(self, key: K, make: Callable[[], C]) -> C:
        """Find or make the clients for a key; beyond MOST the least recently used are closed."""
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
    """Return the settings that a client of this configuration table has."""
    known = {row.key for row in settings_of(table)}
    return {key: value for key, value in settings.items() if key in known}
