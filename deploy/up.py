"""`minikafka up`: a local cluster in the foreground, until Ctrl-C or SIGTERM.

This module has the flags and starts the cluster; `foreground.py` then waits for signals and ends
it, and `LocalCluster` runs the daemons. Standard output carries only the one `ready` line.
"""

import time
from functools import partial
from pathlib import Path
from typing import NoReturn

import click

from ..runtime.config import PORT_MAX
from .console_process import ConsoleProcess
from .daemons import NotReadyInTime
from .foreground import count, run, say, supervise
from .local_cluster import LocalCluster

READY_SECONDS = 600.0
PROGRESS_SECONDS = 5.0
CONSOLE_PORT = 8090
CONTROLLER_COUNTS = (1, 3, 5)


@click.command()
@click.option(
    "--brokers", type=click.IntRange(min=1), help="Number of brokers. [default: 3, or those in DIR]"
)
@click.option(
    "--controllers",
    type=click.IntRange(min=1),
    help="Number of controllers: 1, 3 or 5; a majority must be up. [default: 1, or those in DIR]",
)
@click.option(
    "--port",
    type=click.IntRange(0, PORT_MAX),
    help="Port of the first broker. The other daemons, then the metrics listeners, use "
    "the ports after it; 0 picks free ports. [default: 9092, or those in DIR]",
)
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory of the cluster; an existing one is opened with its data. [default: "
    "a temporary one, removed at the end]",
)
@click.option(
    "--console",
    "console_port",
    is_flag=False,
    flag_value=CONSOLE_PORT,
    type=click.IntRange(0, PORT_MAX),
    metavar="[PORT]",
    help=f"Show the cluster in the browser, at this port; {CONSOLE_PORT} if none is named, "
    "0 picks a free one.",
)
@click.option("--restart", is_flag=True, help="Restart a daemon that died, after one second.")
def up(
    brokers: int | None,
    controllers: int | None,
    port: int | None,
    data: Path | None,
    console_port: int | None,
    restart: bool,
) -> None:
    """Run a local cluster of real processes in the foreground.

    Prints `ready bootstrap.servers=HOST:PORT,...` when a controller is active and every broker is
    in service, and stops on Ctrl-C or SIGTERM; a second signal stops it at once. A node's
    configuration is in DIR/broker-1/server.properties, its log in DIR/broker-1/log.

    \b
    minikafka up
    minikafka up --brokers 1 --port 0
    minikafka up --data /tmp/demo --controllers 3 --restart
    minikafka up --console
    """
    if controllers is not None and controllers not in CONTROLLER_COUNTS:
        why = "1, 3 or 5: an even number bears no more failures than the odd one below it"
        raise click.UsageError(f"--controllers {controllers}: must be {why}")
    existing = data is not None and any(data.glob("broker-*/server.properties"))
    if port is None:
        port = 0 if existing else 9092
    cluster = LocalCluster(data, brokers=brokers, controllers=controllers, port=port, metrics=True)
    go = partial(_run, cluster, restart, console_port)
    raise click.exceptions.Exit(run("minikafka up", cluster, go))


def _run(cluster: LocalCluster, restart: bool, console_port: int | None) -> NoReturn:
    started = time.monotonic()
    cluster.launch()
    nodes = cluster.layout
    say(
        f"starting {count(len(nodes.brokers), 'broker')} and "
        f"{count(len(nodes.controllers), 'controller')} in {cluster.directory}"
    )
    _wait_until_ready(cluster, started + READY_SECONDS)
    print(f"ready bootstrap.servers={cluster.bootstrap}", flush=True)
    for node in nodes.nodes:
        if node.metrics is not None:
            say(f"metrics of {node.name}: http://{node.metrics}/metrics")
    say(f"started in {time.monotonic() - started:.1f} s; Ctrl-C stops")
    if console_port is None:
        supervise(cluster, restart=restart)
    console = ConsoleProcess.start(cluster.bootstrap, console_port)
    try:
        say(f"console: {console.address}")
        supervise(cluster, restart=restart)
    finally:
        console.stop()


def _wait_until_ready(cluster: LocalCluster, deadline: float) -> None:
    """Wait for the cluster; report regularly what is not ready, because recovery may take long.

    Raise NotReadyInTime after `deadline`.
    """
    while True:
        try:
            return cluster.wait_until_ready(PROGRESS_SECONDS)
        except NotReadyInTime as still:
            if time.monotonic() > deadline:
                raise
            say(str(still))
