"""`minikafka groups --list`: list groups of every type."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..admin.group_types import GroupListing
from .common import administer, bootstrap_server, command_config

if TYPE_CHECKING:
    from ..admin.admin import Admin

COMPLAINT = "Error while executing groups command"


@click.command("groups")
@bootstrap_server
@click.option("--list", "list_groups", is_flag=True, help="List groups.")
@click.option(
    "--group-type",
    type=click.Choice(["classic", "consumer", "share", "streams"], case_sensitive=False),
    help="List only groups of this type.",
)
@click.option(
    "--protocol", help="List only groups of this protocol type, such as consumer or connect."
)
@click.option("--consumer", is_flag=True, help="List only groups of consumers, of either type.")
@click.option("--share", is_flag=True, help="List only share groups.")
@click.option("--streams", is_flag=True, help="List only streams groups.")
@command_config()
def groups(
    bootstrap: str,
    list_groups: bool,
    group_type: str | None,
    protocol: str | None,
    consumer: bool,
    share: bool,
    streams: bool,
    command_config: Path | None,
) -> None:
    """List groups of every type, with the protocol that their members speak.

    \b
    minikafka groups --bootstrap-server localhost:9092 --list
    minikafka groups --bootstrap-server localhost:9092 --list --protocol connect
    """
    from .group_table import group_type_lines

    if not list_groups:
        raise click.UsageError("Command must include exactly one action: --list.")
    kinds = (consumer, share, streams)
    if sum(kinds) > 1 or (any(kinds) and (group_type or protocol)):
        why = "--consumer, --share, --streams and --group-type with --protocol exclude each other"
        raise click.UsageError(why)
    if share or streams:
        group_type = "share" if share else "streams"

    def keeps(group: GroupListing) -> bool:
        if consumer:
            return group.type == "consumer" or group.protocol_type in ("consumer", "")
        is_type = group_type is None or group.type.lower() == group_type.lower()
        return is_type and protocol in (None, group.protocol_type)

    async def act(admin: "Admin") -> int:
        found = [group for group in await admin.list_groups() if keeps(group)]
        print("\n".join(group_type_lines(found)))
        return 0

    administer(act, COMPLAINT, bootstrap, command_config)
