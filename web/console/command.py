"""`minikafka console`: serve the console until Ctrl-C or SIGTERM.

Here are its flags, and the error message if the packages of the `console` extra are missing.
"""

from collections.abc import Iterable
from pathlib import Path

import click

from ...client.cli.common import (
    bootstrap_server,
    client_settings,
    command_config,
    command_property,
    run,
)
from ...runtime.config import PORT_MAX

DEFAULT_PORT = 8090
MISSING = "the console needs its extra: pip install 'minikafka[console]' ({error})"


@click.command("console")
@bootstrap_server
@command_config()
@command_property()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, PORT_MAX),
    default=DEFAULT_PORT,
    show_default=True,
    help="Port to listen on; 0 picks a free one.",
)
@click.option(
    "--host-name",
    "host_names",
    multiple=True,
    metavar="NAME",
    help="A host name that browsers use for this console, beside localhost; may be repeated.",
)
@click.option("--until-input-ends", is_flag=True, hidden=True)
@click.option("--allow-changes", is_flag=True, help="Let visitors change the cluster.")
def console(
    bootstrap: str,
    command_config: Path | None,
    command_properties: Iterable[str],
    host: str,
    port: int,
    host_names: tuple[str, ...],
    until_input_ends: bool,
    allow_changes: bool,
) -> None:
    """Show a cluster in the browser: health, topics, replication live, messages, groups.

    The console only reads, unless --allow-changes is given. There is no login: whoever reaches the
    address sees everything, so listen on more than 127.0.0.1 only behind a proxy that authenticates
    its users. The client settings apply to the console's admin, and those that a consumer has too
    to its consumers.

    \b
    minikafka console --bootstrap-server localhost:9092
    minikafka console --bootstrap-server localhost:9092 --port 8090 --allow-changes
    """
    try:
        from .server import Listening, serve
    except ImportError as error:
        raise click.ClickException(MISSING.format(error=error)) from error
    settings = client_settings(bootstrap, command_config, command_properties)
    where = Listening(host, port, host_names)
    run(serve(settings, where, allow_changes=allow_changes, until_input_ends=until_input_ends))
