"""The common parts of commands: options with both of Kafka's spellings, configuration, running.

Kafka renamed options in 4.2 (KIP-1147) and keeps the old names until 5.0: both are accepted.
"""

import asyncio
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
from ..errors import AdminError, ClientError

if TYPE_CHECKING:
    from ..admin.admin import Admin
    from ..admin.cluster_types import MetadataQuorum

INTERRUPTED = 130
F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

BOOTSTRAP_VARIABLE = "MINIKAFKA_BOOTSTRAP_SERVERS"
FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
"""The type of options that name a file to read."""


def options(*declared: Callable[[F], F]) -> Callable[[F], F]:
    """Declare several options, in the order in which the help lists them."""

    def declare(command: F) -> F:
        for option in reversed(declared):
            command = option(command)
        return command

    return declare


def bootstrap_option(*old: str, required: bool = True) -> Callable[[F], F]:
    """Declare `--bootstrap-server` and its former names; an environment variable can replace it."""
    return click.option(
        "--bootstrap-server",
        *old,
        "bootstrap",
        required=required,
        envvar=BOOTSTRAP_VARIABLE,
        show_envvar=True,
        metavar="HOST:PORT,...",
        help="Brokers to find the cluster by, as HOST:PORT,...",
    )


bootstrap_server = bootstrap_option("--broker-list")


def controllers_option(*short: str) -> Callable[[F], F]:
    """Declare `--bootstrap-controller`, for commands that can ask the controllers themselves."""
    return click.option(
        "--bootstrap-controller",
        *short,
        "controllers",
        metavar="HOST:PORT,...",
        help="Controllers to ask, as HOST:PORT,...",
    )


def one_end(bootstrap: str | None, controllers: str | None) -> str | None:
    """Return the brokers to ask, or None if the controllers are to be asked.

    Controllers given as a flag take precedence over brokers named by the environment. Raise
    UsageError if the flags name both brokers and controllers, or if nothing names either.
    """
    if controllers is not None and is_from_environment("bootstrap"):
        bootstrap = None
    if (bootstrap is None) == (controllers is None):
        raise click.UsageError("needs either --bootstrap-server or --bootstrap-controller")
    return bootstrap


def is_from_environment(parameter: str) -> bool:
    """True if the running command got this parameter from an environment variable."""
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
        help="A properties file of client settings.",
    )


def command_property(*old: str) -> Callable[[F], F]:
    """Declare `--command-property K=V` and its former names; it may be given several times."""
    return click.option(
        "--command-property",
        *old,
        "command_properties",
        multiple=True,
        metavar="KEY=VALUE",
        help="A client setting; it overrides the file's.",
    )


def read_properties_file(path: Path | None) -> dict[str, str]:
    """Read a properties file; return no properties if `path` is None."""
    return {} if path is None else parse_properties(path.read_text())


def client_settings(
    bootstrap: str | None,
    file: Path | None,
    properties: Iterable[str] = (),
    usual: Mapping[str, object] | None = None,
) -> dict[str, str]:
    """Merge the command's defaults (`usual`), the file, and the properties of the command line.

    Later ones in this order override earlier ones. `bootstrap` overrides all of them if it was
    given on the command line; if it came from the environment, the file and the properties override
    it.
    """
    texts = {key: str(value) for key, value in (usual or {}).items() if value is not None}
    merged = apply_overrides({**texts, **read_properties_file(file)}, properties)
    is_named = "bootstrap.servers" in merged
    if bootstrap is not None and not (is_named and is_from_environment("bootstrap")):
        merged["bootstrap.servers"] = bootstrap
    return merged


def split_properties(texts: Iterable[str], option: str) -> dict[str, str]:
    """Parse `key=value` texts; the value may be empty and keeps its blanks.

    Raise UsageError for another text.
    """
    properties: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise click.UsageError(f"{option} {text}: must be key=value")
        properties[key] = value
    return properties


def run(main: Coroutine[Any, Any, int]) -> None:
    """Run a command on its own loop, and exit with its result as the exit code.

    SIGTERM ends the command as Ctrl-C does, with exit code 130: `main` is cancelled, and closes
    what it has opened. This works in a shell's background too, where SIGINT is ignored.
    """

    async def until_terminated() -> int:
        task = asyncio.current_task()
        assert task is not None
        # Raised wherever the loop is, an exception would break what it interrupts.
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        return await main

    running = until_terminated()
    try:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        import logging

        import uvloop

        logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
        code = uvloop.run(running)
    except (KeyboardInterrupt, asyncio.CancelledError):
        code = INTERRUPTED
    finally:
        # An interrupt may come before `main` has begun; close it, or Python would warn of it.
        running.close()
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
    """Run a command that needs an admin, by `run` and `with_admin`.

    The admin's client id is the command's name; its settings are those of `client_settings`, with
    `usual` given as keyword names.
    """
    name = click.get_current_context().command.name
    keys = {key.replace("_", "."): value for key, value in usual.items()}
    settings = client_settings(bootstrap, file, usual={"client.id": name, **keys})
    run(with_admin(settings, do, complaint))


async def with_admin(
    settings: Mapping[str, str], do: "Callable[[Admin], Awaitable[int]]", complaint: str
) -> int:
    """Run `do` with an admin and return its exit code.

    If the cluster refuses or cannot be reached, print `complaint` and the reason, and return 1.
    """
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


async def ask_controllers(
    settings: Mapping[str, str],
    servers: str,
    show: "Callable[[str, MetadataQuorum], int]",
    complaint: str,
) -> int:
    """Ask the controllers for the cluster's id and quorum; return the exit code of `show`.

    If none of `servers` answers, print `complaint` and the reasons, and return 1.
    """
    from ...runtime.runtime import SystemRuntime
    from ...security.control_proof import open_proofs
    from ..admin.controllers import describe_quorum
    from ..config import AdminConfig, configured
    from ..net.address import Address

    addresses = [Address.parse(server.strip()) for server in servers.split(",") if server.strip()]
    config = configured(AdminConfig, [str(address) for address in addresses], dict(settings))
    try:
        runtime = SystemRuntime(config.client_id)
        cluster_id, quorum = await describe_quorum(
            runtime,
            addresses,
            timeout_ms=min(config.request_timeout_ms, config.bootstrap_timeout_ms),
            keys=open_proofs(runtime, config.control).shown,
        )
    except ClientError as error:
        say(f"{complaint}: {error}")
        return 1
    return show(cluster_id, quorum)


def refusal(error: ApiError) -> str:
    """Return the broker's error message, or the meaning of the error code if there is none."""
    return error.detail or f"{error.code.name}: {error.code.doc}"


def table(headers: list[str], rows: Iterable[list[str]]) -> list[str]:
    """Return the lines of a table as Kafka's tools print it: padded columns, each with a tab."""
    lines = [headers, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(headers))]
    return [
        "".join(f"{cell.ljust(width)}\t" for cell, width in zip(line, widths, strict=True))
        for line in lines
    ]


def by_java_name(known: Mapping[str, T], name: str, option: str) -> T:
    """Return the value in `known` for a Java class name, with or without its package.

    Raise ConfigError if there is none.
    """
    short = name.rpartition(".")[2]
    if short not in known:
        raise ConfigError(option, name, f"known are {', '.join(known)}")
    return known[short]


def say(message: str) -> None:
    """Print a message on standard error."""
    print(message, file=sys.stderr, flush=True)
