"""Starts daemons, signals them, and reports when they are ready or have ended.

The nursery (nursery.py), a fork server in a process of its own, forks the daemons on request; this
module is its client. Calls block and are for a single thread. A wait for a daemon takes a timeout;
the request to start one has none, but fails if the nursery ends.
"""

import contextlib
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

from ..runtime.errors import MinikafkaError
from .nursery import MESSAGE_MAX_BYTES, ORPHAN_GRACE_SECONDS

NURSERY_TITLE = "minikafka-nursery"
TITLE_ROOM = " " * 240
LOG_LINE_MAX_BYTES = 4096
AFTER_SIGKILL_SECONDS = 5.0
LOG_PREFIX = re.compile(r"^[\d-]+ [\d:.]+ [A-Z]+ [\w.]+: ")
"""The time, level and logger at the start of a line, which `last_words` removes."""


class DaemonFailed(MinikafkaError):
    """A daemon ended or could not be started; `exit_code` is the exit code of the command."""

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class NotReadyInTime(DaemonFailed):
    """A daemon did not become ready in time; it still runs, and may become ready yet."""


@dataclass(frozen=True, slots=True)
class Program:
    """A program that the nursery starts: its function, and the command that `ps` shows."""

    entry: str
    command: str


@dataclass(frozen=True, slots=True)
class Exited:
    """The end of a daemon. The status is its exit code, or minus the signal that killed it."""

    name: str
    pid: int
    status: int

    @property
    def how(self) -> str:
        """Describe the end of the daemon, for people."""
        if self.status < 0:
            return f"was killed by {signal.Signals(-self.status).name}"
        return f"exited with code {self.status}"


class Daemon:
    """One started process, held by its pidfd, so that no process with a reused id is signalled."""

    def __init__(self, name: str, pid: int, ready_fd: int, log_path: Path, log_start: int) -> None:
        self.name = name
        self.pid = pid
        self.listeners: dict[str, list[Any]] = {}
        """[host, port] by listener name, known once the daemon is ready."""
        self.exited: Exited | None = None
        self._pidfd = os.pidfd_open(pid)
        self._ready_fd = ready_fd
        self._ready = b""
        self._log_path = log_path
        self._log_start = log_start

    def signal(self, number: int) -> None:
        """Send a signal; nothing happens if the process is gone."""
        if self._pidfd >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, number)

    def read_ready(self, timeout_seconds: float) -> bool:
        """Wait for the daemon's report that it accepts connections; False if none came in time."""
        deadline = monotonic() + timeout_seconds
        while self._ready_fd >= 0:
            left_ms = int(max(0.0, deadline - monotonic()) * 1000)
            if not select_readable(self._ready_fd, left_ms):
                return False
            data = os.read(self._ready_fd, 65_536)
            self._ready += data
            if not data or b"\n" in data:
                os.close(self._ready_fd)
                self._ready_fd = -1
        line, newline, _ = self._ready.partition(b"\n")
        if not newline:
            return False
        self.listeners = json.loads(line)["listeners"]
        return True

    def last_words(self) -> str:
        """Return the last line that the daemon logged since this start, without time and level."""
        with self._log_path.open("rb") as log:
            size = log.seek(0, os.SEEK_END)
            log.seek(max(self._log_start, size - LOG_LINE_MAX_BYTES))
            lines = log.read().decode(errors="replace").split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        return LOG_PREFIX.sub("", last)

    def on_exited(self, exited: Exited) -> None:
        """Note the daemon's end and close its pidfd."""
        self.exited = exited
        os.close(self._pidfd)
        self._pidfd = -1

    def close(self) -> None:
        """Close the descriptors."""
        for fd in (self._pidfd, self._ready_fd):
            if fd >= 0:
                os.close(fd)
        self._pidfd = self._ready_fd = -1


