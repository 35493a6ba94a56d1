"""`minikafka client-metrics`: subscriptions to the metrics that clients push (KIP-714).

Owns flags, Kafka's texts and exit codes; the admin client does the work.
"""

import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...protocol.client_metrics import SELECTORS
from ...protocol.messages.describe_configs import ResourceType
from ...protocol.messages.incremental_alter_configs import ConfigOperation
from ...protocol.types import uuid_to_text
from ..admin.config_types import ConfigChange, ConfigResource
from .common import administer, bootstrap_server, command_config

if TYPE_CHECKING:
    from ..admin.admin import Admin

COMPLAINT = "Error while executing client metrics command "
ACTIONS = ("alter", "delete", "describe", "list")
OF_ALTER = ("generate_name", "interval", "match", "metrics")


@click.command("client-metrics")
@bootstrap_server
@command_config()
@click.option("--alter", is_flag=True, help="Make or change a subscription.")
@click.option("--delete", is_flag=True, help="Delete a subscription.")
@click.option("--describe", is_flag=True, help="Print the settings of subscriptions.")
@click.option("--list", is_flag=True, help="Print the names of subscriptions.")
@click.option("--name", help="The subscription's name.")
@click.option("--generate-name", is_flag=True, help="Name it by a new unique id.")
@click.option("--interval", type=int, metavar="MS", help="How often clients push.")
@click.option("--metrics", metavar="PREFIX,...", help='Prefixes of names; "*" is every metric.')
@click.option(
    "--match",
    metavar="SELECTOR=REGEX,...",
    help=f"The clients asked, all where it is unset. Selectors: {', '.join(SELECTORS)}.",
)
def client_metrics(bootstrap: str, command_config: Path | None, **flags: Any) -> None:
    """Ask clients for their metrics: brokers show at /metrics what the clients push.

    An empty text given to --metrics or --match unsets it.

    \b
    minikafka client-metrics --bootstrap-server localhost:9092 --alter --name producers \\
        --metrics org.apache.kafka.producer. --interval 60000
    minikafka client-metrics --bootstrap-server localhost:9092 --alter --generate-name \\
        --metrics "*" --match client_id=app-.*,client_software_name=librdkafka
    minikafka client-metrics --bootstrap-server localhost:9092 --describe
    minikafka client-metrics --bootstrap-server localhost:9092 --delete --name producers
    """
    action = _action(flags)
    do = {"alter": _alter, "delete": _delete, "describe": _describe, "list": _list}[action]

    async def carry_out(admin: "Admin") -> int:
        await do(admin, flags)
        return 0

    administer(carry_out, COMPLAINT, bootstrap, command_config)


def _action(flags: Mapping[str, Any]) -> str:
    """Return the one action that the flags name; raise UsageError if they do not fit together."""
    actions = [each for each in ACTIONS if flags[each]]
    if len(actions) != 1:
        why = "Command must include exactly one action: --alter, --delete, --describe or --list."
        raise click.UsageError(why)
    (action,) = actions
    foreign = [each for each in OF_ALTER if action != "alter" and flags[each] not in (None, False)]
    if action == "list" and flags["name"] is not None:
        foreign.append("name")
    if foreign:
        raise click.UsageError(f"--{foreign[0].replace('_', '-')} does not belong to --{action}")
    if action == "alter" and (flags["name"] is None) != flags["generate_name"]:
        raise click.UsageError("One of --name or --generate-name must be specified with --alter.")
    if action == "delete" and flags["name"] is None:
        raise click.UsageError("A client metrics resource name must be specified with --delete.")
    return action


async def _alter(admin: "Admin", flags: Mapping[str, Any]) -> None:
    name = flags["name"]
    if flags["generate_name"]:
        name = uuid_to_text(uuid.uuid4().bytes)
    given = {
        "interval.ms": flags["interval"],
        "metrics": flags["metrics"],
        "match": flags["match"],
    }
    changes = [
        ConfigChange(key, str(value))
        if value != ""
        else ConfigChange(key, None, ConfigOperation.DELETE)
        for key, value in given.items()
        if value is not None
    ]
    await admin.incremental_alter_configs({ConfigResource.client_metrics(name): changes})
    print(f"Altered client metrics config for {name}.")


async def _delete(admin: "Admin", flags: Mapping[str, Any]) -> None:
    resource = ConfigResource.client_metrics(flags["name"])
    found = (await admin.describe_configs([resource]))[resource]
    changes = [ConfigChange(key, None, ConfigOperation.DELETE) for key in found]
    await admin.incremental_alter_configs({resource: changes})
    print(f"Deleted client metrics config for {flags['name']}.")


async def _describe(admin: "Admin", flags: Mapping[str, Any]) -> None:
    resources, name = await _subscriptions(admin), flags["name"]
    if name is not None:
        resources = [each for each in resources if each.name == name]
        if not resources:
            text = f"The client metric resource {name} doesn't exist"
            print(f"{text} and doesn't have dynamic config.")
    found = await admin.describe_configs(resources)
    for resource in resources:
        print(f"Client metrics configs for {resource.name} are:")
        for key, entry in sorted(found[resource].items()):
            print(f"  {key}={entry.value}")


async def _list(admin: "Admin", flags: Mapping[str, Any]) -> None:
    print("\n".join(each.name for each in await _subscriptions(admin)))


async def _subscriptions(admin: "Admin") -> list[ConfigResource]:
    return await admin.list_config_resources([ResourceType.CLIENT_METRICS])
