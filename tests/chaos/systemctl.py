"""`systemctl` on the hosts of the drill: it runs the units' own commands, as systemd would.

It knows the verbs that docs/operations.md uses, and of a unit what decides how its daemon lives:
the command, its user and directory, Type=notify, the restart after a failure, the time for a stop.
The sandbox of the unit is not set up. Each unit that runs has a supervisor, which is this program
too. Every wait has a deadline.
"""

import contextlib
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from configparser import RawConfigParser
from pathlib import Path

UNITS = Path("/etc/systemd/system")
STATE = Path("/var/lib/units")
STARTED_WITHIN_S = 90.0
ENDED = ("inactive", "failed")


class Unit:
    """One instance of a template unit, and the files in which its supervisor notes its state."""

    def __init__(self, name: str) -> None:
        self.name = name.removesuffix(".service")
        kind, _, self.instance = self.name.partition("@")
        self.file = UNITS / f"{kind}@.service"
        self._state = STATE / f"{self.name}.state"
        self._stopping = STATE / f"{self.name}.stopping"

    def service(self) -> Mapping[str, str]:
        """Return the settings of the section [Service]."""
        parser = RawConfigParser(strict=False, interpolation=None)
        parser.optionxform = str  # type: ignore[assignment, method-assign]
        parser.read_string(self.file.read_text())
        return {key: text.replace("%i", self.instance) for key, text in parser["Service"].items()}

    @property
    def state(self) -> str:
        """The state in systemd's word: activating, active, inactive or failed."""
        return self._noted()[0]

    @property
    def pid(self) -> int:
        """The process id of the daemon; 0 if none runs."""
        return int(self._noted()[1])

    def note(self, state: str, pid: int = 0) -> None:
        """Replace what is noted, in one step."""
        fresh = self._state.with_suffix(".new")
        fresh.write_text(f"{state} {pid}")
        fresh.replace(self._state)

    @property
    def is_stopping(self) -> bool:
        """Has somebody asked for a stop?"""
        return self._stopping.exists()

    def ask_to_stop(self, wanted: bool) -> None:
        """Note that a stop is asked for, or is no longer."""
        if wanted:
            self._stopping.touch()
        else:
            self._stopping.unlink(missing_ok=True)

    def _noted(self) -> list[str]:
        with contextlib.suppress(FileNotFoundError):
            return self._state.read_text().split()
        return ["inactive", "0"]


def supervise(unit: Unit) -> None:
    """Run the daemon until it stops for good."""
    service = unit.service()
    address = STATE / f"{unit.name}.notify"
    address.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
        notify.bind(str(address))
        address.chmod(0o666)
        notify.settimeout(0.1)
        while True:
            code = _run(unit, service, notify)
            if unit.is_stopping or code == 0:
                break
            if (
                service["Restart"] != "on-failure"
                or str(code) == service["RestartPreventExitStatus"]
            ):
                break
            time.sleep(float(service["RestartSec"]))
        unit.note("inactive" if code == 0 or unit.is_stopping else "failed")


def _run(unit: Unit, service: Mapping[str, str], notify: socket.socket) -> int:
    """Run the daemon once and return its exit code; note when it reports that it is ready."""
    environment = {
        "PATH": os.environ["PATH"],
        "NOTIFY_SOCKET": str(STATE / f"{unit.name}.notify"),
        "WATCHDOG_USEC": str(int(float(service["WatchdogSec"]) * 1e6)),
    }
    with (STATE / f"{unit.name}.log").open("ab") as log:
        process = subprocess.Popen(
            shlex.split(service["ExecStart"]),
            cwd=service["WorkingDirectory"],
            user=service["User"],
            group=service["Group"],
            extra_groups=[],
            umask=int(service["UMask"], 8),
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    unit.note("activating", process.pid)
    while process.poll() is None:
        with contextlib.suppress(TimeoutError):
            if notify.recv(4096).startswith(b"READY=1"):
                unit.note("active", process.pid)
    unit.note("activating")
    return process.returncode


def start(unit: Unit, wait: bool) -> None:
    """Start the unit if it does not run, and wait until its daemon serves."""
    if unit.state in ENDED:
        unit.ask_to_stop(False)
        unit.note("activating")
        subprocess.Popen(
            [sys.executable, __file__, "supervise", unit.name],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=(STATE / f"{unit.name}.log").open("ab"),
            start_new_session=True,
        )
    if wait:
        _wait(unit, lambda: unit.state in ("active", *ENDED), STARTED_WITHIN_S)
        if unit.state != "active":
            sys.exit(f"{unit.name} is {unit.state}:\n{_last_words(unit)}")


def stop(unit: Unit) -> None:
    """Stop the unit; kill its daemon where it does not stop in time."""
    if unit.state in ENDED:
        return
    unit.ask_to_stop(True)
    _signal(unit, signal.SIGTERM)
    try:
        _wait(unit, lambda: unit.state in ENDED, float(unit.service()["TimeoutStopSec"]))
    finally:
        _signal(unit, signal.SIGKILL)


def kill(unit: Unit, number: int) -> None:
    """Kill the daemon, and wait until its supervisor has seen it."""
    pid = unit.pid
    _signal(unit, number)
    _wait(unit, lambda: unit.pid != pid, STARTED_WITHIN_S)


def _signal(unit: Unit, number: int) -> None:
    if unit.pid:
        with contextlib.suppress(ProcessLookupError):
            os.kill(unit.pid, number)


def _wait(unit: Unit, is_done: Callable[[], bool], within_s: float) -> None:
    deadline = time.monotonic() + within_s
    while not is_done():
        if time.monotonic() > deadline:
            sys.exit(f"{unit.name} is {unit.state} after {within_s:g} s:\n{_last_words(unit)}")
        time.sleep(0.05)


def _last_words(unit: Unit) -> str:
    log = STATE / f"{unit.name}.log"
    return log.read_text()[-3000:] if log.exists() else ""


def main(arguments: list[str]) -> None:
    """Do what the arguments say to each unit, in their order."""
    STATE.mkdir(exist_ok=True)
    flags = [each for each in arguments if each.startswith("--")]
    verb, *names = [each for each in arguments if not each.startswith("--")]
    units = [Unit(name) for name in names]
    for unit in units:
        if verb in ("stop", "restart") or (verb == "disable" and "--now" in flags):
            stop(unit)
        if verb in ("start", "restart") or (verb == "enable" and "--now" in flags):
            start(unit, wait="--no-block" not in flags)
        if verb == "kill":
            kill(unit, signal.Signals[f"SIG{flags[0].partition('=')[2]}"])
        if verb == "is-active":
            print(unit.state)
        if verb == "supervise":
            supervise(unit)
    if verb == "is-active" and any(unit.state != "active" for unit in units):
        sys.exit(3)


if __name__ == "__main__":
    main(sys.argv[1:])
