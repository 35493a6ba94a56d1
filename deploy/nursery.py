"""The nursery, a fork server: it imports the daemons' code once and forks each daemon from there.

Four interpreters that each import everything cost two cores most of a second; a fork costs
milliseconds and shares the pages of the code. No event loop and no thread exists here before a
fork. The nursery also waits for the daemons: it reports each exit. When its owner is gone it stops
every daemon, those of the last stage last, and removes a temporary directory. It never restarts
anything.

Messages on the socket to the owner, one JSON object for each datagram:
  owner    {"start": name, "program": "module:function", "argv": [...], "log": path, "last": bool}
           with two descriptors: the read end of the lifeline, the write end of the ready pipe
           {"remove": path}     remove this directory in the end
  nursery  {"started": name, "pid": n} | {"exited": name, "pid": n, "status": n}
           status as in subprocess: exit code, or minus the signal
"""

import gc
import importlib
import json
import os
import select
import shutil
import signal
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from time import monotonic
from typing import Any

MESSAGE_MAX_BYTES = 65_536
ORPHAN_GRACE_SECONDS = 10.0
PR_SET_NAME = 15
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

Main = Callable[[], int | None]


@dataclass(frozen=True, slots=True)
class Child:
    """A daemon that was forked and not yet reaped."""

    name: str
    pid: int
    pidfd: int
    last: bool


class Nursery:
    """Forks daemons on request and reports their ends; `serve` returns in parent and child."""

    def __init__(self, owner: socket.socket) -> None:
        self._owner = owner
        self._children: dict[int, Child] = {}
        self._remove: list[str] = []
        # Daemons of the last stage hold this pipe instead of the owner's: it closes with the
        # nursery, that is after the others ended. If both die at once, both pipes close.
        self._lifeline = os.pipe()

    def serve(self) -> Main | None:
        """Serve requests; return None once the owner is gone, and the main function in a child."""
        while True:
            for fd in self._wait(None):
                if fd == self._owner.fileno():
                    data, fds = self._next_request()
                    if not data:
                        self._see_to_the_end()
                        return None
                    if (born := self._on_request(json.loads(data), fds)) is not None:
                        return born
                else:
                    self._reap(self._children[fd])

    def _next_request(self) -> tuple[bytes, list[int]]:
        try:
            data, fds, _, _ = socket.recv_fds(self._owner, MESSAGE_MAX_BYTES, 2)
        except ConnectionResetError:
            return b"", []  # The owner closed without reading our last report.
        return data, fds

    def _wait(self, timeout_seconds: float | None) -> list[int]:
        poll = select.poll()
        if timeout_seconds is None:
            poll.register(self._owner, select.POLLIN)
        for pidfd in self._children:
            poll.register(pidfd, select.POLLIN)
        timeout_ms = None if timeout_seconds is None else max(0, int(timeout_seconds * 1000))
        # Children first: an exit is reported before the next request is looked at.
        owner = self._owner.fileno()
        return sorted((fd for fd, _ in poll.poll(timeout_ms)), key=lambda fd: fd == owner)

    def _on_request(self, request: dict[str, Any], fds: list[int]) -> Main | None:
        if "remove" in request:
            self._remove.append(request["remove"])
            return None
        program = _load(request["program"])
        lifeline, ready = fds
        if request["last"]:
            os.close(lifeline)
            lifeline = os.dup(self._lifeline[0])
        # The nursery ignores these signals. One that reaches the child before it no longer does
        # must wait, not be lost.
        signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
        pid = os.fork()
        if pid == 0:
            self._owner.detach()
            _become_daemon(request, keep=(lifeline, ready))
            signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
            return program
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
        os.close(lifeline)
        os.close(ready)
        child = Child(request["start"], pid, os.pidfd_open(pid), request["last"])
        self._children[child.pidfd] = child
        self._tell({"started": child.name, "pid": pid})
        return None

    def _reap(self, child: Child) -> None:
        _, status = os.waitpid(child.pid, 0)
        os.close(child.pidfd)
        del self._children[child.pidfd]
        code = os.waitstatus_to_exitcode(status)
        self._tell({"exited": child.name, "pid": child.pid, "status": code})

    def _tell(self, message: dict[str, Any]) -> None:
        try:
            self._owner.send(json.dumps(message).encode())
        except (BrokenPipeError, ConnectionResetError):
            return  # The owner died; the next poll reports it.

    def _see_to_the_end(self) -> None:
        self._end([child for child in self._children.values() if not child.last])
        self._end(list(self._children.values()))
        for directory in self._remove:
            shutil.rmtree(directory, ignore_errors=True)

    def _end(self, children: list[Child]) -> None:
        for child in children:
            signal.pidfd_send_signal(child.pidfd, signal.SIGTERM)
        deadline = monotonic() + ORPHAN_GRACE_SECONDS
        waiting = {child.pidfd for child in children}
        while waiting & self._children.keys() and (left := deadline - monotonic()) > 0:
            for pidfd in self._wait(left):
                self._reap(self._children[pidfd])
        for child in children:
            if child.pidfd in self._children:
                signal.pidfd_send_signal(child.pidfd, signal.SIGKILL)
                self._reap(child)


