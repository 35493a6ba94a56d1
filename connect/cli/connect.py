"""`minikafka connect`: connectors of a running worker, and folders of them, from the shell."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import click

from ...client.cli.common import FILE, say, split_properties, table
from ...runtime.errors import ConfigError
from ..connector_files import STATES, ConnectorFile, read_connector, read_folder
from ..java_offsets import NoOffsetsFile, read_java_offsets
from .api import ConnectApi, Refused
from .planning import Change, changes

DEFAULT_URL: Final = "http://localhost:8083"
CHANGES: Final = 3
"""The exit code of `plan` if there is something to change."""

_url = click.option(
    "--url",
    "api",
    default=DEFAULT_URL,
    show_default=True,
    envvar="MINIKAFKA_CONNECT_URL",
    show_envvar=True,
    metavar="URL",
    callback=lambda context, parameter, url: ConnectApi(url),
    help="The REST API of any worker of the group.",
)
_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_name = click.argument("name")
_names = click.argument("names", nargs=-1, required=True, metavar="NAME...")
_folder = click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
_prune = click.option("--prune", is_flag=True, help="Delete connectors that no file describes.")


@click.group("connect")
def connect() -> None:
    """List, create, change and watch the connectors of running workers.

    The exit code is 0 if all went well, 1 if the worker refuses or does not answer, or if what was
    asked about has failed, 2 for wrong arguments or files, and 3 if a plan has changes.

    \b
    minikafka connect create orders.json
    minikafka connect status orders
    minikafka connect plan connectors/ && minikafka connect apply connectors/
    """


@connect.command("list")
@_url
@_json
def list_(api: ConnectApi, as_json: bool) -> None:
    """List connectors with their states.

    \b
    minikafka connect list
    minikafka connect list --json | jq keys
    """
    found = api.ask("GET", "connectors", query="expand=status&expand=info")
    if as_json:
        return _print_json(found)
    rows = []
    for name in sorted(found):
        status = found[name]["status"]
        states = [task["state"] for task in status["tasks"]]
        tasks = f"{states.count('RUNNING')}/{len(states)}"
        cls = found[name]["info"]["config"].get("connector.class", "")
        worker = status["connector"]["worker_id"]
        rows.append([name, status["type"], status["connector"]["state"], tasks, worker, cls])
    _print_table(["NAME", "TYPE", "STATE", "RUNNING", "WORKER", "CLASS"], rows)


@connect.command()
@_url
@_json
@_name
def status(api: ConnectApi, as_json: bool, name: str) -> None:
    """Tell the state of a connector and of each task; exit with 1 if one of them has failed.

    \b
    minikafka connect status orders
    minikafka connect status orders --json
    """
    found = api.ask("GET", "connectors", name, "status")
    parts = [("connector", found["connector"])]
    parts += [(f"task {task['id']}", task) for task in found["tasks"]]
    if as_json:
        _print_json(found)
    else:
        rows = [[what, part["state"], part["worker_id"]] for what, part in parts]
        _print_table([name, "STATE", "WORKER"], rows)
        for what, part in parts:
            if part.get("trace"):
                print(f"\n{what}:\n{part['trace'].rstrip()}")
    if any(part["state"] == "FAILED" for _, part in parts):
        raise click.exceptions.Exit(1)


@connect.command()
@_url
@_json
@_name
def config(api: ConnectApi, as_json: bool, name: str) -> None:
    """Print the configuration of a connector, as KEY=VALUE lines.

    \b
    minikafka connect config orders
    """
    found = api.ask("GET", "connectors", name, "config")
    if as_json:
        return _print_json(found)
    for key in sorted(found):
        print(f"{key}={found[key]}")


@connect.command()
@_url
@click.option(
    "--state",
    type=click.Choice(list(STATES), case_sensitive=False),
    help="The state to create it in. [default: what the file says, or RUNNING]",
)
@click.argument("files", nargs=-1, required=True, type=FILE, metavar="FILE...")
def create(api: ConnectApi, state: str | None, files: tuple[Path, ...]) -> None:
    """Create connectors from files, .json or .properties; one that exists is refused.

    \b
    minikafka connect create orders.json
    minikafka connect create orders.properties --state STOPPED
    """
    for one in [read_connector(path) for path in files]:
        _create(api, one, state or one.state)
        print(f"created {one.name}")


@connect.command()
@_url
@_name
@click.argument("file", required=False, type=FILE)
@click.option("--set", "given", multiple=True, metavar="KEY=VALUE", help="Set one key.")
@click.option("--unset", multiple=True, metavar="KEY", help="Remove one key.")
def update(
    api: ConnectApi, name: str, file: Path | None, given: tuple[str, ...], unset: tuple[str, ...]
) -> None:
    """Replace a connector's configuration by that of a file, or change some keys of it.

    \b
    minikafka connect update orders orders.json
    minikafka connect update orders --set tasks.max=4 --unset transforms
    """
    if (file is None) == (not given and not unset):
        raise click.UsageError("needs either a file, or --set and --unset")
    if file is not None:
        one = read_connector(file)
        if one.name != name:
            raise ConfigError(str(file), None, f"describes {one.name}, not {name}")
        api.ask("GET", "connectors", name)  # a PUT would create it
        api.ask("PUT", "connectors", name, "config", body=one.config)
    else:
        patch = {**split_properties(given, "--set"), **dict.fromkeys(unset)}
        api.ask("PATCH", "connectors", name, "config", body=patch)
    print(f"updated {name}")


def _verb(verb: str, method: str, done: str, *path: str, help: str) -> None:
    """Declare a command that sends the same request for each connector named."""

    @connect.command(verb, help=f"{help}\n\n\b\nminikafka connect {verb} orders")
    @_url
    @_names
    def command(api: ConnectApi, names: tuple[str, ...]) -> None:
        for name in names:
            api.ask(method, "connectors", name, *path)
            print(f"{done} {name}")


_verb("delete", "DELETE", "deleted", help="Delete connectors; their topics and groups stay.")
_verb("pause", "PUT", "pausing", "pause", help="Pause connectors; their tasks stay where they are.")
_verb("resume", "PUT", "resuming", "resume", help="Let paused or stopped connectors run again.")
_verb("stop", "PUT", "stopping", "stop", help="Stop connectors and end their tasks.")


@connect.command()
@_url
@_name
@click.option("--tasks", is_flag=True, help="Its tasks as well.")
@click.option("--only-failed", is_flag=True, help="Only what has failed.")
@click.option("--task", type=click.IntRange(min=0), help="This task, and nothing else.")
def restart(api: ConnectApi, name: str, tasks: bool, only_failed: bool, task: int | None) -> None:
    """Restart a connector, its tasks, or what of them has failed.

    \b
    minikafka connect restart orders --tasks --only-failed
    minikafka connect restart orders --task 2
    """
    if task is not None:
        api.ask("POST", "connectors", name, "tasks", str(task), "restart")
        print(f"restarting {name}-{task}")
        return
    query = f"includeTasks={str(tasks).lower()}&onlyFailed={str(only_failed).lower()}"
    plan = api.ask("POST", "connectors", name, "restart", query=query)
    if plan is None or plan["connector"]["state"] == "RESTARTING":
        print(f"restarting {name}")
    for one in (plan or {"tasks": []})["tasks"]:
        if one["state"] == "RESTARTING":
            print(f"restarting {name}-{one['id']}")


@connect.command()
@_url
@_json
@click.argument("logger", required=False)
@click.argument("level", required=False)
@click.option("--cluster", is_flag=True, help="Set the level on all workers.")
def logs(
    api: ConnectApi, as_json: bool, logger: str | None, level: str | None, cluster: bool
) -> None:
    """Show the levels of a worker's loggers, or set one and those below it.

    \b
    minikafka connect logs
    minikafka connect logs minikafka.connect DEBUG --cluster
    """
    if logger is not None and level is not None:
        scope = "scope=cluster" if cluster else ""
        path = ("admin", "loggers", logger)
        changed = api.ask("PUT", *path, body={"level": level.upper()}, query=scope)
        return _print_json(changed) if as_json else print(f"{logger} is {level.upper()}")
    found = api.ask("GET", "admin", "loggers")
    if logger is not None:
        found = {logger: api.ask("GET", "admin", "loggers", logger)}
    if as_json:
        return _print_json(found)
    _print_table(["LOGGER", "LEVEL"], [[name, found[name]["level"]] for name in sorted(found)])


@connect.group()
def offsets() -> None:
    """Show, set and reset the offsets of connectors; to change them a connector must be stopped."""


@offsets.command("show")
@_url
@_name
def show_offsets(api: ConnectApi, name: str) -> None:
    """Print a connector's offsets as JSON, which `offsets set` reads.

    \b
    minikafka connect offsets show orders > offsets.json
    """
    _print_json(api.ask("GET", "connectors", name, "offsets"))


@offsets.command("set")
@_url
@_name
@click.argument("file", type=FILE)
def set_offsets(api: ConnectApi, name: str, file: Path) -> None:
    """Set offsets from a file like the output of `offsets show`; a null removes one.

    \b
    minikafka connect stop orders
    minikafka connect offsets set orders offsets.json
    minikafka connect resume orders
    """
    try:
        body = json.loads(file.read_text())
    except (ValueError, OSError) as error:
        raise ConfigError(str(file), None, f"cannot be read: {error}") from None
    print(api.ask("PATCH", "connectors", name, "offsets", body=body)["message"])


@offsets.command("import")
@_url
@click.argument("file", type=FILE)
@click.argument("names", nargs=-1, metavar="[NAME]...")
def import_offsets(api: ConnectApi, file: Path, names: tuple[str, ...]) -> None:
    """Take over the offsets file of Apache Kafka's standalone worker.

    Each connector of the file, or of NAMEs, must be there and stopped; its offsets are set.

    \b
    minikafka connect create orders.json --state STOPPED
    minikafka connect offsets import /tmp/connect.offsets orders
    minikafka connect resume orders
    """
    try:
        found = read_java_offsets(file.read_bytes())
    except NoOffsetsFile as error:
        raise ConfigError(str(file), None, str(error)) from None
    for name in names or found:
        if name not in found:
            raise ConfigError(str(file), None, f"has no offsets of connector {name}")
        body = {"offsets": found[name]}
        api.ask("PATCH", "connectors", name, "offsets", body=body)
        print(f"set {len(found[name])} offsets of {name}")


@offsets.command("reset")
@_url
@_name
def reset_offsets(api: ConnectApi, name: str) -> None:
    """Remove all offsets of a connector: it begins anew.

    \b
    minikafka connect offsets reset orders
    """
    print(api.ask("DELETE", "connectors", name, "offsets")["message"])


@connect.command()
@_url
@_json
@click.option("--all", "everything", is_flag=True, help="Converters, transformations, ... too.")
@click.argument("plugin", required=False)
def plugins(api: ConnectApi, as_json: bool, everything: bool, plugin: str | None) -> None:
    """List the plugins of a worker, or the keys of one.

    \b
    minikafka connect plugins --all
    minikafka connect plugins FileStreamSource
    """
    if plugin is not None:
        found = api.ask("GET", "connector-plugins", plugin, "config")
        rows = [
            [key["name"], key["type"], "(required)" if key["required"] else key["default_value"]]
            for key in found
        ]
        headers = ["KEY", "TYPE", "DEFAULT"]
    else:
        query = f"connectorsOnly={str(not everything).lower()}"
        found = api.ask("GET", "connector-plugins", query=query)
        rows = [[one["class"], one["type"], one["version"]] for one in found]
        headers = ["CLASS", "TYPE", "VERSION"]
    if as_json:
        return _print_json(found)
    _print_table(headers, [["" if cell is None else cell for cell in row] for row in rows])


@connect.command()
@_url
@_json
@_prune
@_folder
def plan(api: ConnectApi, as_json: bool, prune: bool, folder: Path) -> None:
    """Show how the connectors in a folder of files differ from those that run; change nothing.

    Exits with 0 if there is nothing to do, with 3 if there is, and with 1 if a file is not valid.

    \b
    minikafka connect plan connectors/ --prune
    """
    found = _plan(api, folder, prune)
    wrong = _wrong(api, found)
    _print_plan(found, wrong, as_json)
    raise click.exceptions.Exit(1 if wrong else CHANGES if found else 0)


@connect.command()
@_url
@_prune
@_folder
def apply(api: ConnectApi, prune: bool, folder: Path) -> None:
    """Make the connectors that run like those in a folder of files; show the plan first.

    Nothing is changed if a file is not valid. What was done before a refusal stays done.

    \b
    minikafka connect apply connectors/
    """
    found = _plan(api, folder, prune)
    wrong = _wrong(api, found)
    _print_plan(found, wrong, False)
    if wrong:
        raise click.exceptions.Exit(1)
    for change in found:
        if change.action == "create":
            one = ConnectorFile(change.name, dict(change.config), change.state)
            _create(api, one, change.state)
        elif change.action == "update":
            api.ask("PUT", "connectors", change.name, "config", body=change.config)
        else:
            api.ask("DELETE", "connectors", change.name)
        print(f"{change.action}d {change.name}")


def _create(api: ConnectApi, one: ConnectorFile, state: str) -> None:
    body = {"name": one.name, "config": one.config, "initial_state": state.upper()}
    api.ask("POST", "connectors", body=body)


def _plan(api: ConnectApi, folder: Path, prune: bool) -> list[Change]:
    wanted = read_folder(folder)
    running = api.ask("GET", "connectors", query="expand=info")
    there = {name: found["info"]["config"] for name, found in running.items()}
    return changes(wanted, there, prune=prune)


def _wrong(api: ConnectApi, found: Iterable[Change]) -> dict[str, list[str]]:
    """Return by connector what its worker finds wrong with the new configuration."""
    wrong: dict[str, list[str]] = {}
    for change in found:
        if change.action == "delete":
            continue
        plugin = change.config.get("connector.class", "none")
        path = ("connector-plugins", plugin, "config", "validate")
        try:
            told = api.ask("PUT", *path, body=change.config)
        except Refused as error:
            if error.status != 400:
                raise
            wrong[change.name] = [str(error)]
            continue
        errors = [error for each in told["configs"] for error in each["value"]["errors"]]
        if errors:
            wrong[change.name] = errors
    return wrong


def _print_plan(found: list[Change], wrong: Mapping[str, list[str]], as_json: bool) -> None:
    if as_json:
        told = [{**change.as_json(), "errors": wrong.get(change.name, [])} for change in found]
        return _print_json(told)
    if not found:
        print("nothing to do")
    for change in found:
        for line in change.lines():
            print(line)
        for error in wrong.get(change.name, []):
            say(f"    ! {error}")


def _print_json(value: Any) -> None:
    print(json.dumps(value, indent=2))


def _print_table(headers: list[str], rows: list[list[str]]) -> None:
    for line in table(headers, rows):
        print(line.rstrip())
