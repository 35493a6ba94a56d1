"""Runs a daemon process: command line, logging, signals, lifeline, readiness and exit code.

Broker and controller supply `prepare`, which reads the configuration and opens nothing, and
`start`. Exit codes: 0 for a clean stop, 1 for a failure, 2 for a wrong configuration.
"""

import asyncio
import gc
import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import click

from .config import apply_overrides, parse_properties
from .descriptors import raise_descriptor_limit
from .errors import ConfigError, InvariantViolation, MinikafkaError
from .log_output import OPTIONS, LogSettings, set_up_logging
from .runtime import Runtime, SystemRuntime
from .systemd import Systemd
from .version import VERSION

log = logging.getLogger(__name__)
STOP_WITHIN_S = 60
CLOSE_WITHIN_S = 2.0
PROPERTIES_MAX = 1 << 20
"""The most characters of a properties file, because each key in it costs about 20 KB of memory."""


class Service(Protocol):
    """A daemon that has started."""

    def ready(self) -> Mapping[str, object]:
        """Return the node id and the bound listeners, which are written to --ready-fd."""

    async def stop(self) -> None:
        """Stop cleanly: answer what can be answered, flush, write the clean-shutdown marker."""


class Stop:
    """A request to end the process; only the first reason is logged."""

    def __init__(self) -> None:
        self.requested = asyncio.Event()
        self.why = ""
        self.exit_code = 0
        self.is_clean = True

    def request(self, exit_code: int, why: str) -> None:
        """Request a clean stop. A later request can only raise the exit code."""
        self.exit_code = max(self.exit_code, exit_code)
        if not self.requested.is_set():
            log.log(logging.ERROR if exit_code else logging.INFO, "stopping: %s", why)
            self.why = why
            self.requested.set()

    def crash(self, why: str) -> None:
        """End the process without a clean stop, because wrong state must not be marked as clean."""
        self.is_clean = False
        self.request(1, why)


Start = Callable[[Runtime, Stop], Awaitable[Service]]


@dataclass(frozen=True, slots=True)
class Plan:
    """The outcome of `prepare`: how to start the daemon, and its warnings."""

    name: str
    """The name of the process in logs, such as broker-1."""
    start: Start
    warnings: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Pipes:
    """Descriptors of pipes that the launcher passed to this process."""

    lifeline: int | None = None
    """The descriptor of a pipe to read: when its other end is closed, the daemon stops cleanly."""
    ready: int | None = None
    """The descriptor of a pipe to write: it gets one line of JSON once the daemon accepts
    connections."""


def daemon_command(
    program: str,
    prepare: Callable[..., Plan],
    options: Sequence[click.Parameter] = (),
    *,
    help: str,
) -> click.Command:
    """Make the command: PROGRAM [FILE] [--override k=v] and the options of its log.

    `prepare` gets the properties, and by keyword the values of `options`, the program's own
    options and arguments.
    """

    def run(
        properties: str | None,
        override: tuple[str, ...],
        lifeline_fd: int | None,
        ready_fd: int | None,
        **logged: Any,
    ) -> None:
        try:
            own = {str(option.name): logged.pop(str(option.name)) for option in options}
            plan = prepare(load_properties(properties, override), **own)
            set_up_logging(plan.name, LogSettings(**logged))
        except ConfigError as error:
            click.echo(f"{program}: {error}", err=True)
            sys.exit(2)
        for warning in plan.warnings:
            log.warning("%s", warning)
        code = run_daemon(plan, Pipes(lifeline_fd, ready_fd))
        logging.shutdown()
        sys.exit(code)

    def show_version(context: click.Context, option: click.Parameter, wanted: bool) -> None:
        if wanted:
            click.echo(f"{program}, version {VERSION}")
            context.exit()

    return click.Command(
        program,
        context_settings={"help_option_names": ["-h", "--help"]},
        callback=run,
        help=help,
        params=[
            click.Argument(["properties"], required=False, metavar="[server.properties]"),
            click.Option(["--override"], multiple=True, metavar="KEY=VALUE", help="Set one key."),
            *options,
            click.Option(["--lifeline-fd"], type=int, help="End when this pipe is closed."),
            click.Option(["--ready-fd"], type=int, help="Write one line of JSON here when ready."),
            *OPTIONS,
            click.Option(
                ["--version"],
                is_flag=True,
                is_eager=True,
                expose_value=False,
                callback=show_version,
                help="Show the version.",
            ),
        ],
    )


