"""Metrics of the process itself, under the names that Prometheus client libraries use.

Most are read from /proc at each scrape, and left out on systems without /proc. The delay of the
event loop must be measured between scrapes too, so it is measured only while a listener is open.
"""

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from typing import Final

from .descriptors import descriptor_limit
from .metrics import Durations, Family, counter, gauge, labels, summary
from .version import VERSION

BEAT_S: Final = 0.1
"""The seconds between two measurements of the event loop's delay."""

_PROC: Final = "/proc/self"
_START_TICKS: Final = 19
"""Index of the start time among the fields of `stat` that follow the process's name."""


class LoopDelay:
    """Measures how late the event loop runs a callback that is due."""

    def __init__(self, now_us: Callable[[], int]) -> None:
        """`now_us` is a monotonic clock in microseconds."""
        self.delays = Durations()
        self._now_us = now_us
        self._due_us = 0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Measure the delay every BEAT_S from now on."""
        self._due_us = self._now_us() + int(BEAT_S * 1_000_000)
        self._timer = asyncio.get_running_loop().call_later(BEAT_S, self._on_beat)

    def _on_beat(self) -> None:
        # A loop's timers count in milliseconds, and may go off a fraction of one early.
        self.delays.record(max(0, self._now_us() - self._due_us))
        self.start()

    def close(self) -> None:
        """Stop measuring."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class ProcessMetrics:
    """Collects what the system reports of this process, and the delay of its event loop."""

    def __init__(self, delay: LoopDelay, now_ms: Callable[[], int]) -> None:
        """`now_ms` is the monotonic clock for the time windows of the delay's quantiles."""
        self._delay = delay
        self._now_ms = now_ms
        self._build = ((labels(version=VERSION), 1),)
        self._has_proc = os.path.exists(_PROC)
        # Read only once, because a change of the clock must not look like a restart.
        self._started = _start_time() if self._has_proc else 0.0

    def __call__(self) -> Iterator[Family]:
        """Return all metrics, as read now."""
        yield gauge(
            "minikafka_build_info", "1, with the version that is running as a label.", self._build
        )
        yield summary(
            "minikafka_event_loop_delay_ms",
            "Milliseconds by which the event loop runs a callback later than it is due.",
            (("", self._delay.delays),),
            self._now_ms(),
        )
        times = os.times()
        seconds = times.user + times.system
        cpu_help = "Seconds of CPU that the process has used, in user and system mode."
        yield counter("process_cpu_seconds", cpu_help, (("", seconds),))
        limit_help = "Files and connections that the process may have open."
        yield gauge("process_max_fds", limit_help, descriptor_limit())
        if self._has_proc:
            yield from self._from_proc()

    def _from_proc(self) -> Iterator[Family]:
        help_text = "The time when the process started, in seconds since the Unix epoch."
        yield gauge("process_start_time_seconds", help_text, self._started)
        virtual, resident = map(int, _read("statm").split()[:2])
        page = os.sysconf("SC_PAGE_SIZE")
        help_text = "Bytes of memory that the process has in RAM."
        yield gauge("process_resident_memory_bytes", help_text, resident * page)
        help_text = "Bytes of memory that the process has mapped."
        yield gauge("process_virtual_memory_bytes", help_text, virtual * page)
        yield gauge("process_open_fds", "Files and connections that are open.", _open_count())


def _open_count() -> int:
    """Count open descriptors. From Linux 6.2 on stat returns the number, so no list is made."""
    path = f"{_PROC}/fd"
    return os.stat(path).st_size or len(os.listdir(path))


def _start_time() -> float:
    # The process's name may hold blanks and parentheses; it ends at the last of these.
    fields = _read("stat").rpartition(")")[2].split()
    since_boot = int(fields[_START_TICKS]) / os.sysconf("SC_CLK_TCK")
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + since_boot


def _read(name: str) -> str:
    with open(f"{_PROC}/{name}", encoding="utf-8", errors="replace") as file:
        return file.read()
