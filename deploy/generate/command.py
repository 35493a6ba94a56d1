"""`minikafka generate`: write files for monitoring and for running a cluster.

This module has the flags, and writes to a directory, a file or standard output. It connects to
no cluster.
"""

import re
from collections.abc import Callable, Iterable
from pathlib import Path, PurePosixPath
from typing import Final

import click

from ...client.cli.common import options
from ...runtime.config import PORT_MAX
from ...runtime.errors import ConfigError
from ...runtime.version import VERSION

RUNBOOK_URL: Final = "https://minikafka.example/docs/monitoring.md"
OPERATIONS_URL: Final = "https://minikafka.example/docs/operations.md"
_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")

Callback = Callable[[click.Context, click.Parameter, str], str]


@click.group("generate")
def generate() -> None:
    """Write files for monitoring a cluster and for running it.

    \b
    minikafka generate key --output control.key
    minikafka generate certificates --controllers 101=10.0.0.1 --brokers 1,2 --output DIR
    minikafka generate systemd --controllers 101=10.0.0.1 --brokers 1=10.0.0.1 --output DIR
    minikafka generate compose --output DIR
    minikafka generate helm --output DIR
    minikafka generate prometheus --data DIR --rules alerts.yml --output prometheus.yml
    minikafka generate alerts --output alerts.yml
    minikafka generate grafana --output minikafka.json
    minikafka generate man --output /usr/local/share/man/man1
    """


def _matching(pattern: str, why: str) -> Callback:
    """Return a callback that refuses a value unless all of it matches."""
    compiled = re.compile(pattern, re.ASCII)

    def check(context: click.Context, parameter: click.Parameter, value: str) -> str:
        if not compiled.fullmatch(value):
            raise click.BadParameter(why)
        return value

    return check


_job = _matching(
    r"[A-Za-z0-9][A-Za-z0-9._:-]{0,99}", "must be letters, digits and . _ : -, 100 at most"
)
_duration = _matching(
    r"[1-9]\d{0,4}(ms|s|m|h|d)", "must be a number with ms, s, m, h or d, as in 15s"
)
_path = _matching(
    r"(?!.*\.\.)/[A-Za-z0-9._/-]{1,200}",
    "must be an absolute path of letters, digits and . _ - / without ..",
)
_user = _matching(
    r"[a-z_][a-z0-9_-]{0,31}", "must be a user's name: small letters, digits, _ and -"
)
_image = _matching(
    r"[a-z0-9][a-z0-9._:/-]{0,200}:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}",
    "must be NAME:TAG, as in registry.example/minikafka:0.2.0",
)
_quantity = _matching(r"[1-9]\d{0,8}(?:Mi|Gi|Ti|M|G|T)", "must be a size as in 20Gi")


def _topics(context: click.Context, parameter: click.Parameter, value: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(value.split(","))) if value else ()
    for name in names:
        if not _TOPIC.fullmatch(name):
            raise click.BadParameter(f"{name!r} is no name of a topic")
    return names


def _printable(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    if value is not None and not (value and value.isprintable()):
        raise click.BadParameter("must be printable text")
    return value


_output = click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file to write. [default: standard output]",
)


_job_option = click.option(
    "--job",
    default="minikafka",
    show_default=True,
    callback=_job,
    help="The name of the cluster among those that Prometheus scrapes.",
)


@generate.command()
@click.option(
    "--targets",
    metavar="[NAME=]HOST:PORT,...",
    help="The metrics listener of a daemon; NAME is like broker-1 or controller-3001.",
)
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory of a cluster of `minikafka up --data`: its daemons are targets too.",
)
@_job_option
@click.option(
    "--interval",
    default="15s",
    show_default=True,
    callback=_duration,
    help="Time between scrapes, and between evaluations of the rules.",
)
@click.option(
    "--rules",
    callback=_printable,
    metavar="FILE",
    help="The path of the alerts' file, relative to the file of the config.",
)
@_output
def prometheus(
    targets: str | None,
    data: Path | None,
    job: str,
    interval: str,
    rules: str | None,
    output: Path | None,
) -> None:
    """Write a configuration of Prometheus that scrapes a cluster.

    \b
    minikafka generate prometheus --targets broker-1=10.0.0.1:9404,broker-2=10.0.0.2:9404
    minikafka generate prometheus --data DIR --rules alerts.yml --output prometheus.yml
    """
    from .prometheus import parse_targets, scrape_config, targets_in

    if targets is None and data is None:
        raise click.UsageError("one of --targets and --data names what is scraped")
    found = [*parse_targets(targets)] if targets is not None else []
    if data is not None:
        found += targets_in(data)
    _write(scrape_config(found, job, interval, rules), output)


