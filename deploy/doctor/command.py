"""`minikafka doctor`: flags, the report, and exit codes; the rules are in the other modules."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from ...client.cli.common import bootstrap_option, client_settings, command_config, run
from ...client.cli.terminal import shows_colours
from ...client.config import AdminConfig, configured
from ...client.net.address import Address
from ...runtime.runtime import SystemRuntime


@click.command()
@bootstrap_option()
@command_config()
@click.option(
    "--controllers",
    metavar="HOST:PORT,...",
    default="",
    help="Controllers to examine, too.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
@click.option(
    "--limit",
    type=click.IntRange(1, 10_000),
    default=10,
    show_default=True,
    metavar="N",
    help="The findings of one kind that are printed.",
)
@click.option(
    "--timeout",
    type=click.IntRange(100, 600_000),
    default=5000,
    show_default=True,
    metavar="MS",
    help="How long each question to the cluster may take.",
)
def doctor(bootstrap: str, command_config: Path | None, controllers: str, **flags: Any) -> None:
    """Examine a cluster as its clients see it: what is wrong, where, and what to do.

    Nothing is changed. Exit code 0 if nothing is wrong, 1 if something is, 2 for wrong arguments.

    \b
    minikafka doctor --bootstrap-server localhost:9092
    minikafka doctor --bootstrap-server localhost:9092 --controllers localhost:9093 --json
    """
    settings = client_settings(bootstrap, command_config, usual={"client.id": "doctor"})
    config = configured(AdminConfig, None, settings)
    addresses = [Address.parse(each.strip()) for each in controllers.split(",") if each.strip()]
    run(_examine(config, addresses, flags))


async def _examine(
    config: AdminConfig, controllers: list[Address], flags: Mapping[str, Any]
) -> int:
    from .diagnosis import diagnose
    from .examining import examine
    from .findings import grouped, is_well
    from .report import document, lines

    runtime = SystemRuntime(config.client_id)
    found = await examine(runtime, config, controllers, step_ms=flags["timeout"])
    findings = list(diagnose(found))
    groups = grouped(findings, flags["limit"])
    bootstrap = ",".join(config.bootstrap_servers)
    if flags["as_json"]:
        print(json.dumps(document(found, groups, bootstrap), indent=2))
    else:
        print("\n".join(lines(found, groups, bootstrap, colours=shows_colours(sys.stdout))))
    return 0 if is_well(findings) else 1
