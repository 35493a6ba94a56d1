"""`minikafka cluster`: print a cluster's id or its endpoints, or unregister a broker.

Owns flags, Kafka's texts and exit codes. Ids and endpoints of controllers can be asked of the
controllers themselves, which works even if no broker is up.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..admin.cluster_types import BrokerDescription, MetadataQuorum
from .common import (
    ask_controllers,
    bootstrap_option,
    client_settings,
    command_config,
    controllers_option,
    one_end,
    run,
    say,
    with_admin,
)

if TYPE_CHECKING:
    from ..admin.admin import Admin

COMPLAINT = "Error while executing cluster command"
RACK_WIDTH = 10
"""The width of the column of racks if no node has one."""


@click.command()
@bootstrap_option("-b", required=False)
@controllers_option("-C")
@command_config("-c", "--config")
@click.option("--id", "-i", "broker_id", type=click.IntRange(min=0), help="A broker to unregister.")
@click.option("--include-fenced-brokers", is_flag=True, help="List brokers out of service, too.")
@click.argument("action", type=click.Choice(["cluster-id", "list-endpoints", "unregister"]))
def cluster(
    bootstrap: str | None,
    controllers: str | None,
    command_config: Path | None,
    action: str,
    broker_id: int | None,
    include_fenced_brokers: bool,
) -> None:
    """Print a cluster's id or its endpoints, or forget a broker that will not come back.

    An unregistered broker leaves every ISR and stays assigned to its replicas, so move them first.
    A broker that still runs registers again by itself.

    \b
    minikafka cluster cluster-id --bootstrap-server localhost:9092
    minikafka cluster list-endpoints --bootstrap-controller localhost:9095
    minikafka cluster unregister --bootstrap-server localhost:9092 --id 4
    """
    bootstrap = one_end(bootstrap, controllers)
    if (broker_id is None) == (action == "unregister"):
        raise click.UsageError("--id is needed by unregister, and by nothing else")
    if include_fenced_brokers and (action != "list-endpoints" or controllers is not None):
        raise click.UsageError(
            "--include-fenced-brokers is only supported with list-endpoints --bootstrap-server"
        )
    if action == "unregister" and controllers is not None:
        raise click.UsageError("unregister needs --bootstrap-server")

    async def act(admin: "Admin") -> int:
        if broker_id is not None:
            return await _unregister(admin, broker_id)
        found = await admin.describe_cluster(include_fenced=include_fenced_brokers)
        if action == "cluster-id":
            print(f"Cluster ID: {found.cluster_id}")
        else:
            print("\n".join(broker_lines(found.brokers)))
        return 0

    def show(cluster_id: str, quorum: MetadataQuorum) -> int:
        if action == "cluster-id":
            print(f"Cluster ID: {cluster_id}")
        else:
            print("\n".join(controller_lines(quorum)))
        return 0

    settings = client_settings(bootstrap, command_config, usual={"client.id": "cluster"})
    if controllers is None:
        run(with_admin(settings, act, COMPLAINT))
    else:
        run(ask_controllers(settings, controllers, show, COMPLAINT))


async def _unregister(admin: "Admin", broker_id: int) -> int:
    live = [broker.node_id for broker in (await admin.describe_cluster()).brokers]
    await admin.unregister_broker(broker_id)
    print(f"Broker {broker_id} is no longer registered.")
    if broker_id in live:
        say(f"WARNING: Broker {broker_id} was in service, and registers again unless it is stopped")
    return 0


def broker_lines(brokers: Iterable[BrokerDescription]) -> list[str]:
    """Return the table of brokers as Kafka's tool prints it."""
    rows = [
        (one.node_id, one.host, one.port, one.rack, "fenced" if one.is_fenced else "unfenced")
        for one in brokers
    ]
    hosts = max((len(row[1]) for row in rows), default=0)
    racks = max((len(row[3]) for row in rows if row[3] is not None), default=RACK_WIDTH)
    lines = [("ID", "HOST", "PORT", "RACK", "STATE"), *rows]
    kinds = ["ENDPOINT_TYPE"] + ["broker"] * len(rows)
    return [
        f"{i!s:<10} {host:<{hosts}} {port!s:<10} {rack or 'null':<{racks}} {state:<10} {kind:<15}"
        for (i, host, port, rack, state), kind in zip(lines, kinds, strict=True)
    ]


def controller_lines(quorum: MetadataQuorum) -> list[str]:
    """Return the table of controllers as Kafka's tool prints it: each controller's endpoints."""
    rows: list[tuple[str, str, str]] = []
    for node_id, endpoints in sorted(quorum.endpoints.items()):
        for endpoint in endpoints:
            host, _, port = endpoint.rpartition("://")[2].rpartition(":")
            rows.append((str(node_id), host, port))
    hosts = max((len(row[1]) for row in rows), default=0)
    lines = [("ID", "HOST", "PORT", "RACK", "ENDPOINT_TYPE")]
    lines += [(*row, "null", "controller") for row in rows]
    return [
        f"{i:<10} {host:<{hosts}} {port:<10} {rack:<{RACK_WIDTH}} {kind:<15}"
        for i, host, port, rack, kind in lines
    ]
