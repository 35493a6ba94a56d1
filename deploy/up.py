"""`minikafka up`: a local cluster in the foreground, until Ctrl-C or SIGTERM.

This module handles the terminal and the death of a daemon; `LocalCluster` runs the cluster.
Standard output carries only the one `ready` line.
"""

import signal
import sys
import time
from pathlib import Path
from types import FrameType
from typing import NoReturn

import click

from ..runtime.errors import ConfigError, MinikafkaError
from .console_process import ConsoleProcess
from .daemons import DaemonFailed, NotReadyInTime
from .local_cluster import STOP_SECONDS, LocalCluster

RESTART_SECONDS = 1.0
READY_SECONDS = 600.0
PROGRESS_SECONDS = 5.0
FOREVER_SECONDS = 3600.0
CONSOLE_PORT = 8090
CONTROLLER_COUNTS = (1, 3, 5)
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StopAsked(BaseException):
    """A signal asked `up` to stop."""


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
    type=click.IntRange(0, 65_535),
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
    type=click.IntRange(0, 65_535),
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
    _on_signals(_ask_to_stop)
    code = 0
    try:
        _run(cluster, restart, console_port)
    except StopAsked:
        pass
    except ConfigError as error:
        code = _say(f"minikafka up: {error}", 2)
    except DaemonFailed as error:
        code = _say(f"minikafka up: {error}", error.exit_code)
    except (MinikafkaError, OSError) as error:
        code = _say(f"minikafka up: {error}", 1)
    raise click.exceptions.Exit(max(code, _stop(cluster, quiet=code > 0)))


def _run(cluster: LocalCluster, restart: bool, console_port: int | None) -> NoReturn:
    started = time.monotonic()
    cluster.launch()
    nodes = cluster.layout
    _say(
        f"starting {_count(len(nodes.brokers), 'broker')} and "
        f"{_count(len(nodes.controllers), 'controller')} in {cluster.directory}"
    )
    _wait_until_ready(cluster, started + READY_SECONDS)
    print(f"ready bootstrap.servers={cluster.bootstrap}", flush=True)
    for node in nodes.nodes:
        if node.metrics is not None:
            _say(f"metrics of {node.name}: http://{node.metrics}/metrics")
    _say(f"started in {time.monotonic() - started:.1f} s; Ctrl-C stops")
    if console_port is None:
        _supervise(cluster, restart)
    console = ConsoleProcess.start(cluster.bootstrap, console_port)
    try:
        _say(f"console: {console.address}")
        _supervise(cluster, restart)
    finally:
        console.stop()


def _wait_until_ready(cluster: LocalCluster, deadline: float) -> None:
    """Wait for the cluster, and report now and then what is not ready: recovery may take long."""
    while True:
        try:
            return cluster.wait_until_ready(PROGRESS_SECONDS)
        except NotReadyInTime as still:
            if time.monotonic() > deadline:
                raise
            _say(str(still))


def _supervise(cluster: LocalCluster, restart: bool) -> NoReturn:
    due: dict[str, float] = {}
    while True:
        now = time.monotonic()
        wait = min(due.values(), default=now + FOREVER_SECONDS) - now
        for exited in cluster.exits(max(0.0, wait)):
            words = cluster.last_words(exited.name) if exited.status > 0 else ""
            then = "; starting it again" if restart else ""
            reason = f": {words}" if words else ""
            _say(f"{exited.name} (pid {exited.pid}) {exited.how}{reason}{then}")
            if restart:
                due[exited.name] = time.monotonic() + RESTART_SECONDS
        if not cluster.pids and not due:
            raise DaemonFailed("every daemon has ended")
        for name in [n for n, at in due.items() if at <= time.monotonic()]:
            del due[name]
            pid = cluster.restart(name, wait=False)
            _say(f"{name} started again (pid {pid})")


def _stop(cluster: LocalCluster, *, quiet: bool) -> int:
    """Stop in order; the next signal stops at once."""
    _on_signals(_ask_to_stop)
    try:
        if cluster.pids and not quiet:
            _say(f"stopping {_count(len(cluster.pids), 'daemon')}")
        killed = cluster.stop(STOP_SECONDS)
    except StopAsked:
        cluster.stop(0)
        return _say("killed what was still running", 1)
    if killed:
        return _say(f"killed what did not stop in time: {', '.join(killed)}", 1)
    return 0


def _on_signals(action: object) -> None:
    for number in SIGNALS:
        signal.signal(number, action)  # type: ignore[arg-type]


def _ask_to_stop(number: int, frame: FrameType | None) -> NoReturn:
    """Raise StopAsked, and ignore signals until `_stop` handles them again."""
    _on_signals(signal.SIG_IGN)
    raise StopAsked


def _say(message: str, code: int = 0) -> int:
    print(message, file=sys.stderr, flush=True)
    return code


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
