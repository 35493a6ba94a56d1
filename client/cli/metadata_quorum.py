"""`minikafka metadata-quorum describe`: print the state of the controllers' quorum.

Owns flags, Kafka's texts and exit codes. Asks a broker or, with --bootstrap-controller, the
controllers themselves, which works even if no broker is up.
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..admin.cluster_types import MetadataQuorum, QuorumReplica
from .common import (
    ask_controllers,
    bootstrap_option,
    client_settings,
    command_config,
    controllers_option,
    one_end,
    run,
    table,
    with_admin,
)

if TYPE_CHECKING:
    from ..admin.admin import Admin

COMPLAINT = "Error while executing quorum command"
NO_DIRECTORY = "A" * 22
"""The text of a directory id of 16 zero bytes, which means that there is none."""
HEADERS = [
    "NodeId",
    "DirectoryId",
    "LogEndOffset",
    "Lag",
    "LastFetchTimestamp",
    "LastCaughtUpTimestamp",
    "Status",
]


@click.command()
@bootstrap_option(required=False)
@controllers_option()
@command_config()
@click.option("--status", is_flag=True, help="Print the leader, the voters and their lag.")
@click.option("--replication", is_flag=True, help="Print the log end and the lag of each replica.")
@click.option("--human-readable", "-hr", is_flag=True, help="Print times as ages.")
@click.argument("action", type=click.Choice(["describe"]))
def metadata_quorum(
    bootstrap: str | None,
    controllers: str | None,
    command_config: Path | None,
    action: str,
    **flags: bool,
) -> None:
    """Describe the quorum of controllers.

    \b
    minikafka metadata-quorum --bootstrap-server localhost:9092 describe --status
    minikafka metadata-quorum --bootstrap-controller localhost:9095 describe --replication
    """
    bootstrap = one_end(bootstrap, controllers)
    if flags["status"] == flags["replication"]:
        raise click.UsageError("describe needs either --status or --replication")
    if flags["status"] and flags["human_readable"]:
        raise click.UsageError("--human-readable belongs to --replication")
    settings = client_settings(bootstrap, command_config, usual={"client.id": "metadata-quorum"})
    if controllers is None:
        run(_ask_broker(settings, flags))
    else:
        show = partial(_show, flags=flags)
        run(ask_controllers(settings, controllers, show, COMPLAINT))


async def _ask_broker(settings: Mapping[str, str], flags: Mapping[str, bool]) -> int:
    async def describe(admin: "Admin") -> int:
        quorum = await admin.describe_metadata_quorum()
        cluster_id = (await admin.describe_cluster()).cluster_id if flags["status"] else ""
        return _show(cluster_id, quorum, flags)

    return await with_admin(settings, describe, COMPLAINT)


def _show(cluster_id: str, quorum: MetadataQuorum, flags: Mapping[str, bool]) -> int:
    import time

    if flags["status"]:
        print("\n".join(status_lines(cluster_id, quorum)))
    else:
        now_ms = time.time_ns() // 1_000_000 if flags["human_readable"] else None
        print("\n".join(replication_lines(quorum, now_ms)))
    return 0


def status_lines(cluster_id: str, quorum: MetadataQuorum) -> list[str]:
    """Return the lines that Kafka's tool prints for --status."""
    slowest = min(quorum.voters, key=lambda voter: voter.log_end_offset, default=None)
    lag = 0 if slowest is None else quorum.leader_log_end_offset - slowest.log_end_offset
    voters = ", ".join(_node(one, quorum.endpoints.get(one.node_id, ())) for one in quorum.voters)
    observers = ", ".join(_node(one, ()) for one in quorum.observers)
    rows = {
        "ClusterId:": cluster_id,
        "LeaderId:": quorum.leader_id,
        "LeaderEpoch:": quorum.leader_epoch,
        "HighWatermark:": quorum.high_watermark,
        "MaxFollowerLag:": lag,
        "MaxFollowerLagTimeMs:": _lag_ms(quorum, slowest),
        "CurrentVoters:": f"[{voters}]",
        "CurrentObservers:": f"[{observers}]",
    }
    return [f"{name:<23} {value}" for name, value in rows.items()]


def _lag_ms(quorum: MetadataQuorum, slowest: QuorumReplica | None) -> int:
    leader = next((one for one in quorum.voters if one.node_id == quorum.leader_id), None)
    if leader is None or slowest is None:
        return -1
    if slowest.log_end_offset == leader.log_end_offset:
        return 0
    if leader.last_caught_up_timestamp is None or slowest.last_caught_up_timestamp is None:
        return -1
    return leader.last_caught_up_timestamp - slowest.last_caught_up_timestamp


def _node(replica: QuorumReplica, endpoints: tuple[str, ...]) -> str:
    directory = "null" if replica.directory_id == NO_DIRECTORY else f'"{replica.directory_id}"'
    listed = ", ".join(f'"{endpoint}"' for endpoint in endpoints)
    more = f', "endpoints": [{listed}]' if endpoints else ""
    return f'{{"id": {replica.node_id}, "directoryId": {directory}{more}}}'


def replication_lines(quorum: MetadataQuorum, now_ms: int | None = None) -> list[str]:
    """Return Kafka's lines for --replication; with `now_ms`, times are written as ages."""
    voters = sorted(quorum.voters, key=lambda one: one.node_id != quorum.leader_id)
    end = quorum.leader_log_end_offset
    ranks = (
        *((one, "Leader" if one.node_id == quorum.leader_id else "Follower") for one in voters),
        *((one, "Observer") for one in quorum.observers),
    )
    return table(
        HEADERS,
        (
            [
                str(one.node_id),
                one.directory_id,
                str(one.log_end_offset),
                str(end - one.log_end_offset if one.log_end_offset >= 0 else -1),
                _when(one.last_fetch_timestamp, now_ms),
                _when(one.last_caught_up_timestamp, now_ms),
                rank,
            ]
            for one, rank in ranks
        ),
    )


def _when(timestamp: int | None, now_ms: int | None) -> str:
    if timestamp is None:
        return "-1"
    return str(timestamp) if now_ms is None else f"{now_ms - timestamp} ms ago"
