"""A SCRAM credential: a server's knowledge of one user's password, as the metadata log keeps it."""

from typing import NamedTuple


class ScramCredential(NamedTuple):
    """A server's knowledge of one user's password."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        """Return a text without salt and keys, because it may end in a log."""
        return f"ScramCredential(iterations={self.iterations}, ...)"
