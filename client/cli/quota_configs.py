"""`minikafka configs` for users, clients and ips: their quotas, and the credentials of users.

Owns Kafka's texts; the admin client does the work.
"""

from collections.abc import Callable, Coroutine, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import click

from ...protocol.quotas import CLIENT_ID, IP, QUOTA_KEYS, USER
from ...runtime.errors import ConfigError
from ...security.sasl.scram import BY_NAME
from ..admin.quota_types import QuotaEntity
from .configs import Change, ConfigCommandError
from .user_configs import alter_user, describe_users, scram_changes

if TYPE_CHECKING:
    from ..admin.admin import Admin

PARTS: Final = {"users": USER, "clients": CLIENT_ID, "ips": IP}
"""The part of a quota's entity that each entity type of the command names."""


class Named:
    """The entity that the flags name: a user, a client, both, or an address."""

    def __init__(self, named: Sequence[tuple[str, str | None]]) -> None:
        """Check the types and names; raise UsageError if the entity types do not go together.

        A name of None means all entities of the type, "" the default.
        """
        types = [kind for kind, _ in named]
        twice = [kind for kind in types if types.count(kind) > 1]
        if twice:
            raise click.UsageError(f"Duplicate entity type(s) specified: {twice[0]}")
        if len(types) > 1 and sorted(types) != ["clients", "users"]:
            raise click.UsageError("Only users and clients can be named together")
        self._type, self._name = named[0]
        self._parts = {PARTS[kind]: name for kind, name in named}

    async def describe(self, admin: "Admin") -> int:
        """Print the quotas of the entities, and the credentials of users; return the exit code."""
        found = await admin.describe_client_quotas(self._parts, strict=True)
        for entity, quotas in found.items():
            shown = ", ".join(f"{key}={as_double(value)}" for key, value in quotas.items())
            print(f"Quota configs for {entity} are {shown}")
        if list(self._parts) == [USER] and self._name != "":
            await describe_users(admin, self._name)
        return 0

    def altering(self, change: Change) -> Callable[["Admin"], Coroutine[Any, Any, int]]:
        """Return the call that carries out the change.

        Raise UsageError for keys that these entities do not have, or not together; ConfigError for
        a quota that is no number, and for malformed credentials.
        """
        keys = [*change.added, *change.deleted]
        with_passwords = [key for key in keys if key in BY_NAME]
        if list(self._parts) == [USER] and with_passwords:
            if not self._name:
                raise click.UsageError("--entity-default: users have no default credentials")
            if len(with_passwords) < len(keys):
                raise click.UsageError("Cannot alter both quotas and SCRAM credentials at once")
            changes = scram_changes(self._name, change.added, change.deleted)
            return lambda admin: alter_user(admin, changes)
        (part, *_) = self._parts
        strange = [
            key for key in keys if key not in QUOTA_KEYS or part not in QUOTA_KEYS[key].entities
        ]
        if strange:
            what = "quota and SCRAM credential" if list(self._parts) == [USER] else "quota"
            raise click.UsageError(
                f"Only {what} configs can be altered for '{self._type}'."
                f" Unexpected config names: {', '.join(strange)}"
            )
        added = {key: _number(key, text) for key, text in change.added.items()}
        return lambda admin: self._alter(admin, added, change.deleted)

    async def _alter(self, admin: "Admin", added: dict[str, float], deleted: Sequence[str]) -> int:
        parts = self._parts
        entity = QuotaEntity(user=parts.get(USER), client_id=parts.get(CLIENT_ID), ip=parts.get(IP))
        if deleted:
            found = await admin.describe_client_quotas(parts, strict=True)
            known = next(iter(found.values()), {})
            unset = [key for key in deleted if key not in known]
            if unset:
                raise ConfigCommandError(f"Invalid config(s): {','.join(unset)}")
        await admin.alter_client_quotas({entity: {**added, **dict.fromkeys(deleted)}})
        if self._name:
            print(f"Completed updating config for {self._type[:-1]} {self._name}.")
        else:
            print(f"Completed updating default config for {self._type} in the cluster.")
        return 0


def _number(key: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ConfigError(key, text, "must be a number") from None


def as_double(value: float) -> str:
    """Return a number as Java writes a double: 1024.0, 1.048576E7."""
    if 1e-3 <= value < 1e7:
        return repr(value)
    _, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    first, *rest = map(str, digits)
    return f"{first}.{''.join(rest) or '0'}E{int(exponent) + len(rest)}"
