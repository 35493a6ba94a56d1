"""The command line of both kinds of workers: a daemon with Connect's settings.

It imports a worker only to run it; if a package of the extra is missing, it says so.
"""

from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final

import click

from ...runtime.daemon import Plan, daemon_command

MISSING: Final = "Connect needs its extra: pip install 'minikafka[connect]' ({error})"


def worker_command(
    name: str, module: str, arguments: Sequence[click.Parameter], help: str
) -> click.Command:
    """Make the command `name`: its worker is prepared by `prepare` of `module`, in this package."""

    def prepare(properties: dict[str, str], **given: Any) -> Plan:
        try:
            made: Plan = import_module(module, __package__).prepare(properties, **given)
        except ModuleNotFoundError as error:
            if (error.name or "").startswith("minikafka"):
                raise
            raise click.ClickException(MISSING.format(error=error)) from error
        return made

    command = daemon_command(name, prepare, arguments, help=help)
    file = command.params[0]
    file.required, file.metavar = True, "worker.properties"
    return command
