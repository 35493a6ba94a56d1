"""The credentials of a client, and the client end of a login that they begin."""

from collections.abc import Callable
from typing import Final

from .oauthbearer import OAUTHBEARER
from .plain import PLAIN, PlainClient
from .replies import ClientEnd
from .scram import BY_NAME, NONCE_BYTES, ScramClient, ScramPassword, nonce_of

CLIENT_MECHANISMS: Final = (PLAIN, *BY_NAME, OAUTHBEARER)
"""The mechanisms with which this project's clients can log in."""


class Credentials:
    """A mechanism, a user name and a password, with which any number of connections log in.

    For a delegation token they are its id and its secret in Base64 (KIP-48).
    """

    __slots__ = ("_password", "_scram", "mechanism", "name")

    def __init__(self, mechanism: str, name: str, password: str, *, is_token: bool = False) -> None:
        """`mechanism` is PLAIN or the name of a SCRAM mechanism; a token needs one of SCRAM."""
        self.mechanism = mechanism
        self.name = name
        self._password = password
        scram = BY_NAME.get(mechanism)
        self._scram = None
        if scram is not None:
            self._scram = ScramPassword(scram, name, password, is_token=is_token)
        assert scram is not None or (mechanism == PLAIN and not is_token)

    def begin(self, random_bytes: Callable[[int], bytes]) -> ClientEnd:
        """Return the client end of a new login."""
        if self._scram is None:
            return PlainClient(self.name, self._password)
        return ScramClient(self._scram, nonce_of(random_bytes(NONCE_BYTES)))
