"""The logins of a broker: what its SASL listeners offer, and which clients have not logged in yet.

A login has LOGIN_MS, and at most STRANGERS_MAX connections may be without one: a further connection
replaces the oldest of them. So clients that cannot log in do not fill the broker.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, NamedTuple

from ...protocol.control.image import MetadataImage
from ...security.sasl.plain import PlainServer
from ...security.sasl.replies import ServerEnd
from ...security.sasl.scram import (
    BY_NAME,
    NONCE_BYTES,
    ScramMechanism,
    ScramServer,
    ScramUsers,
    TokenLogin,
    nonce_of,
    pretended,
)
from ...security.sasl.server import Offered, ServerLogin
from ...security.sasl.settings import EnabledMechanism, ListenerSasl, SaslConfig
from ...security.tokens import TokenKey
from .doors import Guest
from .issuers import Issuers

LOGIN_MS: Final = 10_000
"""Milliseconds from the connection on within which a client must log in."""
STRANGERS_MAX: Final = 256
"""The most connections whose clients have not logged in yet."""


class Known(NamedTuple):
    """The users and the tokens that the cluster knows."""

    image: Callable[[], MetadataImage]
    """Returns the newest metadata, which contains users and tokens."""
    token_key: TokenKey | None
    """The key of delegation tokens; None if logins by token are off."""
    wall_ms: Callable[[], int]
    """Returns the wall time (ms), by which tokens expire."""


class Logins:
    """Begins logins, and keeps the connections whose login is in progress."""

    def __init__(
        self,
        config: SaslConfig,
        listeners: Mapping[str, ListenerSasl],
        known: Known,
        random_bytes: Callable[[int], bytes],
        issuers: Issuers,
    ) -> None:
        """`listeners` has the SASL settings of each listener with SASL, by name."""
        self.config = config
        self._known = known
        self.issuers = issuers
        self._random_bytes = random_bytes
        self._offered = {
            name: {
                mechanism: Offered(partial(self._server_end, mechanism, enabled), enabled.reauth_ms)
                for mechanism, enabled in listener.mechanisms.items()
            }
            for name, listener in listeners.items()
        }
        self.strangers: dict[Guest, None] = {}
        """The connections whose clients have not logged in, in the order in which they came."""

    def begin(self, listener: str) -> ServerLogin | None:
        """Return the login of a new connection; None if the listener has no SASL."""
        offered = self._offered.get(listener)
        return None if offered is None else ServerLogin(offered)

    def _server_end(self, name: str, enabled: EnabledMechanism) -> ServerEnd:
        if enabled.tokens is not None:
            return self.issuers.server_end(enabled.tokens)
        mechanism = BY_NAME.get(name)
        if mechanism is None:
            return PlainServer(enabled.passwords)
        image, number = self._known.image(), mechanism.value
        known = image.scram
        model = next((known[key] for key in known if key[0] == number), None)
        users = ScramUsers(
            mechanism,
            lambda user: known.get((number, user)),
            lambda user: pretended(image.scram_secret, model, user),
        )
        nonce = nonce_of(self._random_bytes(NONCE_BYTES))
        return ScramServer(users, nonce, partial(self._token_of, mechanism))

    def _token_of(self, mechanism: ScramMechanism, token_id: str) -> TokenLogin:
        """Return the token with this id; a token that fails every login if there is none."""
        key, image = self._known.token_key, self._known.image()
        token = image.tokens.get(token_id)
        if key is None or token is None:
            return TokenLogin("", pretended(image.scram_secret, None, token_id), lambda: 0)
        ends_ms, wall_ms = min(token.expires_ms, token.latest_ms), self._known.wall_ms
        return TokenLogin(
            owner=token.owner.partition(":")[2],
            credential=key.credential_of(mechanism, token_id),
            left_ms=lambda: ends_ms - wall_ms(),
        )

    def enter(self, stranger: Guest) -> None:
        """Register a connection without login; if there are too many, the oldest one is closed."""
        self.strangers[stranger] = None
        if len(self.strangers) > STRANGERS_MAX:
            oldest = next(iter(self.strangers))
            self.leave(oldest)
            oldest.cut(f"{STRANGERS_MAX} others are not logged in either, and it came first")

    def leave(self, stranger: Guest) -> None:
        """Unregister a connection, because its client has logged in or it is closed."""
        self.strangers.pop(stranger, None)