class Daemons:
    """Starts daemons through a fork server of its own; they end when this process ends."""

    def __init__(self, *, first: Program, inherit: Sequence[int] = ()) -> None:
        """Start the nursery, which at once loads the program `first`."""
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._lifeline_read, self._lifeline_write = os.pipe()
        self._running: dict[str, Daemon] = {}
        self._exits: list[Exited] = []
        fd = theirs.fileno()
        with theirs:
            command = [sys.executable, "-m", "minikafka.deploy.nursery", str(fd), NURSERY_TITLE]
            self._nursery = subprocess.Popen(
                [*command, TITLE_ROOM, first.entry],
                stdin=subprocess.DEVNULL,
                pass_fds=(fd, *inherit),
                start_new_session=True,
            )

    def remove_in_the_end(self, directory: Path) -> None:
        """Let the nursery remove the directory after the last daemon, even if we are killed."""
        self._ask({"remove": str(directory)})

    def start(
        self,
        name: str,
        program: Program,
        arguments: Sequence[str],
        *,
        log: Path,
        last: bool = False,
    ) -> Daemon:
        """Start a daemon. If we are killed, daemons with `last` are stopped after the others."""
        ready_read, ready_write = os.pipe()
        log_start = log.stat().st_size if log.exists() else 0
        argv = [program.command, *arguments]
        request = {"start": name, "program": program.entry, "argv": argv}
        try:
            self._ask(request | {"log": str(log), "last": last}, [self._lifeline_read, ready_write])
            while "started" not in (answer := self._receive(None)):
                self._note(answer)
        except BaseException:
            os.close(ready_read)
            raise
        finally:
            os.close(ready_write)
        daemon = Daemon(name, answer["pid"], ready_read, log, log_start)
        if (former := self._running.get(name)) is not None:
            former.close()
        self._running[name] = daemon
        return daemon

    def exits(self, timeout_seconds: float) -> list[Exited]:
        """Wait until a daemon ends; return those that ended, or nothing after the timeout."""
        timeout_ms = 0 if self._exits else max(0, int(timeout_seconds * 1000))
        while select_readable(self._socket.fileno(), timeout_ms):
            self._note(self._receive(1.0))
            timeout_ms = 0
        exits, self._exits = self._exits, []
        return exits

    def wait(self, daemon: Daemon, timeout_seconds: float) -> Exited | None:
        """Wait for this daemon's end; None if it still runs after the timeout."""
        deadline = monotonic() + timeout_seconds
        kept: list[Exited] = []
        while daemon.exited is None:
            left = deadline - monotonic()
            kept += self.exits(max(0.0, left))
            if left <= 0:
                break
        self._exits = [exited for exited in kept if exited is not daemon.exited] + self._exits
        return daemon.exited

    def stop(self, daemons: Sequence[Daemon], timeout_seconds: float) -> list[Daemon]:
        """Send SIGTERM, and SIGKILL after the timeout; return the daemons that were killed."""
        for daemon in daemons:
            daemon.signal(signal.SIGTERM)
        deadline = monotonic() + timeout_seconds
        late = [d for d in daemons if self.wait(d, deadline - monotonic()) is None]
        for daemon in late:
            daemon.signal(signal.SIGKILL)
        for daemon in late:
            self.wait(daemon, AFTER_SIGKILL_SECONDS)
        return late

    def close(self) -> None:
        """End the daemons that still run, and the nursery itself."""
        os.close(self._lifeline_write)
        os.close(self._lifeline_read)
        self._socket.close()
        try:
            self._nursery.wait(2 * ORPHAN_GRACE_SECONDS + 5)
        except subprocess.TimeoutExpired:
            self._nursery.kill()
            self._nursery.wait()
        for daemon in self._running.values():
            daemon.close()
        self._running.clear()

    def _ask(self, request: dict[str, Any], fds: Sequence[int] = ()) -> None:
        try:
            socket.send_fds(self._socket, [json.dumps(request).encode()], fds)
        except OSError as failure:
            raise DaemonFailed(f"the process that starts daemons is gone: {failure}") from failure

    def _receive(self, timeout_seconds: float | None) -> dict[str, Any]:
        self._socket.settimeout(timeout_seconds)
        data = self._socket.recv(MESSAGE_MAX_BYTES)
        if not data:
            raise DaemonFailed("the process that starts daemons ended")
        message: dict[str, Any] = json.loads(data)
        return message

    def _note(self, message: dict[str, Any]) -> None:
        exited = Exited(message["exited"], message["pid"], message["status"])
        daemon = self._running.get(exited.name)
        if daemon is not None and daemon.pid == exited.pid:
            daemon.on_exited(exited)
        self._exits.append(exited)


def select_readable(fd: int, timeout_ms: int) -> bool:
    """Wait until the descriptor can be read or is at its end; False after the timeout."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(timeout_ms))
