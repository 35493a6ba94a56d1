"""`minikafka host`: several brokers of one machine under one supervisor, in the foreground."""

import os
import time
from functools import partial
from pathlib import Path
from typing import NoReturn

import click

from ..runtime.daemon import load_properties
from ..runtime.errors import ConfigError
from ..runtime.systemd import Systemd
from .daemons import NotReadyInTime
from .foreground import WRONG_CONFIGURATION, count, run, say, supervise
from .host_brokers import HostBrokers, plan, usable_cores

PROGRESS_SECONDS = 30.0


@click.command()
@click.argument("properties", metavar="server.properties", type=click.Path(path_type=Path))
@click.option(
    "--brokers",
    type=click.IntRange(min=1, max=1024),
    help="Number of brokers. [default: one for each core]",
)
@click.option("--override", multiple=True, metavar="KEY=VALUE", help="Set one key of the file.")
@click.option(
    "--log-dir",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("logs"),
    show_default=True,
    help="Directory of the brokers' own logs, a file for each.",
)
def host(properties: Path, brokers: int | None, override: tuple[str, ...], log_dir: Path) -> None:
    """Run the brokers of one host in the foreground, one for each of its cores.

    The file is that of the first broker. Each further one has the next node id, the next port of
    each listener, and directories of its own, broker-ID in each of log.dirs. All have one rack, the
    host's name unless broker.rack is set, so that no two copies of a partition are on this host. A
    broker that dies is brought back after one second, unless its configuration is wrong.

    \b
    minikafka host server.properties
    minikafka host server.properties --brokers 4 --override node.id=11
    """
    if brokers is None:
        brokers = usable_cores()
    try:
        planned = plan(load_properties(str(properties), override), brokers, log_dir.absolute())
    except ConfigError as error:
        raise click.exceptions.Exit(say(f"minikafka host: {error}", WRONG_CONFIGURATION)) from None
    running = HostBrokers(properties.absolute(), override, planned)
    raise click.exceptions.Exit(run("minikafka host", running, partial(_run, running)))


def _run(running: HostBrokers) -> NoReturn:
    started = time.monotonic()
    # Each broker has an event loop that could hang; the supervisor has none to report on.
    environment = {"NOTIFY_SOCKET": os.environ.pop("NOTIFY_SOCKET", "")}
    systemd = Systemd.from_environment(environment)
    running.launch()
    say(f"starting {count(len(running.brokers), 'broker')}")
    while True:
        try:
            running.wait_until_ready(PROGRESS_SECONDS)
            break
        except NotReadyInTime as still:
            # Recovery may take long.
            say(str(still))
    servers = ",".join(broker.address for broker in running.brokers.values())
    print(f"ready bootstrap.servers={servers}", flush=True)
    say(f"started in {time.monotonic() - started:.1f} s; Ctrl-C stops")
    if systemd is not None:
        systemd.ready(f"{count(len(running.brokers), 'broker')}: {servers}")
    supervise(running, restart=True)
