"""The server end of one connection's login: which request may come when, and its answer.

    INITIAL -ApiVersions-> GREETED -SaslHandshake v1-> STEPPING -SaslAuthenticate-> COMPLETE
                              |                                        ^
                              +----SaslHandshake v0-----> RAW ---------+

A failed login ends in FAILED. A complete one begins anew with a SaslHandshake if its session has an
end (KIP-368). The states and the answers are those of Kafka's SaslServerAuthenticator.
"""

from collections.abc import Callable, Mapping
from enum import Enum, auto
from typing import Final, NamedTuple

from ...protocol.api import ApiKey
from ...protocol.errors import ErrorCode
from ...protocol.messages.sasl_authenticate import SaslAuthenticateResponse
from ...protocol.messages.sasl_handshake import SaslHandshakeResponse
from ..principal import Principal, user
from .replies import Accepted, Challenge, Refused, ServerEnd

BETWEEN_LOGINS_MS: Final = 1_000
"""The least milliseconds between two logins on a connection; an earlier one is refused."""


class Offered(NamedTuple):
    """A mechanism that a listener offers."""

    begin: Callable[[], ServerEnd]
    """Makes the server end of a new login."""
    reauth_ms: int = 0
    """Milliseconds after which a client must log in again; 0 means never."""


class Turn(Enum):
    """The ways to treat a request, by the state of the login."""

    PASS = auto()
    """The request is handled as on any other connection."""
    LOGIN = auto()
    """The request is a step of the login: `on_handshake` or `on_token` takes it."""
    ILLEGAL = auto()
    """The request is answered ILLEGAL_SASL_STATE, and the connection is closed."""
    CLOSE = auto()
    """The connection is closed without an answer."""


class Answered(NamedTuple):
    """The answer to a step of the login."""

    answer: SaslHandshakeResponse | SaslAuthenticateResponse | bytes
    """A response; after a SaslHandshake v0 the bare token to send, empty if the login failed."""
    failed: str | None = None
    """The reason why the login has failed; None if it has not. After a failure the answer is
    delayed, and the connection is closed behind it."""


class _State(Enum):
    INITIAL = auto()
    GREETED = auto()
    STEPPING = auto()
    RAW = auto()
    COMPLETE = auto()
    FAILED = auto()


class ServerLogin:
    """The login of one connection, from its first request on."""

    def __init__(self, offered: Mapping[str, Offered]) -> None:
        """`offered` has the mechanisms of the listener, by name."""
        self._offered = offered
        self._state = _State.INITIAL
        self._mechanism: str | None = None
        self._end: ServerEnd | None = None
        self._is_other_mechanism = False
        self._began_ms: int | None = None
        self._expires_ms: int | None = None
        self.principal: Principal | None = None
        """The principal of the last login that succeeded."""
        self.is_by_token = False
        """True if that login was by a delegation token."""

    @property
    def is_new(self) -> bool:
        """True if the client has asked for nothing yet."""
        return self._state is _State.INITIAL

    @property
    def is_complete(self) -> bool:
        """True while the client is logged in, and not about to log in again."""
        return self._state is _State.COMPLETE

    @property
    def is_raw(self) -> bool:
        """True if the next frame is a token and no request."""
        return self._state is _State.RAW

    @property
    def has_end(self) -> bool:
        """True if the session that began with the last login ends at some time."""
        return self._expires_ms is not None

    def on_request(self, key: int, now_ms: int) -> Turn:
        """Return how to treat a request of that API."""
        state = self._state
        if state is _State.COMPLETE:
            return self._on_request_within(key, now_ms)
        if key == ApiKey.SASL_HANDSHAKE and state in (_State.INITIAL, _State.GREETED):
            return Turn.LOGIN
        if key == ApiKey.API_VERSIONS and state is _State.INITIAL:
            self._state = _State.GREETED
            return Turn.PASS
        if state is not _State.STEPPING:
            return Turn.CLOSE
        if key == ApiKey.SASL_AUTHENTICATE:
            return Turn.LOGIN
        self._state = _State.FAILED
        return Turn.ILLEGAL

    def _on_request_within(self, key: int, now_ms: int) -> Turn:
        """Return how to treat a request of that API by a client that is logged in."""
        if self._expires_ms is None:
            return Turn.PASS
        if key == ApiKey.SASL_HANDSHAKE:
            began_ms = self._began_ms
            is_too_soon = began_ms is not None and now_ms - began_ms < BETWEEN_LOGINS_MS
            return Turn.PASS if is_too_soon else Turn.LOGIN
        return Turn.CLOSE if now_ms >= self._expires_ms else Turn.PASS

    def on_handshake(self, mechanism: str, version: int, now_ms: int) -> Answered:
        """Take the mechanism that the client has chosen, and return the answer."""
        names = list(self._offered)
        offered = self._offered.get(mechanism)
        if offered is None:
            self._state = _State.FAILED
            code = ErrorCode.UNSUPPORTED_SASL_MECHANISM
            why = f"it asked for SASL mechanism {mechanism[:100]!r}, which is not enabled"
            return Answered(SaslHandshakeResponse(error_code=code, mechanisms=names), why)
        self._is_other_mechanism = self._mechanism not in (None, mechanism)
        self._mechanism = mechanism
        self._end = offered.begin()
        self._began_ms = now_ms
        self._state = _State.STEPPING if version else _State.RAW
        return Answered(SaslHandshakeResponse(mechanisms=names))

    def on_token(self, token: bytes, now_ms: int) -> Answered:
        """Take a token from a SaslAuthenticate, or from a frame of its own; return the answer."""
        assert self._end is not None
        reply = self._end.step(token)
        if self._is_other_mechanism:
            reply = Refused(f"the session began with another mechanism than {self._mechanism}")
        match reply:
            case Challenge(challenge):
                return Answered(self._token(challenge))
            case Accepted():
                return self._accept(reply, now_ms)
            case Refused(message, why):
                return self._refuse(message, why or message)

    def _accept(self, accepted: Accepted, now_ms: int) -> Answered:
        principal = user(accepted.name)
        if self.principal not in (None, principal):
            why = f"the session began as {self.principal}, and it must stay so"
            return self._refuse(why, why)
        assert self._mechanism is not None
        ends = (self._offered[self._mechanism].reauth_ms, accepted.rest_ms)
        lifetime_ms = min((end for end in ends if end), default=0)
        self.principal, self.is_by_token = principal, accepted.is_by_token
        self._end = None
        self._expires_ms = now_ms + lifetime_ms if lifetime_ms else None
        answer = self._token(accepted.token, lifetime_ms)
        self._state = _State.COMPLETE
        return Answered(answer)

    def _refuse(self, message: str, reason: str) -> Answered:
        is_raw, self._state = self.is_raw, _State.FAILED
        why = f"login by {self._mechanism} failed: {reason}"
        if is_raw:
            return Answered(b"", why)
        code = ErrorCode.SASL_AUTHENTICATION_FAILED
        return Answered(SaslAuthenticateResponse(error_code=code, error_message=message), why)

    def _token(self, token: bytes, lifetime_ms: int = 0) -> SaslAuthenticateResponse | bytes:
        if self.is_raw:
            return token
        return SaslAuthenticateResponse(auth_bytes=token, session_lifetime_ms=lifetime_ms)
