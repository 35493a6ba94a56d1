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


def principal_of(text: str) -> Principal:
    """Return the principal of a text `Type:name`. Raise ValueError if it is none."""
    kind, colon, name = text.partition(":")
    if not (kind and colon and name):
        raise ValueError(f"{text!r} is no principal such as User:alice")
    return Principal(kind, name)


class Origin(NamedTuple):
    """The client that a request comes from, and the way that it came."""

    principal: Principal
    host: str
    """The client's address."""
    listener: str
    """The name of the listener that the client is connected to."""
    client_id: str = ""
    """The id that the client gives itself; empty if it has none."""


ANONYMOUS: Final = Principal(USER, "ANONYMOUS")
"""The principal of a client that has proved nothing, as on a PLAINTEXT listener."""


def user(name: str) -> Principal:
    """Return the principal of an authenticated user."""
    return Principal(USER, name)
