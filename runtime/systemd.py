"""Reports to systemd that a daemon is ready, alive or stopping, if systemd started it.

Source: sd_notify(3), sd_watchdog_enabled(3). A report that cannot be sent is dropped: systemd then
acts by its own deadlines.
"""

import asyncio
import contextlib
import os
import socket
from collections.abc import MutableMapping
from typing import Final, Self

REPORTS_PER_DEADLINE: Final = 3
"""The number of watchdog messages in each watchdog period, so that one may be late."""
LONGEST_STATUS: Final = 500


class Systemd:
    """The datagram socket of a service with `Type=notify`, and its watchdog."""

    def __init__(self, address: str, watchdog_s: float | None = None) -> None:
        """`address` is a path, or a name in the abstract namespace if it begins with @."""
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        self._watchdog_s = watchdog_s

    @classmethod
    def from_environment(cls, environ: MutableMapping[str, str] = os.environ) -> Self | None:
        """Make the reporter of this process; None if systemd did not start it with `Type=notify`.

        The variables are removed, so that no child process reports in this one's name.
        """
        address = environ.pop("NOTIFY_SOCKET", "")
        period_us = environ.pop("WATCHDOG_USEC", "")
        process_id = environ.pop("WATCHDOG_PID", str(os.getpid()))
        if address[:1] not in ("/", "@"):
            return None
        is_watched = period_us.isdigit() and int(period_us) > 0 and process_id == str(os.getpid())
        return cls(address, int(period_us) / 1e6 if is_watched else None)

    def ready(self, status: str) -> None:
        """Report that the daemon is ready, and from now on regularly that it is alive.

        The reports come from the running event loop, so that a loop that hangs sends none.
        """
        self._send(f"READY=1\nSTATUS={_one_line(status)}")
        if self._watchdog_s is not None:
            self._report_life(asyncio.get_running_loop(), self._watchdog_s / REPORTS_PER_DEADLINE)

    def stopping(self, why: str) -> None:
        """Report that the daemon stops."""
        self._send(f"STOPPING=1\nSTATUS=stopping: {_one_line(why)}")

    def _report_life(self, loop: asyncio.AbstractEventLoop, pause_s: float) -> None:
        self._send("WATCHDOG=1")
        loop.call_later(pause_s, self._report_life, loop, pause_s)

    def _send(self, report: str) -> None:
        with (
            contextlib.suppress(OSError),
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as channel,
        ):
            channel.sendto(report.encode(), self._address)


def _one_line(text: str) -> str:
    return " ".join(text.split())[:LONGEST_STATUS]
