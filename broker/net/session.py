"""The facts that are known of the client at the other end of a connection.

Owns nothing else; authentication and ApiVersions write them.
"""

from dataclasses import dataclass

from ...security.principal import ANONYMOUS, Principal


@dataclass(slots=True, eq=False)
class Session:
    """The facts about one client, valid as long as its connection is open."""

    principal: Principal = ANONYMOUS
    """The principal that the client has proved to be."""
    software: tuple[str | None, str | None] = (None, None)
    """The name and version of the client's software, if ApiVersions told them."""
