"""`minikafka delegation-tokens`: makes, renews, ends and lists delegation tokens.

Owns flags, Kafka's texts and exit codes; the admin client does the work.
"""

import base64
import binascii
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from .common import administer, bootstrap_server, command_config

if TYPE_CHECKING:
    from ..admin.admin import Admin
    from ..admin.token_types import DelegationToken

LONG: Final = click.IntRange(-1, 2**63 - 1)
COMPLAINT: Final = "Error while executing delegation token command"
ROW: Final = "{:<15} {:<30} {:<15} {:<15} {:<25} {:<15} {:<15} {:<15}"
HEADERS: Final = (
    "TOKENID",
    "HMAC",
    "OWNER",
    "REQUESTER",
    "RENEWERS",
    "ISSUEDATE",
    "EXPIRYDATE",
    "MAXDATE",
)
FLAGS: Final[Mapping[str, tuple[str, ...]]] = {
    "create": ("owner_principal", "renewer_principal", "max_life_time_period"),
    "renew": ("hmac", "renew_time_period"),
    "expire": ("hmac", "expiry_time_period"),
    "describe": ("owner_principal",),
}
"""The flags of each action."""
REQUIRED: Final = ("hmac", "max_life_time_period", "renew_time_period", "expiry_time_period")
"""The flags that are required by every action that has them."""


@click.command("delegation-tokens")
@bootstrap_server
@command_config()
@click.option("--create", is_flag=True, help="Make a token.")
@click.option("--renew", is_flag=True, help="Let a token expire later.")
@click.option("--expire", is_flag=True, help="Let a token expire at another time, or at once.")
@click.option("--describe", is_flag=True, help="Print tokens with their secrets.")
@click.option(
    "--owner-principal",
    multiple=True,
    metavar="TYPE:NAME",
    help="Whose token is made; whose tokens are printed, or all that you may see.",
)
@click.option(
    "--renewer-principal",
    multiple=True,
    metavar="TYPE:NAME",
    help="Who may renew the token beside its owner.",
)
@click.option(
    "--max-life-time-period",
    type=LONG,
    metavar="MS",
    help="How long the token can be renewed; -1 is delegation.token.max.lifetime.ms.",
)
@click.option(
    "--renew-time-period",
    type=LONG,
    metavar="MS",
    help="When the token expires, from now; -1 is delegation.token.expiry.time.ms.",
)
@click.option(
    "--expiry-time-period",
    type=LONG,
    metavar="MS",
    help="When the token expires, from now; -1 is at once.",
)
@click.option("--hmac", metavar="BASE64", help="The secret of the token to renew or to end.")
def delegation_tokens(bootstrap: str, command_config: Path | None, **flags: Any) -> None:
    """Get tokens with which processes log in as a user for a while, without a password.

    The connection must prove who asks, by a login or a certificate: --command-config.

    \b
    minikafka delegation-tokens --bootstrap-server localhost:9094 \\
        --command-config alice.properties --create --max-life-time-period -1 \\
        --renewer-principal User:scheduler
    minikafka delegation-tokens --bootstrap-server localhost:9094 \\
        --command-config scheduler.properties --renew --renew-time-period -1 --hmac BASE64
    minikafka delegation-tokens --bootstrap-server localhost:9094 \\
        --command-config alice.properties --describe --owner-principal User:alice
    minikafka delegation-tokens --bootstrap-server localhost:9094 \\
        --command-config alice.properties --expire --expiry-time-period -1 --hmac BASE64
    """
    action = _action(flags)
    secret = b"" if flags["hmac"] is None else _secret(flags["hmac"])

    async def carry_out(admin: "Admin") -> int:
        if action == "create":
            await _create(admin, flags)
        elif action == "renew":
            await _renew(admin, secret, flags)
        elif action == "expire":
            await _expire(admin, secret, flags)
        else:
            await _describe(admin, flags["owner_principal"])
        return 0

    administer(carry_out, COMPLAINT, bootstrap, command_config)


