"""Lets no request of a connection through before its client has logged in by SASL.

`Authentication` carries out what `ServerLogin` decides: it reads the steps of a login from frames,
answers them, delays the answer to a failed login, and closes a connection whose login takes too
long. After a login whose session has no end, the object is dropped and costs nothing.
"""

import struct
from typing import TYPE_CHECKING, Any, Final

from ...protocol.api import ApiKey
from ...protocol.codec import (
    RequestHeader,
    decode_at,
    decode_request_header,
    frame_response,
    request_class,
    response_class,
)
from ...protocol.errors import ErrorCode, ProtocolError, RemoteProtocolError
from ...protocol.schema import shape_of
from ...protocol.types import Buffer
from ...security.principal import ANONYMOUS
from ...security.sasl.server import Answered, ServerLogin, Turn
from ..admission.logins import LOGIN_MS
from ..audit.happenings import login_failed
from ..deadlines import Deadline

if TYPE_CHECKING:
    from .connection import Connection

_LENGTH: Final = struct.Struct(">i")


class Authentication:
    """The login of one connection, which lets no request pass until the login is complete."""

    __slots__ = ("_connection", "_held", "_is_over", "_login", "_timer")

    def __init__(self, connection: "Connection", login: ServerLogin) -> None:
        edge = connection.edge
        assert edge.logins is not None
        self._connection = connection
        self._login = login
        self._held: tuple[list[Buffer], str] | None = None
        self._is_over = False
        self._timer: Deadline | None = edge.deadlines.after(LOGIN_MS, self._on_late)
        connection.inbox.reader.max_frame = edge.logins.config.sasl_server_max_receive_size
        edge.logins.enter(connection)

    def passes(self, frame: memoryview) -> bool:
        """Return True if the connection may handle the request, else process it as login.

        A request that the login does not allow is answered with an error, or ends the connection.
        """
        if self._is_over:
            return False
        login, now_ms = self._login, self._connection.edge.runtime.monotonic_ms()
        if login.is_raw:
            self._answer(login.on_token(bytes(frame), now_ms), None)
            return False
        header, position = decode_request_header(frame)
        if login.is_complete or header.api_key != ApiKey.API_VERSIONS or _is_spoken(header):
            turn = login.on_request(header.api_key, now_ms)
        else:
            # The answer names the versions that are spoken, and the client asks again (KIP-511).
            turn = Turn.PASS if login.is_new else Turn.CLOSE
        match turn:
            case Turn.PASS:
                return True
            case Turn.LOGIN:
                self._step(header, frame, position, now_ms)
            case Turn.ILLEGAL:
                self._hold(_illegal(header), f"{_name(header)} in the middle of a login")
            case Turn.CLOSE:
                self._close(f"{_name(header)} {_why_closed(login)}")
        return False

    def close(self) -> None:
        """End the timer, because the connection is gone."""
        self._end_timer()
        logins = self._connection.edge.logins
        assert logins is not None
        logins.leave(self._connection)
        del self._connection

    def _step(self, header: RequestHeader, frame: memoryview, position: int, now_ms: int) -> None:
        if not _is_spoken(header):
            raise RemoteProtocolError(f"{_name(header)} v{header.api_version} is not spoken here")
        request: Any = decode_at(request_class(header.api_key), header.api_version, frame, position)
        if header.api_key == ApiKey.SASL_HANDSHAKE:
            answered = self._login.on_handshake(request.mechanism, header.api_version, now_ms)
        else:
            answered = self._login.on_token(request.auth_bytes, now_ms)
        self._answer(answered, header)

    def _answer(self, answered: Answered, header: RequestHeader | None) -> None:
        """Answer a step of the login; `header` is None for a token without a request header."""
        if isinstance(answered.answer, bytes):
            parts: list[Buffer] = [_LENGTH.pack(len(answered.answer)) + answered.answer]
        else:
            assert header is not None
            parts = frame_response(answered.answer, header.api_version, header.correlation_id)
        if answered.failed is not None:
            self._hold([] if header is None else parts, answered.failed)
            return
        self._connection.outbox.add(parts)
        if self._login.is_complete:
            self._on_complete()

    def _on_complete(self) -> None:
        connection, login = self._connection, self._login
        edge = connection.edge
        assert edge.logins is not None
        assert login.principal is not None
        self._end_timer()
        edge.logins.leave(connection)
        is_again = connection.session.principal is not ANONYMOUS
        edge.doors.note_proved(connection.listener.name, is_again=is_again)
        connection.session.principal = login.principal
        connection.session.is_by_token = login.is_by_token
        connection.inbox.reader.max_frame = edge.config.socket_request_max_bytes
        if not login.has_end:
            connection.guard = None

    def _hold(self, parts: list[Buffer], why: str) -> None:
        """Send the answer `parts` after the configured delay, and close; read no request before."""
        self._end_timer()
        self._is_over = True
        self._held = parts, why
        edge = self._connection.edge
        assert edge.logins is not None
        listener = self._connection.listener.name
        edge.doors.note_unproved(listener)
        if edge.audit_feed.is_on:
            edge.audit_feed.note(login_failed(self._connection.host, listener, why))
        delay_ms = edge.logins.config.connection_failed_authentication_delay_ms
        self._timer = edge.deadlines.after(delay_ms, self._send_held)

    def _send_held(self) -> None:
        assert self._held is not None
        parts, why = self._held
        self._timer = None
        self._connection.outbox.add(parts)
        self._connection.close_after_answers(why)

    def _on_late(self) -> None:
        self._timer = None
        self._close(f"it did not log in within {LOGIN_MS} ms")

    def _close(self, why: str) -> None:
        self._is_over = True
        self._connection.close_after_answers(why)

    def _end_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def guard_of(connection: "Connection") -> Authentication | None:
    """Begin the login of a new connection; return None if its listener requires none."""
    logins = connection.edge.logins
    login = None if logins is None else logins.begin(connection.listener.name)
    if login is None:
        return None
    guard = connection.session.login = Authentication(connection, login)
    return guard


def _is_spoken(header: RequestHeader) -> bool:
    return header.api_version in shape_of(request_class(header.api_key)).versions


def _name(header: RequestHeader) -> str:
    try:
        return ApiKey(header.api_key).name
    except ValueError:
        return f"API {header.api_key}"


def _why_closed(login: ServerLogin) -> str:
    if login.is_complete:
        return "came after the end of the session, in which it did not log in again"
    return "came before a login, which the listener asks for"


def _illegal(header: RequestHeader) -> list[Buffer]:
    """Return the error response to a request that a login does not allow, or [] if it has none."""
    try:
        cls = response_class(header.api_key)
        answer = cls(error_code=ErrorCode.ILLEGAL_SASL_STATE)
        return frame_response(answer, header.api_version, header.correlation_id)
    except (KeyError, TypeError, ProtocolError):
        return []