def _load(program: str) -> Main:
    module, _, attribute = program.partition(":")
    # Modules make many objects and next to no garbage: collections would take a third of the time.
    gc.disable()
    # Daemons import their loop when they run; importing it starts nothing.
    importlib.import_module("uvloop")
    main: Main = getattr(importlib.import_module(module), attribute)
    # Objects loaded by now never die: hidden from the collector, it does not write to them, and
    # their pages stay shared between the daemons.
    gc.freeze()
    gc.enable()
    return main


def _become_daemon(request: dict[str, Any], keep: tuple[int, int]) -> None:
    """Give the child its own session and log, and close all descriptors but `keep`."""
    os.setsid()
    for number in ENDING:
        signal.signal(number, signal.SIG_DFL)
    log = os.open(request["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    null = os.open(os.devnull, os.O_RDWR)
    for source, target in ((null, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    limit = os.sysconf("SC_OPEN_MAX")
    edges = [2, *sorted(keep), limit]
    for low, high in pairwise(edges):
        os.closerange(low + 1, high)
    lifeline, ready = keep
    for fd in keep:
        os.set_inheritable(fd, False)
    given = [f"--lifeline-fd={lifeline}", f"--ready-fd={ready}"]
    sys.argv = [*request["argv"], *given]
    _set_title(" ".join(request["argv"]))


def _set_title(title: str) -> None:
    """Show the daemon's own command in `ps`, by overwriting the process's argv in place."""
    import ctypes

    with open("/proc/self/stat", "rb") as stat:
        # Fields after the last parenthesis start at the third; arg_start is the 48th.
        start, end = stat.read().rpartition(b")")[2].split()[45:47]
    room = int(end) - int(start)
    text = title.encode()[: room - 1]
    ctypes.memmove(int(start), text.ljust(room, b"\0"), room)
    name = os.path.basename(title.split(" ", 1)[0]).encode()[:15]
    ctypes.CDLL(None).prctl(PR_SET_NAME, ctypes.c_char_p(name), 0, 0, 0)


def main() -> None:
    """Run `python -m minikafka.deploy.nursery SOCKET-FD TITLE PADDING [PROGRAM]`.

    The program is loaded at once, before a request to start it.
    """
    for number in ENDING:
        signal.signal(number, signal.SIG_IGN)
    owner = socket.socket(fileno=int(sys.argv[1]))
    owner.set_inheritable(False)
    _set_title(sys.argv[2])
    for program in sys.argv[4:]:
        _load(program)
    nursery = Nursery(owner)
    if (born := nursery.serve()) is not None:
        sys.exit(born())


if __name__ == "__main__":
    main()
