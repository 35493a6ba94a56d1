"""`minikafka server-stop`: ask the daemons of this machine to stop, as Kafka's script does."""

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Final

import click

from ..runtime.daemon import load_properties
from ..runtime.errors import ConfigError
from .server_start import ROLES

PROC: Final = Path("/proc")
PROGRAMS: Final = {f"minikafka-{role}": role for role in ROLES}
MODULES: Final = {f"minikafka.{role}": role for role in ROLES}


@dataclass(frozen=True, slots=True)
class Server:
    """A daemon that runs on this machine."""

    pid: int
    role: str
    node_id: int | None
    """The node id; None if the daemon's properties file cannot be read any more."""


@click.command("server-stop")
@click.option("--process-role", type=click.Choice(ROLES), help="Stop only daemons of this role.")
@click.option("--node-id", type=int, help="Stop only the daemon of this node.")
def server_stop(process_role: str | None, node_id: int | None) -> None:
    """Send SIGTERM to the daemons of this machine and user, which then stop cleanly by themselves.

    Daemons that `minikafka up` or `minikafka host` started are left alone; stop these commands
    instead. The environment variable SIGNAL names another signal. The exit code is 1 if there was
    none to stop.

    \b
    minikafka server-stop
    minikafka server-stop --process-role broker --node-id 1
    """
    number = _signal(os.environ.get("SIGNAL", "TERM"))
    found = [
        server
        for server in servers(PROC)
        if process_role in (None, server.role) and node_id in (None, server.node_id)
    ]
    stopped = 0
    for server in found:
        try:
            os.kill(server.pid, number)
        except ProcessLookupError:
            continue
        stopped += 1
    if not stopped:
        click.echo("No kafka server to stop")
        raise click.exceptions.Exit(1)


def servers(proc: Path) -> Iterator[Server]:
    """Yield the daemons that were started one by one by this user; root sees those of all users."""
    for path in sorted(proc.iterdir()):
        if not path.name.isdigit():
            continue
        try:
            if os.geteuid() not in (0, path.stat().st_uid):
                continue
            arguments = (path / "cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]
            directory = (path / "cwd").readlink()
        except OSError:
            continue  # The process has ended since.
        begun = _program(arguments)
        if begun is not None:
            role, options = begun
            yield Server(int(path.name), role, _node_id(options, directory))


def _program(arguments: list[str]) -> tuple[str, list[str]] | None:
    """Return the daemon's role and its own arguments; None if this is no daemon."""
    if len(arguments) < 2 or not PurePath(arguments[0]).name.startswith("python"):
        return None
    if arguments[1] == "-m" and len(arguments) > 2 and arguments[2] in MODULES:
        return MODULES[arguments[2]], arguments[3:]
    name = PurePath(arguments[1]).name
    return (PROGRAMS[name], arguments[2:]) if name in PROGRAMS else None


def _node_id(options: list[str], directory: Path) -> int | None:
    file: Path | None = None
    overrides: list[str] = []
    left = iter(options)
    for option in left:
        if option.startswith("--override="):
            overrides.append(option.partition("=")[2])
        elif option.startswith("--"):
            value = "" if "=" in option else next(left, "")
            if option == "--override":
                overrides.append(value)
        elif file is None:
            file = directory / option
    try:
        settings = load_properties(None if file is None else str(file), overrides)
        return int(settings.get("node.id") or settings["broker.id"])
    except (ConfigError, KeyError, ValueError):
        return None


def _signal(name: str) -> signal.Signals:
    try:
        return signal.Signals(int(name)) if name.isdigit() else signal.Signals[_full(name)]
    except (KeyError, ValueError):
        raise ConfigError("SIGNAL", name, "is no signal: TERM, INT or KILL are") from None


def _full(name: str) -> str:
    name = name.upper()
    return name if name.startswith("SIG") else f"SIG{name}"
