"""`minikafka features`: print and change the levels of the cluster's features.

Owns flags, Kafka's texts and exit codes; the admin client does the work.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...protocol.control.records import METADATA_VERSION
from ..admin.cluster_types import FeatureMetadata, FeatureUpdate, UpgradeType
from ..errors import AdminError
from .common import administer, bootstrap_server, command_config, refusal, say, split_properties

if TYPE_CHECKING:
    from ..admin.admin import Admin

COMPLAINT = "Error while executing features command"
FIRST_METADATA_LEVEL = 7
METADATA_RELEASES = [
    "3.3-IV3",
    *(
        f"{release}-IV{number}"
        for release, count in (
            *(("3.4", 1), ("3.5", 3), ("3.6", 3), ("3.7", 5), ("3.8", 1), ("3.9", 1)),
            *(("4.0", 4), ("4.1", 2), ("4.2", 2), ("4.3", 1)),
        )
        for number in range(count)
    ),
]
"""Kafka's names for the levels of metadata.version, from FIRST_METADATA_LEVEL on."""
DONE = {"upgrade": "upgraded to {}", "downgrade": "downgraded to {}", "disable": "disabled"}
PLAIN = {"upgrade": "upgrade {} to {}", "downgrade": "downgrade {} to {}", "disable": "disable {}"}


@click.command()
@bootstrap_server
@command_config()
@click.option(
    "--feature",
    "features",
    multiple=True,
    metavar="NAME=LEVEL",
    help="A feature and its new level.",
)
@click.option("--metadata", type=int, metavar="LEVEL", help="The new level of metadata.version.")
@click.option("--unsafe", is_flag=True, help="Downgrade even if metadata is lost by it.")
@click.option("--dry-run", is_flag=True, help="Only check whether the change is possible.")
@click.argument("action", type=click.Choice(["describe", "upgrade", "downgrade", "disable"]))
def features(
    bootstrap: str,
    command_config: Path | None,
    action: str,
    **flags: object,
) -> None:
    """Describe features, or finalise other levels of them. Exit code 1 if that was refused.

    \b
    minikafka features --bootstrap-server localhost:9092 describe
    minikafka features --bootstrap-server localhost:9092 upgrade \\
        --feature eligible.leader.replicas.version=1
    minikafka features --bootstrap-server localhost:9092 disable \\
        --feature eligible.leader.replicas.version
    """
    updates = _updates(action, flags)

    async def carry_out(admin: "Admin") -> int:
        if action == "describe":
            print("\n".join(feature_lines(await admin.describe_features())))
            return 0
        return await _update(admin, action, updates, is_dry=bool(flags["dry_run"]))

    administer(carry_out, COMPLAINT, bootstrap, command_config)


def _updates(action: str, flags: Mapping[str, object]) -> dict[str, FeatureUpdate]:
    """Return the requested levels; raise UsageError if they do not fit the action."""
    texts, metadata = flags["features"], flags["metadata"]
    assert isinstance(texts, tuple)
    if flags["unsafe"] and action not in ("downgrade", "disable"):
        raise click.UsageError("--unsafe belongs to downgrade and disable")
    if action == "describe":
        if texts or metadata is not None or flags["dry_run"]:
            raise click.UsageError("describe takes no levels")
        return {}
    kind = UpgradeType.UPGRADE
    if action != "upgrade":
        kind = UpgradeType.UNSAFE_DOWNGRADE if flags["unsafe"] else UpgradeType.SAFE_DOWNGRADE
    levels: dict[str, int] = {}
    if action == "disable":
        if metadata is not None:
            raise click.UsageError("disable --metadata: metadata.version cannot be disabled")
        levels = dict.fromkeys(texts, 0)
    else:
        for name, text in split_properties(texts, "--feature").items():
            if not text.isdecimal():
                raise click.UsageError(f"--feature {name}={text}: the level must be a number")
            levels[name] = int(text)
        if isinstance(metadata, int):
            levels[METADATA_VERSION] = metadata
    if not levels:
        raise click.UsageError(f"{action} needs --feature")
    return {name: FeatureUpdate(level, kind) for name, level in levels.items()}


async def _update(
    admin: "Admin", action: str, updates: Mapping[str, FeatureUpdate], *, is_dry: bool
) -> int:
    try:
        await admin.update_features(updates, validate_only=is_dry)
    except AdminError as error:
        why = "; ".join(refusal(one) for one in error.errors.values())
        for name, update in updates.items():
            what = PLAIN[action].format(name, update.level)
            say(f"{'Can' if is_dry else 'Could'} not {what}. {why}")
        say(f"{len(updates)} out of {len(updates)} operation(s) failed.")
        return 1
    for name, update in updates.items():
        done = DONE[action].format(update.level)
        print(f"{name} {'can be' if is_dry else 'was'} {done}.")
    return 0


def feature_lines(found: FeatureMetadata) -> list[str]:
    """Return the lines that Kafka's tool prints, one for each feature."""
    epoch = "-" if found.epoch is None else found.epoch
    lines: list[str] = []
    for name in sorted({**found.supported, **found.finalized}):
        levels = found.supported.get(name)
        lowest, highest = ("-", "-") if levels is None else (_shown(name, one) for one in levels)
        level = _shown(name, found.finalized.get(name, 0))
        lines.append(
            f"Feature: {name:<40}  SupportedMinVersion: {lowest:<15}  SupportedMaxVersion: "
            f"{highest:<15}  FinalizedVersionLevel: {level:<15}  Epoch: {epoch}"
        )
    return lines


def _shown(feature: str, level: int) -> str:
    """Return a level as Kafka's tool prints it: levels of metadata.version by their release."""
    at = level - FIRST_METADATA_LEVEL
    if feature == METADATA_VERSION and 0 <= at < len(METADATA_RELEASES):
        return METADATA_RELEASES[at]
    return str(level)
