"""Entities of client quotas as plain values."""

from dataclasses import dataclass
from typing import Final

from ...protocol.quotas import CLIENT_ID, IP, USER

TITLES: Final = {USER: "user-principal", CLIENT_ID: "client-id", IP: "ip"}
"""The types of the parts of an entity, in the order and with the names of Kafka's tools."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaEntity:
    """The owner of a quota: a user, a client id, both together, or an IP address.

    A part that is None is missing. A part that is "" is the default of its type:
    `QuotaEntity(user="")` is the default of all users.
    """

    user: str | None = None
    client_id: str | None = None
    ip: str | None = None

    @property
    def parts(self) -> dict[str, str | None]:
        """The names of the entity's parts by type, as on the wire: None is a type's default."""
        named = {USER: self.user, CLIENT_ID: self.client_id, IP: self.ip}
        return {kind: name or None for kind, name in named.items() if name is not None}

    def __str__(self) -> str:
        """Return the entity as Kafka's tools print it."""
        return ", ".join(
            f"the default {TITLES[kind]}" if name is None else f"{TITLES[kind]} '{name}'"
            for kind, name in self.parts.items()
        )
