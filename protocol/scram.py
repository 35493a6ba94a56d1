"""A SCRAM credential: the data with which a server checks one user's password."""

from typing import NamedTuple


class ScramCredential(NamedTuple):
    """The data with which a server checks one user's password, as the metadata log keeps it."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        """Return a text without salt and keys, because it may end in a log."""
        return f"ScramCredential(iterations={self.iterations}, ...)"
