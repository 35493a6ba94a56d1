"""The facts that are known of the client at the other end of a connection, and what is kept for it.

Authentication, ApiVersions and Fetch write them. Here nothing is decided.
"""

from dataclasses import dataclass
from typing import Protocol

from ...security.authorizer import Authorizer, Rights
from ...security.principal import ANONYMOUS, Principal


class Kept(Protocol):
    """An object that is kept for a connection as long as the connection is open."""

    def close(self) -> None:
        """Release everything, because the connection is gone."""


@dataclass(slots=True, eq=False)
class Session:
    """The facts about one client, valid as long as its connection is open."""

    principal: Principal = ANONYMOUS
    """The principal that the client has proved to be."""
    is_by_token: bool = False
    """True if it has proved that by a delegation token."""
    rights: Rights | None = None
    """The rights of that principal, made when they are first asked for."""
    software: tuple[str | None, str | None] = (None, None)
    """The name and version of the client's software, if ApiVersions told them."""
    watch: Kept | None = None
    """Notes the changed partitions of a follower's fetch session."""
    login: Kept | None = None
    """The login that is under way, or whose session has an end."""

    def rights_by(self, authorizer: Authorizer, host: str) -> Rights:
        """Return the rights of the client at this address; a new principal gets new ones."""
        rights = self.rights
        if rights is None or rights.principal is not self.principal:
            rights = self.rights = authorizer.rights_of(self.principal, host)
        return rights

    def close(self) -> None:
        """Release what is kept, because the connection is gone."""
        for kept in (self.watch, self.login):
            if kept is not None:
                kept.close()
        self.watch = self.login = None
