"""`minikafka mirror`: runs the flows of mm2.properties, and tells where groups are."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from ...client.cli.common import FILE, read_properties_file, run, say
from ...runtime.daemon import Plan, Stop, daemon_command
from ...runtime.errors import ConfigError, MinikafkaError
from ...runtime.runtime import Runtime
from ..config_def import BadConfig
from .mm2_config import Flow, Mm2Config

CLUSTERS = click.Option(
    ["--clusters"], metavar="B,...", help="Run only the flows into these clusters."
)


class FileOrCommand(click.Group):
    """A group whose first argument may be the file of `run`, which then need not be named."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; anything that names none is an argument of `run`."""
        return super().resolve_command(ctx, args if args[0] in self.commands else ["run", *args])


@click.group("mirror", cls=FileOrCommand, context_settings={"ignore_unknown_options": True})
def mirror() -> None:
    """Mirror topics, offsets of groups and heartbeats between clusters, as MirrorMaker 2 does.

    \b
    minikafka mirror mm2.properties
    minikafka mirror mm2.properties --clusters backup
    minikafka mirror status mm2.properties
    """


def load(properties: dict[str, str], clusters: str | None) -> tuple[Mm2Config, list[Flow]]:
    """Return the configuration and its flows. Raise ConfigError if it is wrong."""
    wanted = None if clusters is None else [each.strip() for each in clusters.split(",")]
    try:
        config = Mm2Config(properties, _resolver(properties))
        return config, config.flows(wanted)
    except BadConfig as error:
        raise ConfigError("mm2.properties", None, str(error)) from None


def _resolver(properties: dict[str, str]) -> Callable[[Mapping[str, str]], Mapping[str, str]]:
    if not properties.get("config.providers"):
        return dict
    from ..plugins import Plugins
    from ..providers import ConfigProviders

    return ConfigProviders(properties, Plugins().find).resolve


def prepare(properties: dict[str, str], clusters: str | None) -> Plan:
    """Read the file; nothing is opened. Raise ConfigError if it is wrong."""
    config, flows = load(properties, clusters)
    if not flows:
        raise ConfigError("mm2.properties", None, "has no flow to run: set A->B.enabled = true")

    async def start(runtime: Runtime, stop: Stop) -> Any:
        from .flow_worker import FlowWorker
        from .flows import Mirroring

        async def start_worker(props: dict[str, str]) -> FlowWorker:
            worker = FlowWorker(runtime, props)
            await worker.start()
            return worker

        mirroring = Mirroring(config, flows, start_worker)
        try:
            await mirroring.start()
        except BaseException:
            await mirroring.stop()
            raise
        return mirroring

    warnings = [f"{key}: has no meaning here" for key in config.unused()]
    return Plan("mirror", start, warnings)


mirror.add_command(
    daemon_command(
        "run",
        prepare,
        [CLUSTERS],
        help="""Run the flows of a file, until Ctrl-C or SIGTERM; `run` need not be named.

        \b
        minikafka mirror mm2.properties --clusters backup
        """,
    )
)


@mirror.command()
@click.argument("file", type=FILE, metavar="mm2.properties")
@click.option("--clusters", metavar="B,...", help="Only flows into these clusters.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, an object for each line.")
def status(file: Path, clusters: str | None, as_json: bool) -> None:
    """Tell where each group is at the source, where it would go on at the target, and both lags.

    It asks the clusters, and needs no running mirror. TRANSLATED is the newest checkpoint.

    \b
    minikafka mirror status mm2.properties
    minikafka mirror status mm2.properties --json | jq .target_lag
    """
    from .status import lines_of, places_of

    config, flows = load(read_properties_file(file), clusters)

    async def ask() -> int:
        try:
            found = [place for flow in flows for place in await places_of(config, flow)]
        except MinikafkaError as error:
            say(f"Error while executing mirror command: {error}")
            return 1
        lines = [json.dumps(each._asdict()) for each in found] if as_json else lines_of(found)
        print("\n".join(lines))
        return 0

    run(ask())
