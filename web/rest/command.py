"""`minikafka rest`: serve the REST proxy until Ctrl-C or SIGTERM.

Here are its flags, and the error message if the packages of the `rest` extra are missing.
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
from ...runtime.errors import ConfigError

DEFAULT_LISTEN = "127.0.0.1:8082"
MISSING = "the REST proxy needs its extra: pip install 'minikafka[rest]' ({error})"


@click.command("rest")
@bootstrap_server
@command_config()
@command_property()
@click.option(
    "--listen",
    default=DEFAULT_LISTEN,
    show_default=True,
    metavar="HOST:PORT",
    help="Address to listen on; port 0 picks a free one.",
)
@click.option(
    "--advertised",
    metavar="URL",
    help="This proxy's URL as the other proxies reach it; by default the address it listens on.",
)
@click.option(
    "--peers",
    metavar="URL,...",
    default="",
    help="The URLs that the other proxies advertise; a consumer of theirs is then used here too.",
)
@click.option(
    "--host-name",
    "host_names",
    multiple=True,
    metavar="NAME",
    help="A host name of this proxy beside localhost, where it listens there; may be repeated.",
)
@click.option("--until-input-ends", is_flag=True, hidden=True)
def rest(
    bootstrap: str,
    command_config: Path | None,
    command_properties: Iterable[str],
    listen: str,
    advertised: str | None,
    peers: str,
    host_names: tuple[str, ...],
    until_input_ends: bool,
) -> None:
    """Serve Confluent's REST API, v2 and v3: topics, records, consumers, groups, settings, ACLs.

    The settings are those of the proxy (docs/config.md), and those of its clients: by themselves
    for all, with the prefix producer. consumer. or admin. for one kind. Without
    minikafka.rest.authentication=sasl whoever reaches the address acts as the proxy.

    \b
    minikafka rest --bootstrap-server localhost:9092
    minikafka rest --bootstrap-server localhost:9092 --listen 0.0.0.0:8082 \\
        --advertised http://rest-1:8082 --peers http://rest-2:8082,http://rest-3:8082
    """
    try:
        from .server import Listening, serve
    except ImportError as error:
        raise click.ClickException(MISSING.format(error=error)) from error
    host, port = _address(listen)
    others = tuple(url.strip() for url in peers.split(",") if url.strip())
    where = Listening(host, port, advertised, others, host_names)
    settings = client_settings(bootstrap, command_config, command_properties)
    run(serve(settings, where, until_input_ends=until_input_ends))


def _address(listen: str) -> tuple[str, int]:
    host, colon, port = listen.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 65_535:
        raise ConfigError("--listen", listen, "must be HOST:PORT")
    return host.strip("[]"), int(port)
