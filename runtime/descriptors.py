"""File descriptors: the limit of the process, and a few that are reserved for the disk.

A process without a free descriptor cannot write a checkpoint, even though its disk works. So
clients must not be able to use up all descriptors.
"""

import errno
import os
import resource
from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

ENOUGH: Final = 1 << 20
SPARE: Final = 16


def descriptor_limit() -> int:
    """Return the most descriptors that the process may have open, but at most ENOUGH."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return ENOUGH if soft == resource.RLIM_INFINITY else min(soft, ENOUGH)


def raise_descriptor_limit() -> int:
    """Raise the soft limit to the hard limit, but at most to ENOUGH; return the new limit.

    The usual soft limit of 1,024 is used up by the files of a few hundred partitions.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = ENOUGH if hard == resource.RLIM_INFINITY else min(hard, ENOUGH)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return descriptor_limit()


def is_exhaustion(error: OSError) -> bool:
    """True if the call failed because this process or the system has too many open descriptors."""
    return error.errno in (errno.EMFILE, errno.ENFILE)


class SpareDescriptors:
    """Descriptors kept open in reserve, to be freed when a call on the disk needs one."""

    def __init__(self, count: int = SPARE) -> None:
        self._count = count
        self._held: list[int] = []

    def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function that opens a descriptor; if none is left, first free the spare ones."""
        self._fill()
        try:
            return function(*args, **kwargs)
        except OSError as error:
            if not is_exhaustion(error) or not self._held:
                raise
        self.close()
        return function(*args, **kwargs)

    def close(self) -> None:
        """Close the spare descriptors; the next call opens as many again as it can get."""
        while self._held:
            os.close(self._held.pop())

    def _fill(self) -> None:
        try:
            while len(self._held) < self._count:
                self._held.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
        except OSError:
            return  # The few that are left stay free for the call.
