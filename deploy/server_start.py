"""`minikafka server-start`: start one daemon, here or in the background, as Kafka's script does."""

import os
import subprocess
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Final, NoReturn

import click

from ..runtime.daemon import Plan, load_properties
from ..runtime.errors import ConfigError

ROLES: Final = ("broker", "controller")
LOGS: Final = "logs"


@click.command("server-start")
@click.option("-daemon", "--daemon", is_flag=True, help="Start it in the background, and return.")
@click.argument("properties", metavar="server.properties", type=click.Path(path_type=Path))
@click.option("--override", multiple=True, metavar="KEY=VALUE", help="Set one key of the file.")
def server_start(daemon: bool, properties: Path, override: tuple[str, ...]) -> None:
    """Start a broker, or a controller if the file says process.roles=controller.

    Runs `minikafka-broker` or `minikafka-controller`, whichever the file is for. In the background
    the daemon outlives the terminal, and writes its log to ROLE-ID.out in the directory that the
    environment variable LOG_DIR names, by default `logs`; a wrong configuration is reported here.

    \b
    minikafka server-start server.properties
    minikafka server-start -daemon server.properties --override node.id=2
    """
    settings = load_properties(str(properties), override)
    role = role_of(settings)
    command = [sys.executable, "-m", f"minikafka.{role}", str(properties)]
    command += [f"--override={each}" for each in override]
    sys.stdout.flush()
    if daemon:
        _start_behind(role, settings, command)
    else:
        _become(command)


def role_of(settings: Mapping[str, str]) -> str:
    """Return the role in process.roles, broker by default.

    Raise ConfigError for both or another.
    """
    roles = [role.strip() for role in settings.get("process.roles", ROLES[0]).split(",")]
    if len(roles) == 1 and roles[0] in ROLES:
        return roles[0]
    why = "must be broker or controller: start one daemon for each, with a file of its own"
    raise ConfigError("process.roles", settings["process.roles"], why)


def _become(command: list[str]) -> NoReturn:
    """Replace this process by the daemon, which thus gets its signals and returns its exit code."""
    os.execv(command[0], command)


def _start_behind(role: str, settings: dict[str, str], command: list[str]) -> None:
    plan: Plan = import_module(f"minikafka.{role}.__main__").prepare(dict(settings))
    directory = Path(os.environ.get("LOG_DIR") or LOGS)
    log = directory / f"{plan.name}.out"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as out:
            started = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
    except OSError as error:
        raise click.ClickException(f"minikafka server-start: {log}: {error.strerror}") from error
    print(f"started {plan.name}, process {started.pid}, log {log}")
    # It is meant to outlive this process: Popen would complain that nobody waited for it.
    started.returncode = 0
