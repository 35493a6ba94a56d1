"""Watches daemons that run: restarts those that die, if asked to, and stops all at a signal.

Messages about the daemons go to standard error; standard output belongs to the command.
"""

import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from types import FrameType
from typing import Final, NoReturn, Protocol

from ..runtime.errors import ConfigError, MinikafkaError
from .daemons import DaemonFailed, Exited

RESTART_SECONDS: Final = 1.0
STOP_SECONDS: Final = 20.0
FOREVER_SECONDS: Final = 3600.0
WRONG_CONFIGURATION: Final = 2
SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StopAsked(BaseException):
    """A signal asked the command to stop."""


class Running(Protocol):
    """Daemons that were started together, by name."""

    @property
    def pids(self) -> Mapping[str, int]:
        """The process ids of the daemons that run, by name."""

    def exits(self, timeout_seconds: float) -> Sequence[Exited]:
        """Wait until a daemon ends; return those that ended, or nothing after the timeout."""

    def last_words(self, node: str) -> str:
        """Return the last line that the daemon logged."""

    def restart(self, node: str, *, wait: bool) -> int:
        """Start a daemon that has ended, and return its process id."""

    def stop(self, timeout_seconds: float) -> list[str]:
        """Stop all daemons, and return the names of those that had to be killed."""


def run(command: str, running: Running, go: Callable[[], NoReturn]) -> int:
    """Call `go` to start and watch daemons, until a signal or an error; then stop all.

    Return the exit code.
    """
    _stop_on_signals()
    code = 0
    try:
        go()
    except StopAsked:
        pass
    except ConfigError as error:
        code = say(f"{command}: {error}", WRONG_CONFIGURATION)
    except DaemonFailed as error:
        code = say(f"{command}: {error}", error.exit_code)
    except (MinikafkaError, OSError) as error:
        code = say(f"{command}: {error}", 1)
    return max(code, _stop(running, quiet=code > 0))


def supervise(running: Running, *, restart: bool) -> NoReturn:
    """Report each death; if `restart`, start the daemon again unless its configuration is wrong.

    Raise DaemonFailed once every daemon has ended.
    """
    due: dict[str, float] = {}
    while True:
        now = time.monotonic()
        wait = min(due.values(), default=now + FOREVER_SECONDS) - now
        for exited in running.exits(max(0.0, wait)):
            words = running.last_words(exited.name) if exited.status > 0 else ""
            comes_back = restart and exited.status != WRONG_CONFIGURATION
            then = "; starting it again" if comes_back else ""
            reason = f": {words}" if words else ""
            say(f"{exited.name} (pid {exited.pid}) {exited.how}{reason}{then}")
            if comes_back:
                due[exited.name] = time.monotonic() + RESTART_SECONDS
        if not running.pids and not due:
            raise DaemonFailed("every daemon has ended")
        for name in [n for n, at in due.items() if at <= time.monotonic()]:
            del due[name]
            pid = running.restart(name, wait=False)
            say(f"{name} started again (pid {pid})")


def _stop(running: Running, *, quiet: bool) -> int:
    """Stop all daemons and return the exit code; another signal kills them."""
    _stop_on_signals()
    try:
        if running.pids and not quiet:
            say(f"stopping {count(len(running.pids), 'daemon')}")
        killed = running.stop(STOP_SECONDS)
    except StopAsked:
        running.stop(0)
        return say("killed what was still running", 1)
    if killed:
        return say(f"killed what did not stop in time: {', '.join(killed)}", 1)
    return 0


def _stop_on_signals() -> None:
    """From now on, the next signal raises StopAsked; those after it are ignored."""
    for number in SIGNALS:
        signal.signal(number, _ask_to_stop)


def _ask_to_stop(number: int, frame: FrameType | None) -> NoReturn:
    for each in SIGNALS:
        signal.signal(each, signal.SIG_IGN)
    raise StopAsked


def say(message: str, code: int = 0) -> int:
    """Print a line on standard error, and return `code`, an exit code."""
    print(message, file=sys.stderr, flush=True)
    return code


def count(number: int, noun: str) -> str:
    """Return the number with its noun, as in `3 brokers`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
