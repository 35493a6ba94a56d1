"""The SCRAM credentials of users in `minikafka configs`.

Owns Kafka's texts; the admin client does the work.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode
from ...runtime.errors import ConfigError
from ...security.sasl.scram import ITERATIONS_MAX, ITERATIONS_MIN
from ..admin.credential_types import ScramChange
from ..errors import AdminError

if TYPE_CHECKING:
    from ..admin.admin import Admin


def scram_changes(name: str, added: Mapping[str, str], deleted: Sequence[str]) -> list[ScramChange]:
    """Return the changes of one user's credentials; raise ConfigError if they are not valid."""
    return [
        *(parse_scram(name, mechanism, text) for mechanism, text in added.items()),
        *(ScramChange(name, mechanism) for mechanism in deleted),
    ]


def parse_scram(name: str, mechanism: str, text: str) -> ScramChange:
    """Parse `iterations=8192,password=...`, in which iterations may be missing.

    Raise ConfigError if the text is malformed; the error never shows the password.
    """
    given: dict[str, str] = {}
    head, comma, password = text.partition("password=")
    for part in filter(None, (each.strip() for each in head.split(","))):
        key, equals, value = part.partition("=")
        if not equals or key != "iterations" or key in given:
            why = "must look like [iterations=8192,password=...]; the password comes last"
            raise ConfigError(mechanism, None, why)
        given[key] = value
    if comma:
        given["password"] = password
    if not given.get("password"):
        raise ConfigError(mechanism, None, "needs a password")
    iterations = given.get("iterations", str(ITERATIONS_MIN))
    if not iterations.isdecimal():
        raise ConfigError(mechanism, f"iterations={iterations}", "must be a number")
    if int(iterations) < ITERATIONS_MIN:
        why = f"is less than the minimum {ITERATIONS_MIN} required for {mechanism}"
        raise ConfigError(mechanism, None, f"Iterations {iterations} {why}")
    if int(iterations) > ITERATIONS_MAX:
        why = f"is greater than the maximum {ITERATIONS_MAX} allowed for {mechanism}"
        raise ConfigError(mechanism, None, f"Iterations {iterations} {why}")
    return ScramChange(name, mechanism, given["password"], int(iterations))


async def alter_user(admin: "Admin", changes: Sequence[ScramChange]) -> int:
    """Carry out the changes, all of one user; return the exit code 0."""
    await admin.alter_scram_credentials(changes)
    print(f"Completed updating config for user {changes[0].user}.")
    return 0


async def describe_users(admin: "Admin", name: str | None) -> int:
    """Print the credentials of one user, if there are any, or of all; return the exit code 0."""
    try:
        found = await admin.describe_scram_credentials(None if name is None else [name])
    except AdminError as error:
        if any(why.code is not ErrorCode.RESOURCE_NOT_FOUND for why in error.errors.values()):
            raise
        return 0  # A user without a password may have quotas, which were printed before.
    for user, credentials in sorted(found.items()):
        shown = ", ".join(f"{key}=iterations={count}" for key, count in credentials.items())
        print(f"SCRAM credential configs for user-principal '{user}' are {shown}")
    return 0
