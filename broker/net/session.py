"""The facts known about a connection's client, and the objects kept until the connection closes.

Authentication, ApiVersions and Fetch write these facts.
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
    """True if the client logged in by a delegation token."""
    rights: Rights | None = None
    """The rights of the principal; None until they are first needed."""
    software: tuple[str | None, str | None] = (None, None)
    """The name and version of the client's software; None where ApiVersions stated none."""
    watch: Kept | None = None
    """Notes the changed partitions of a follower's fetch session."""
    login: Kept | None = None
    """The login that is in progress, or whose session will end; None otherwise."""

    def rights_by(self, authorizer: Authorizer, host: str) -> Rights:
        """Return the principal's rights from address `host`; made anew for a new principal."""
        rights = self.rights
        if rights is None or rights.principal is not self.principal:
            rights = self.rights = authorizer.rights_of(self.principal, host)
        return rights

    def close(self) -> None:
        """Close the objects that are kept, because the connection is gone."""
        for kept in (self.watch, self.login):
            if kept is not None:
                kept.close()
        self.watch = self.login = None