@generate.command()
@_job_option
@click.option(
    "--lag-seconds",
    type=click.IntRange(min=1),
    default=300,
    show_default=True,
    help="The lag of a group that raises an alert, as the age of the oldest unread record.",
)
@click.option(
    "--topics",
    default="",
    metavar="TOPIC,...",
    callback=_topics,
    help="Topics that regularly receive records; the alert NoMessagesForTooLong watches them.",
)
@click.option(
    "--silence",
    default="15m",
    show_default=True,
    callback=_duration,
    help="The time without a record that raises the alert for --topics.",
)
@click.option(
    "--runbook-url",
    default=RUNBOOK_URL,
    show_default=True,
    callback=_printable,
    help="The URL of the runbook, which has an anchor for each alert.",
)
@_output
def alerts(
    job: str,
    lag_seconds: int,
    topics: tuple[str, ...],
    silence: str,
    runbook_url: str,
    output: Path | None,
) -> None:
    """Write alerting rules of Prometheus.

    \b
    minikafka generate alerts --output alerts.yml
    minikafka generate alerts --lag-seconds 60 --topics orders,payments --silence 30m
    """
    from .alerts import Patience, rules

    _write(rules(job, Patience(lag_seconds, topics, silence), runbook_url), output)


@generate.command()
@_output
def grafana(output: Path | None) -> None:
    """Write a dashboard of Grafana, as JSON to import.

    \b
    minikafka generate grafana --output minikafka.json
    """
    from .grafana import dashboard

    _write(dashboard(), output)


@generate.command()
@click.option(
    "--output",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file to write; one that exists is left as it is.",
)
def key(output: Path) -> None:
    """Write the key that brokers and controllers of one cluster share, control.psk.file.

    Only the user who runs this may read the file. Copy it to every host by a way that is safe.

    \b
    minikafka generate key --output control.key
    """
    from ..control_key import make_key

    try:
        make_key(output)
    except OSError as error:
        raise ConfigError("output", str(output), f"cannot be written: {error.strerror}") from error


@generate.command()
@click.option(
    "--controllers",
    default="",
    metavar="ID=HOST,...",
    help="The controllers and their hosts; an id that comes again has one more host.",
)
@click.option("--brokers", default="", metavar="ID,...", help="The ids of the brokers.")
@click.option(
    "--operators", default="", metavar="NAME,...", help="Who asks controllers with tools."
)
@click.option(
    "--days",
    type=click.IntRange(1, 3650),
    default=365,
    show_default=True,
    help="The days for which certificates hold.",
)
@click.option(
    "--output",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="The directory to write; the authority in it signs again.",
)
def certificates(controllers: str, brokers: str, operators: str, days: int, output: Path) -> None:
    """Write the certificates with which nodes of a cluster prove themselves, control.ssl.*.

    Each node gets its own file and control-ca.pem. Keep control-ca.key away from them: whoever has
    it can pose as any node.

    \b
    minikafka generate certificates --output certificates \\
        --controllers 101=10.0.0.1,102=10.0.0.2,103=10.0.0.3 --brokers 1,2,3
    """
    from ..certificates import (
        make_certificates,
        parse_brokers,
        parse_controllers,
        parse_operators,
    )

    hosts = parse_controllers(controllers)
    hosts |= {name: [] for name in (*parse_brokers(brokers), *parse_operators(operators))}
    try:
        for path in make_certificates(output, hosts, days):
            click.echo(path)
    except OSError as error:
        raise ConfigError("output", str(output), f"cannot be written: {error.strerror}") from error


_directory = click.option(
    "--output",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="The directory to write; files of an earlier call are replaced.",
)