def _action(flags: Mapping[str, Any]) -> str:
    """Return the one action that the flags name; raise UsageError if they do not fit together."""
    actions = [each for each in FLAGS if flags[each]]
    if len(actions) != 1:
        raise click.UsageError(
            "Command must include exactly one action: --create, --renew, --expire or --describe"
        )
    (action,) = actions
    known = FLAGS[action]
    for name in dict.fromkeys(flag for each in FLAGS.values() for flag in each):
        is_given, flag = flags[name] not in (None, ()), f"--{name.replace('_', '-')}"
        if is_given and name not in known:
            raise click.UsageError(f"Option {flag} can't be used with option --{action}")
        if not is_given and name in known and name in REQUIRED:
            raise click.UsageError(f"Missing required argument {flag}")
    if action == "create" and len(flags["owner_principal"]) > 1:
        raise click.UsageError("A token has one owner: --owner-principal is given twice")
    for principal in (*flags["owner_principal"], *flags["renewer_principal"]):
        if not all(principal.partition(":")):
            raise click.UsageError(
                "expected a string in format principalType:principalName but got " + principal
            )
    return action


def _secret(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise click.UsageError("--hmac must be Base64, as --create prints it") from None


async def _create(admin: "Admin", flags: Mapping[str, Any]) -> None:
    renewers, lifetime_ms = flags["renewer_principal"], flags["max_life_time_period"]
    print(
        f"Calling create token operation with renewers :[{', '.join(renewers)}] ,"
        f" max-life-time-period :{lifetime_ms}"
    )
    token = await admin.create_delegation_token(
        owner=next(iter(flags["owner_principal"]), None),
        renewers=renewers,
        max_lifetime_ms=lifetime_ms,
    )
    print(f"Created delegation token with tokenId : {token.token_id}")
    _print([token])


async def _renew(admin: "Admin", secret: bytes, flags: Mapping[str, Any]) -> None:
    period_ms = flags["renew_time_period"]
    print(
        f"Calling renew token operation with hmac :{flags['hmac']} , renew-time-period :{period_ms}"
    )
    expires_ms = await admin.renew_delegation_token(secret, period_ms=period_ms)
    print(f"Completed renew operation. New expiry date : {_date(expires_ms)}")


async def _expire(admin: "Admin", secret: bytes, flags: Mapping[str, Any]) -> None:
    period_ms = flags["expiry_time_period"]
    print(
        f"Calling expire token operation with hmac :{flags['hmac']} ,"
        f" expiry-time-period :{period_ms}"
    )
    expires_ms = await admin.expire_delegation_token(secret, period_ms=period_ms)
    told = f"New expiry date : {_date(expires_ms)}" if expires_ms >= 0 else "The token is removed."
    print(f"Completed expire operation. {told}")


async def _describe(admin: "Admin", owners: Sequence[str]) -> None:
    if owners:
        print(f"Calling describe token operation for owners: [{', '.join(owners)}]")
    else:
        print("Calling describe token operation for current user.")
    tokens = await admin.describe_delegation_tokens(owners or None)
    print(f"Total number of tokens : {len(tokens)}", end="")
    _print(tokens)


def _print(tokens: "Iterable[DelegationToken]") -> None:
    """Print the table of Kafka's tool, which has a blank line before each row."""
    print(f"\n{ROW.format(*HEADERS)}")
    for token in tokens:
        times = (token.issued_ms, token.expires_ms, token.latest_ms)
        renewers = f"[{', '.join(token.renewers)}]"
        row = (token.token_id, token.password, token.owner, token.requester, renewers)
        print(f"\n{ROW.format(*row, *map(_date, times))}")


def _date(time_ms: int) -> str:
    """Return a time as Kafka's tool prints it, in this machine's time zone."""
    from datetime import datetime

    return datetime.fromtimestamp(time_ms / 1000).strftime("%Y-%m-%dT%H:%M")
