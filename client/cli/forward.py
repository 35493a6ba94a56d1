"""`minikafka forward`: what was forwarded is forwarded again; how far forwarding is."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...protocol.types import TopicPartition
from ...runtime.errors import ConfigError
from .common import administer
from .delay import stats, time_ms, where

if TYPE_CHECKING:
    from ..admin.admin import Admin

COMPLAINT = "Error while executing forward command"


@click.group("forward")
def forward() -> None:
    """Forward again what a target has lost; tell how far a delay topic, or one with rules, is.

    \b
    minikafka forward stats orders-later --bootstrap-server localhost:9092
    minikafka forward refire orders-later 0 --since 2026-12-24T18:00:00.000 \\
        --bootstrap-server localhost:9092
    """


forward.add_command(stats)


@forward.command("refire")
@where
@click.argument("partition", type=click.IntRange(min=0))
@click.option("--from-offset", type=click.IntRange(min=0), help="The first record that may be.")
@click.option("--to-offset", type=click.IntRange(min=0), help="The offset behind the last one.")
@click.option("--since", metavar="TIME", help="Only what was forwarded since a time.")
def refire(
    topic: str,
    bootstrap: str,
    command_config: Path | None,
    partition: int,
    from_offset: int | None,
    to_offset: int | None,
    since: str | None,
) -> None:
    """Forward records of a partition again, as far as it still has them.

    Use it after a target has lost records, as by an unclean election. Give --from-offset or
    --since. Each copy has the header minikafka-source of the one before it. Times are
    YYYY-MM-DDTHH:mm:SS.sss in UTC, or ms since the epoch.
    """
    since_ms = time_ms(since, "--since")
    if from_offset is None and since_ms is None:
        raise ConfigError("--since", "", "or --from-offset says what is forwarded again")

    async def act(admin: "Admin") -> int:
        count = await admin.refire_forwarded(
            TopicPartition(topic, partition),
            from_offset=from_offset or 0,
            to_offset=to_offset,
            since_ms=since_ms or 0,
        )
        print(f"{count} records of {topic}-{partition} are forwarded again.")
        return 0

    administer(act, COMPLAINT, bootstrap, command_config)
