"""The common parts of commands: options with both of Kafka's spellings, configuration, running.

Kafka renamed options in 4.2 (KIP-1147) and keeps the old names until 5.0: both are taken.
"""

import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from ...protocol.errors import ApiError
from ...runtime.config import apply_overrides, parse_properties
from ...runtime.errors import ConfigError, MinikafkaError
from ..errors import AdminError

if TYPE_CHECKING:
    from ..admin.admin import Admin

INTERRUPTED = 130
F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

BOOTSTRAP_VARIABLE = "MINIKAFKA_BOOTSTRAP_SERVERS"
FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
"""The type of options that name a file to read."""


def bootstrap_option(*old: str, required: bool = True) -> Callable[[F], F]:
    """Declare `--bootstrap-server` and its former names; without it the environment is asked."""
    return click.option(
        "--bootstrap-server",
        *old,
        "bootstrap",
        required=required,
        envvar=BOOTSTRAP_VARIABLE,
        show_envvar=True,
        metavar="HOST:PORT,...",
        help="Some brokers of the cluster.",
    )


bootstrap_server = bootstrap_option("--broker-list")


def is_from_environment(parameter: str) -> bool:
    """True if the environment gave the running command this parameter."""
    context = click.get_current_context(silent=True)
    source = None if context is None else context.get_parameter_source(parameter)
    return source is ParameterSource.ENVIRONMENT


def command_config(*old: str) -> Callable[[F], F]:
    """Declare `--command-config FILE` and its former names."""
    return click.option(
        "--command-config",
        *old,
        "command_config",
        type=FILE,
        metavar="FILE",
        help="Client settings, as a properties file.",
    )


def command_property(*old: str) -> Callable[[F], F]:
    """Declare `--command-property K=V` and its former names; may be given again and again."""
    return click.option(
        "--command-property",
        *old,
        "command_properties",
        multiple=True,
        metavar="KEY=VALUE",
        help="A client setting; beats the file's.",
    )


def read_properties_file(path: Path | None) -> dict[str, str]:
    """Read a properties file, or nothing."""
    return {} if path is None else parse_properties(path.read_text())


def client_settings(
    bootstrap: str | None,
    file: Path | None,
    properties: Iterable[str] = (),
    usual: Mapping[str, object] | None = None,
) -> dict[str, str]:
    """Lay the command's usual settings under the file's and the command line's properties.

    `bootstrap` beats both if it was given on the command line, and neither if the environment
    gave it: what was written for this command names the cluster that is meant.
    """
    texts = {key: str(value) for key, value in (usual or {}).items() if value is not None}
    merged = apply_overrides({**texts, **read_properties_file(file)}, properties)
    is_named = "bootstrap.servers" in merged
    if bootstrap is not None and not (is_named and is_from_environment("bootstrap")):
        merged["bootstrap.servers"] = bootstrap
    return merged


def split_properties(texts: Iterable[str], option: str) -> dict[str, str]:
    """Read `key=value` texts; the value may be empty and keeps its blanks."""
    properties: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise click.UsageError(f"{option} {text}: must be key=value")
        properties[key] = value
    return properties


def run(main: Coroutine[Any, Any, int]) -> None:
    """Run a command on its own loop; SIGTERM ends it as Ctrl-C does. Exits with its result."""

    def interrupt(number: int, frame: object) -> None:
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
            # Begun in the background of a shell: deaf to Ctrl-C, but not to being told to end.
            signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.raise_signal(signal.SIGINT)

    try:
        import logging

        import uvloop

        signal.signal(signal.SIGTERM, interrupt)
        logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
        code = uvloop.run(main)
    except KeyboardInterrupt:
        code = INTERRUPTED
    finally:
        # An interrupt may come before `main` has begun: Python would warn that nobody awaited it.
        main.close()
    sys.stdout.flush()
    raise click.exceptions.Exit(code)


def administer(
    do: "Callable[[Admin], Awaitable[int]]",
    complaint: str,
    bootstrap: str | None,
    file: Path | None,
    **usual: object,
) -> None:
    """Run a command that needs an admin, as `run` and `with_admin` do.

    The admin has the command's name, and the settings of `client_settings`; `usual` are named with
    underscores.
    """
    name = click.get_current_context().command.name
    keys = {key.replace("_", "."): value for key, value in usual.items()}
    settings = client_settings(bootstrap, file, usual={"client.id": name, **keys})
    run(with_admin(settings, do, complaint))


async def with_admin(
    settings: Mapping[str, str], do: "Callable[[Admin], Awaitable[int]]", complaint: str
) -> int:
    """Run `do` with an admin; what the cluster refuses is one line after `complaint`, code 1."""
    from ..admin.admin import Admin

    try:
        async with Admin.from_config(settings) as admin:
            return await do(admin)
    except ConfigError:
        raise
    except AdminError as error:
        why = "; ".join(f"{name}: {refusal(one)}" for name, one in error.errors.items())
    except ApiError as error:
        why = refusal(error)
    except MinikafkaError as error:
        why = str(error)
    say(f"{complaint}: {why}")
    return 1


def refusal(error: ApiError) -> str:
    """Return the broker's own words, or else the meaning of the code."""
    return error.detail or f"{error.code.name}: {error.code.doc}"


def table(headers: list[str], rows: Iterable[list[str]]) -> list[str]:
    """Lines as Kafka's tools print tables: columns padded, with a tab between them."""
    lines = [headers, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(headers))]
    return [
        "\t".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        for line in lines
    ]


def by_java_name(known: Mapping[str, T], name: str, option: str) -> T:
    """Find what a Java class name stands for, with or without its package; ConfigError if none."""
    short = name.rpartition(".")[2]
    if short not in known:
        raise ConfigError(option, name, f"known are {', '.join(known)}")
    return known[short]


def say(message: str) -> None:
    """Print a line for people, on standard error."""
    print(message, file=sys.stderr, flush=True)
