"""The test's side of shim.c: builds it, and holds the page that tells it what to do."""

import mmap
import struct
from pathlib import Path

from .network import run

SOURCE = Path(__file__).with_name("shim.c")
_PAGE = struct.Struct("=qqqq")
"""Wall clock offset (ns), delay of a sync (us), its errno, how many were hit."""


def build(directory: Path) -> Path:
    """Compile the library once into a directory."""
    library = directory / "shim.so"
    if not library.exists():
        flags = ("-shared", "-fPIC", "-O2", "-Wall", "-Werror")
        run("cc", *flags, "-o", str(library), str(SOURCE), "-ldl")
    return library


class Shim:
    """The faults inside one node; they outlast restarts of its process."""

    def __init__(self, library: Path, page: Path) -> None:
        page.write_bytes(bytes(mmap.PAGESIZE))
        with page.open("r+b") as file:
            self._page = mmap.mmap(file.fileno(), mmap.PAGESIZE)
        self.environment = {"LD_PRELOAD": str(library), "CHAOS_PAGE": str(page)}

    def jump_clock(self, seconds: float) -> None:
        """Set the wall clock this far from the real one."""
        self._set(0, int(seconds * 1e9))

    def slow_syncs(self, milliseconds: int) -> None:
        """Let every sync take this much longer; 0 ends it."""
        self._set(1, milliseconds * 1000)

    def fail_syncs(self, number: int) -> None:
        """Let every sync fail with this errno; 0 ends it."""
        self._set(2, number)

    @property
    def syncs_hit(self) -> int:
        """Syncs that were delayed or failed so far."""
        return int(_PAGE.unpack_from(self._page)[3])

    def _set(self, index: int, value: int) -> None:
        struct.pack_into("=q", self._page, index * 8, value)
