"""The trace of a run: one line per event, and one hash over all events.

Only values are traced, such as times, names, sizes and checksums; never a repr, which may contain
an address.
"""

import hashlib
import struct
import zlib
from collections.abc import Callable

_NOTE = struct.Struct("<qqqd")
"""The number of the event, two values, and the time."""


class Trace:
    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._checksum = 0
        self.lines: list[str] = []
        self.event_count = 0

    def emit(self, who: str, event: str, *fields: object) -> None:
        """Add a line for people: `time who event fields`."""
        text = " ".join(str(field) for field in fields)
        line = f"{self._now() - 1000:11.6f}  {who:<12} {event:<16} {text}".rstrip()
        self.lines.append(line)
        self._checksum = zlib.crc32(line.encode(), self._checksum)
        self.event_count += 1

    def note(self, event: int, a: int = 0, b: int = 0) -> None:
        """Add an event that is too frequent for a line to the hash only, with its time."""
        self._checksum = zlib.crc32(_NOTE.pack(event, a, b, self._now()), self._checksum)
        self.event_count += 1

    def digest(self) -> str:
        text = f"{self.event_count} {self._checksum:08x}\n" + "\n".join(self.lines)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def tail(self, count: int = 200) -> str:
        return "\n".join(self.lines[-count:])
