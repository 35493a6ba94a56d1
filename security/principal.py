"""The principal, which is who a client has proved to be."""

from typing import Final, NamedTuple

USER: Final = "User"
"""The type of every principal that authentication gives."""


class Principal(NamedTuple):
    """The proved identity of a client; a connection has one principal as long as it is open."""

    type: str
    name: str
    """The name that was proved. Upper and lower case differ."""

    def __str__(self) -> str:
        """Return Kafka's text form, `User:name`."""
        return f"{self.type}:{self.name}"


ANONYMOUS: Final = Principal(USER, "ANONYMOUS")
"""The principal of a client that has proved nothing, as on a PLAINTEXT listener."""


def user(name: str) -> Principal:
    """Return the principal of an authenticated user."""
    return Principal(USER, name)