@generate.command()
@click.option(
    "--controllers",
    required=True,
    metavar="ID=HOST[:PORT],...",
    help="One, three or five controllers and their hosts. [default port: 9093]",
)
@click.option(
    "--brokers",
    required=True,
    metavar="ID=HOST[:PORT],...",
    help="The brokers and their hosts; a host is a rack. [default port: 9092]",
)
@click.option(
    "--prefix",
    default="/opt/minikafka",
    show_default=True,
    callback=_path,
    help="The Python environment on the hosts, with bin/minikafka-broker in it.",
)
@click.option(
    "--config-dir",
    default="/etc/minikafka",
    show_default=True,
    callback=_path,
    help="Where properties files go on the hosts.",
)
@click.option(
    "--data-dir",
    default="/var/lib/minikafka",
    show_default=True,
    callback=_path,
    help="Where the daemons keep their data on the hosts.",
)
@click.option(
    "--user", default="minikafka", show_default=True, callback=_user, help="Who runs the daemons."
)
@click.option(
    "--metrics-port",
    type=click.IntRange(1, PORT_MAX),
    help="Serve metrics at this port of the host, other daemons at those after it.",
)
@_directory
def systemd(
    controllers: str,
    brokers: str,
    prefix: str,
    config_dir: str,
    data_dir: str,
    user: str,
    metrics_port: int | None,
    output: Path,
) -> None:
    """Write systemd units and properties for each host, and a script that installs them.

    The directory gets a folder per host. Copy it to its host and run its install.sh there as root.
    Each folder has a copy of the cluster's key; a later call for the directory keeps that key.

    \b
    minikafka generate systemd --output hosts \\
        --controllers 101=10.0.0.1,102=10.0.0.2,103=10.0.0.3 \\
        --brokers 1=10.0.0.1,2=10.0.0.2,3=10.0.0.3
    """
    from ..control_key import NAME, key_text
    from .hosts import parse_members
    from .systemd import Installation, files

    data = PurePosixPath(data_dir)
    members = parse_members(controllers, brokers, data, metrics_port)
    there = Installation(
        PurePosixPath(prefix), PurePosixPath(config_dir), data, user, OPERATIONS_URL
    )
    key = key_text(sorted(output.glob(f"*/{NAME}")))
    _write_all(files(members, there, key), output)


_sized = options(
    click.option(
        "--brokers",
        type=click.IntRange(1, 999),
        default=3,
        show_default=True,
        help="Number of brokers.",
    ),
    click.option(
        "--controllers",
        type=click.Choice(("1", "3", "5")),
        default="3",
        show_default=True,
        help="Number of controllers: a majority must live.",
    ),
    click.option(
        "--image",
        default=f"minikafka:{VERSION}",
        show_default=True,
        callback=_image,
        metavar="NAME:TAG",
        help="The image of the daemons.",
    ),
)


@generate.command()
@_sized
@click.option(
    "--port",
    type=click.IntRange(1024, PORT_MAX),
    default=9092,
    show_default=True,
    help="The port of the first broker on this machine, the others at those after it.",
)
@_directory
def compose(brokers: int, controllers: str, image: str, port: int, output: Path) -> None:
    """Write a container image's recipe and a compose file that runs a cluster of it.

    \b
    minikafka generate compose --output DIR
    docker compose --project-directory DIR up --build --wait
    minikafka topics --bootstrap-server localhost:9092 --list
    """
    from .compose import Composed, files

    if port + brokers - 1 > PORT_MAX:
        raise click.BadParameter(f"{brokers} brokers need ports above {PORT_MAX}")
    _write_all(files(Composed(brokers, int(controllers), port, image, VERSION)), output)


@generate.command()
@_sized
@click.option(
    "--storage",
    default="20Gi",
    show_default=True,
    callback=_quantity,
    help="The size of each broker's volume.",
)
@_directory
def helm(brokers: int, controllers: str, image: str, storage: str, output: Path) -> None:
    """Write a Helm chart with the values of one cluster.

    The image is that of `minikafka generate compose`, in a registry that the nodes reach.

    \b
    minikafka generate helm --output chart --image registry.example/minikafka:0.2.0
    helm install logs ./chart
    """
    from .helm import Charted, files

    _write_all(files(Charted(brokers, int(controllers), image, storage, VERSION)), output)


@generate.command()
@_directory
def man(output: Path) -> None:
    """Write the manual pages of minikafka, its commands and its daemons.

    \b
    minikafka generate man --output /usr/local/share/man/man1
    man minikafka-topics
    """
    from .man import files

    _write_all(files(), output)


def _write(text: str, output: Path | None) -> None:
    if output is None:
        click.echo(text, nl=False)
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError("output", str(output), f"cannot be written: {error.strerror}") from error


def _write_all(files: Iterable[tuple[PurePosixPath, str]], output: Path) -> None:
    """Write files below the directory: scripts are executable, keys are the user's alone.

    Raise ConfigError if that fails.
    """
    try:
        for path, text in files:
            (output / path).parent.mkdir(parents=True, exist_ok=True)
            if path.suffix == ".key":
                (output / path).touch(0o600)
            _write(text, output / path)
            if path.suffix == ".sh":
                (output / path).chmod(0o755)
    except OSError as error:
        raise ConfigError("output", str(output), f"cannot be written: {error.strerror}") from error
