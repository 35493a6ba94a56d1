"""The facts that are known of the client at the other end of a connection.

Owns nothing else; authentication and ApiVersions write them.
"""

from dataclasses import dataclass

from ...security.authorizer import Authorizer, Rights
from ...security.principal import ANONYMOUS, Principal


@dataclass(slots=True, eq=False)
class Session:
    """The facts about one client, valid as long as its connection is open."""

    principal: Principal = ANONYMOUS
    """The principal that the client has proved to be."""
    rights: Rights | None = None
    """The rights of that principal, made when they are first asked for."""
    software: tuple[str | None, str | None] = (None, None)
    """The name and version of the client's software, if ApiVersions told them."""

    def rights_by(self, authorizer: Authorizer, host: str) -> Rights:
        """Return the rights of the client, which has this address; they follow its principal."""
        rights = self.rights
        if rights is None or rights.principal is not self.principal:
            rights = self.rights = authorizer.rights_of(self.principal, host)
        return rights