def load_properties(path: str | None, overrides: Sequence[str]) -> dict[str, str]:
    """Read the properties file, if any, and apply the overrides to it.

    Raise ConfigError if the file cannot be read.
    """
    text = ""
    if path is not None:
        try:
            with open(path, encoding="utf-8") as file:
                text = file.read(PROPERTIES_MAX + 1)
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
            raise ConfigError(path, None, why or str(error)) from None
        if len(text) > PROPERTIES_MAX:
            why = f"has more than {PROPERTIES_MAX} characters: this is no properties file"
            raise ConfigError(path, None, why)
    return apply_overrides(parse_properties(text), overrides)


def run_daemon(plan: Plan, pipes: Pipes = Pipes()) -> int:
    """Run the daemon on uvloop until it is stopped, and return the exit code."""
    import uvloop

    raise_descriptor_limit()
    runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
    code = 1
    try:
        code = runner.run(_live(plan, pipes))
    except ConfigError as error:
        log.error("%s", error)
        code = 2
    except MinikafkaError as error:
        log.error("cannot start: %s", error)
    finally:
        _close(runner, code)
    return code


def _close(runner: asyncio.Runner, code: int) -> None:
    # uvloop 0.23 hangs in close() over a datagram socket whose opening was cancelled; `opened` in
    # datagrams.py avoids that. If it hangs all the same, the process exits: nothing can be lost any
    # more by then.
    late = threading.Timer(CLOSE_WITHIN_S, _exit_at_once, (code,))
    late.daemon = True
    late.start()
    runner.close()
    late.cancel()


async def _live(plan: Plan, pipes: Pipes) -> int:
    stop = Stop()
    runtime = SystemRuntime(
        plan.name, on_crash=lambda task, error: stop.crash(f"task {task} failed: {error!r}")
    )
    systemd = Systemd.from_environment()
    _watch(stop, pipes.lifeline)
    starting = asyncio.ensure_future(plan.start(runtime, stop))
    stopping = asyncio.ensure_future(stop.requested.wait())
    try:
        await asyncio.wait((starting, stopping), return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            service = starting.result()
            if not stop.requested.is_set():
                _tell_ready(service, pipes.ready, systemd)
                # Objects that exist now live long, so the collector need not walk them again.
                gc.collect()
                gc.freeze()
            await stopping
            if systemd is not None:
                systemd.stopping(stop.why)
            await _end(service, stop)
        elif stop.is_clean:
            starting.cancel()
            await asyncio.wait((starting,), timeout=STOP_WITHIN_S)
    finally:
        stopping.cancel()
        if not stop.is_clean:
            _exit_at_once()
        runtime.close()
    return stop.exit_code


async def _end(service: Service, stop: Stop) -> None:
    if not stop.is_clean:
        return
    try:
        async with asyncio.timeout(STOP_WITHIN_S):
            await service.stop()
    except TimeoutError:
        stop.crash("the clean stop took too long")
    except MinikafkaError as error:
        stop.request(1, str(error))
        log.error("the stop was not clean: %s", error)
        stop.exit_code = 1


def _exit_at_once(code: int = 1) -> None:
    logging.shutdown()
    os._exit(code)


def _watch(stop: Stop, lifeline: int | None) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.request, 0, number.name)

    def on_exception(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        log.error("%s", context.get("message"), exc_info=error)
        if isinstance(error, InvariantViolation):
            stop.crash(f"invariant violated: {error}")

    loop.set_exception_handler(on_exception)
    if lifeline is not None:

        def on_readable() -> None:
            if not os.read(lifeline, 4096):
                loop.remove_reader(lifeline)
                stop.request(0, "the launcher is gone")

        os.set_blocking(lifeline, False)
        loop.add_reader(lifeline, on_readable)


def _tell_ready(service: Service, ready: int | None, systemd: Systemd | None) -> None:
    line = json.dumps(service.ready())
    log.info("ready %s", line)
    if systemd is not None:
        systemd.ready(line)
    if ready is None:
        return
    try:
        os.write(ready, f"{line}\n".encode())
        os.close(ready)
    except BrokenPipeError:
        log.warning("nobody waits on the ready pipe")
