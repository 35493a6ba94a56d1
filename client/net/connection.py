"""One connection to a Kafka broker: version negotiation, correlation, deadlines.

It owns the socket's receive buffer and the requests in flight. It neither reconnects nor retries,
and leaves error codes in answers to the caller. When the connection ends, requests in flight fail
with the reason.

Life of a connection: `open` resolves the host, connects and sends ApiVersions (KIP-511: an answer
UNSUPPORTED_VERSION comes in version 0 and names the versions to try instead). Then requests are
answered in order. A request past its deadline, or bytes that are no valid answer, end the
connection.
"""

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import Any, Final, Self, cast

from ...protocol import codec
from ...protocol.api import ApiKey
from ...protocol.errors import ErrorCode, RemoteProtocolError
from ...protocol.framing import CONTROL_FRAME_BEGIN, FrameReader
from ...protocol.messages.api_versions import ApiVersionsResponse
from ...protocol.primitives import read_uvarint
from ...protocol.schema import shape_of
from ...protocol.types import Buffer
from ...runtime.keepalive import keep_alive
from ...runtime.runtime import Runtime
from ...security.client_security import ClientSecurity
from ...security.sasl.errors import NoToken, SaslError
from ...security.tls import is_refusal, reason_of
from ...security.tls_records import in_records
from .errors import (
    GET_TOKEN,
    HANDSHAKE,
    LOG_IN,
    Attempt,
    ConnectError,
    ConnectionLost,
    RequestTimedOut,
    UnsupportedVersion,
)
from .greeting import begin_session, negotiate
from .renewal import LOGIN, Renewal
from .throttle import Throttle
from .traffic import Traffic
from .versions import AgreedVersions

UNSUPPORTED_VERSION_BYTES: Final = int(ErrorCode.UNSUPPORTED_VERSION).to_bytes(2, "big")
SCRATCH_BYTES: Final = 4096
CLOSE_WAIT_S: Final = 1.0
CLOSED: Final = "closed by the broker"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionOptions:
    """The settings of every connection of one client."""

    client_id: str = "minikafka"
    connect_timeout_ms: int = 10_000
    """The limit in ms for resolving, connecting and negotiating together."""
    request_timeout_ms: int = 30_000
    """The limit in ms for an answer, unless the call gives another limit."""
    max_frame_bytes: int = 256 << 20
    """The most bytes of an answer; a larger one ends the connection."""
    max_in_flight: int = 100
    """The most unanswered requests. At this number `request` waits, and `send` raises
    ConnectionLost."""
    security: ClientSecurity | None = None
    """TLS and the login, carried out before the first request; None on a plain-text listener."""
    traffic: Traffic | None = None
    """The observer that counts requests and answers; None if nothing is counted."""


class _Pending:
    """A request whose answer has not arrived."""

    __slots__ = (
        "cls",
        "correlation_id",
        "deadline_ms",
        "future",
        "key",
        "raw",
        "sent_ms",
        "version",
    )

    def __init__(
        self, key: int, version: int, correlation_id: int, deadline_ms: int, raw: bool
    ) -> None:
        self.key = key
        self.cls = codec.response_class(key)
        self.version = version
        self.correlation_id = correlation_id
        self.deadline_ms = deadline_ms
        self.raw = raw
        self.sent_ms = 0
        self.future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def fail(self, error: Exception) -> None:
        """Fail the request with `error`, unless its future is done already."""
        if not self.future.done():
            self.future.set_exception(error)


class KafkaConnection(asyncio.BufferedProtocol):
    """A connection to one broker, made by `open`; once `is_open` is False, it stays unusable."""

    def __init__(self, runtime: Runtime, address: str, options: ConnectionOptions) -> None:
        self.address = address
        self._runtime = runtime
        self._options = options
        self._traffic = options.traffic
        self._reader = FrameReader(options.max_frame_bytes)
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._pending: deque[_Pending] = deque()
        self._next_correlation_id = 0
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at_ms = 0
        self._lent = False
        self._scratch = bytearray()
        self._end: str | None = None
        self._lost: asyncio.Future[None] = self._loop.create_future()
        self.versions = AgreedVersions(address)
        self._renewal: Renewal | None = None
        self.throttle = Throttle()
        self.is_tls = options.security is not None and options.security.tls is not None

    # -- opening and closing

    @classmethod
    async def open(
        cls, runtime: Runtime, host: str, port: int, options: ConnectionOptions | None = None
    ) -> Self:
        """Resolve, connect and negotiate versions; ConnectError names the phase that failed."""
        options = options or ConnectionOptions()
        connection = cls(runtime, f"{host}:{port}", options)
        phase = "connect"
        try:
            async with asyncio.timeout(options.connect_timeout_ms / 1000):
                await _connect(connection, host, port, options)
                phase = "negotiate"
                await negotiate(connection, options.connect_timeout_ms)
                connection._renewal = await begin_session(connection, runtime, options)
        except TimeoutError:
            connection.abort("took too long to open")
            cause = f"no answer within {options.connect_timeout_ms} ms"
            raise ConnectError(Attempt(connection.address, phase, cause)) from None
        except (SaslError, NoToken) as error:
            connection.abort("the login failed")
            raise ConnectError(_attempted_login(connection, error)) from error
        except (OSError, ConnectionLost, RemoteProtocolError, UnsupportedVersion) as error:
            connection.abort("could not be opened")
            raise ConnectError(_attempt(connection, phase, error)) from error
        except BaseException:
            connection.abort("opening was given up")
            raise
        return connection

    @property
    def is_open(self) -> bool:
        """True while requests can be sent."""
        return self._end is None

    @property
    def in_flight_count(self) -> int:
        """The number of requests that were sent and are not answered."""
        return len(self._pending)

    def abort(self, why: str = "closed by this client") -> None:
        """Close the connection immediately; requests in flight fail with ConnectionLost."""
        self._finish(why)
        if self._transport is not None:
            self._transport.abort()

    async def lost_within(self, timeout_s: float) -> bool:
        """Wait until the transport is closed, for `timeout_s` at most; True if it is closed."""
        await asyncio.wait([self._lost], timeout=timeout_s)
        return self._lost.done()

    async def close(self) -> None:
        """Send the written bytes, for CLOSE_WAIT_S at most, then close; requests in flight fail."""
        self._finish("closed by this client")
        if self._transport is None:
            return
        self._transport.close()
        if not await self.lost_within(CLOSE_WAIT_S):
            self._transport.abort()

    # -- requests

    async def request(
        self, message: object, *, version: int | None = None, timeout_ms: int | None = None
    ) -> Any:
        """Send a request and wait for its response, whose error codes the caller must check.

        Raises RequestTimedOut after `timeout_ms` (default request_timeout_ms), which also closes
        the connection; ConnectionLost; RemoteProtocolError for an invalid response;
        UnsupportedVersion.
        """
        while self.is_open and len(self._pending) >= self._options.max_in_flight:
            await asyncio.wait([self._pending[0].future])
        return await self.send(message, version=version, timeout_ms=timeout_ms)

    def send(
        self, message: object, *, version: int | None = None, timeout_ms: int | None = None
    ) -> "asyncio.Future[Any]":
        """Send a request immediately; the future holds its response, or an error as in `request`.

        Record bytes in the response stay valid when the receive buffer is used again.
        """
        return self._send(message, version, timeout_ms, raw=False)

    def send_raw(
        self, message: object, *, version: int | None = None, timeout_ms: int | None = None
    ) -> "asyncio.Future[memoryview]":
        """Send a request immediately; the future holds the undecoded body of its response.

        The body is a view of the receive buffer, which the caller must read before it sends another
        request. The body is a copy if other requests are in flight when the response arrives.
        """
        return self._send(message, version, timeout_ms, raw=True)

    def send_and_forget(self, message: object, *, version: int | None = None) -> None:
        """Send a request that the peer does not answer (Produce with acks=0)."""
        key = shape_of(type(message)).api_key
        self._check_usable(key)
        self._write(key, message, self.versions.of(key) if version is None else version)

    def _send(
        self, message: object, version: int | None, timeout_ms: int | None, *, raw: bool
    ) -> "asyncio.Future[Any]":
        key = shape_of(type(message)).api_key
        self._check_usable(key)
        if version is None:
            version = self.versions.of(key)
        if timeout_ms is None:
            timeout_ms = self._options.request_timeout_ms
        deadline_ms = self._runtime.monotonic_ms() + timeout_ms
        pending = _Pending(key, version, self._write(key, message, version), deadline_ms, raw)
        pending.sent_ms = deadline_ms - timeout_ms
        if self._renewal is None:
            self._pending.append(pending)
        else:
            self._renewal.place(self._pending, pending)
        if self._timer is None or deadline_ms < self._timer_at_ms:
            self._arm(deadline_ms)
        return pending.future

    def _check_usable(self, key: int) -> None:
        if self._end is not None:
            raise ConnectionLost(f"{self.address}: {self._end}")
        if len(self._pending) >= self._options.max_in_flight and key not in LOGIN:
            raise ConnectionLost(f"{self.address}: too many requests in flight")

    def _write(self, key: int, message: object, version: int) -> int:
        correlation_id = self._next_correlation_id = (self._next_correlation_id + 1) & 0x7FFFFFFF
        parts = codec.frame_request(message, version, correlation_id, self._options.client_id)
        self._lent = False
        if self._renewal is None or not self._renewal.holds(key, parts):
            self.transmit(parts)
        return correlation_id

    def transmit(self, parts: list[Buffer]) -> None:
        """Write the frame of a request; apart from the connection, only `Renewal` calls this."""
        if self._traffic is not None:
            self._traffic.on_sent(sum(map(len, parts)))
        _write_all(self._transport, parts, self.is_tls)

    # -- deadlines: one timer for all requests of the connection

    def _arm(self, at_ms: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at_ms = at_ms
        wait_s = max(at_ms - self._runtime.monotonic_ms(), 0) / 1000
        self._timer = self._loop.call_later(wait_s, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        if not self._pending:
            return
        earliest = min(self._pending, key=lambda pending: pending.deadline_ms)
        if earliest.deadline_ms > self._runtime.monotonic_ms():
            self._arm(earliest.deadline_ms)
            return
        # Answers come in order, so later requests cannot be answered either: close.
        why = f"{ApiKey(earliest.key).name} was not answered in time"
        earliest.fail(RequestTimedOut(f"{self.address}: {why}"))
        self.abort(why)

    # -- what the transport calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport; the loop calls this when the connection is made."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's, in all but ancestry
        keep_alive(self._transport)
        if self._traffic is not None:
            self._traffic.on_opened(self.address)
        if self._end is not None:
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail the requests in flight; the loop calls this once, at the end."""
        self._finish(f"connection lost: {exc}" if exc else CLOSED)
        if self._traffic is not None:
            self._traffic.on_closed(self.address)
        if not self._lost.done():
            self._lost.set_result(None)

    def get_buffer(self, sizehint: int) -> bytearray | memoryview:
        """Return memory for the bytes that arrive next; the loop calls this."""
        if self._lent:
            # A raw answer is still in the receive buffer, and no request was sent since.
            if not self._scratch:
                self._scratch = bytearray(SCRATCH_BYTES)
            return self._scratch
        return self._reader.get_buffer(sizehint)

    def buffer_updated(self, nbytes: int) -> None:
        """Read the answers in the bytes that arrived; the loop calls this."""
        if self._lent:
            self.abort("bytes arrived that no request had asked for")
            return
        try:
            for frame in self._reader.feed(nbytes):
                self._on_frame(frame)
        except RemoteProtocolError as error:
            self.abort(str(error))

    def _on_frame(self, frame: memoryview) -> None:
        if not self._pending:
            raise RemoteProtocolError("an answer arrived that no request had asked for")
        pending = self._pending.popleft()
        if self._traffic is not None:
            self._traffic.on_answered(self.address, len(frame), pending.sent_ms)
        try:
            message = self._read(pending, frame)
        except RemoteProtocolError as error:
            pending.fail(RemoteProtocolError(f"{self.address}: {error}"))
            raise
        self.throttle.note(pending.key, message, self._runtime.monotonic_ms)
        if not pending.future.done():
            pending.future.set_result(message)

    def _read(self, pending: _Pending, frame: memoryview) -> Any:
        correlation_id = int.from_bytes(frame[:4], "big", signed=True)
        if correlation_id != pending.correlation_id:
            raise RemoteProtocolError(_misplaced(frame, pending.correlation_id))
        if pending.raw:
            self._lent = not self._pending
            frame = frame if self._lent else memoryview(bytes(frame))
            return frame[body_position(pending.cls, pending.version, frame) :]
        return _decoded(pending, frame, self._reader)

    def _finish(self, why: str) -> None:
        if self._end is None:
            self._end = why
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._pending:
            self._pending.popleft().fail(ConnectionLost(f"{self.address}: {self._end}"))


async def _connect(
    connection: KafkaConnection, host: str, port: int, options: ConnectionOptions
) -> None:
    """Connect, and shake hands if the listener has TLS."""
    loop, security = asyncio.get_running_loop(), options.security
    if security is None or security.tls is None:
        await loop.create_connection(lambda: connection, host, port)
        return
    await loop.create_connection(
        lambda: connection,
        host,
        port,
        ssl=security.tls.context,
        server_hostname=host,
        ssl_handshake_timeout=options.connect_timeout_ms / 1000,
        ssl_shutdown_timeout=CLOSE_WAIT_S,
    )


def _write_all(transport: asyncio.Transport | None, parts: list[Buffer], is_tls: bool) -> None:
    assert transport is not None
    if len(parts) == 1:
        transport.write(parts[0])
    elif is_tls:
        for piece in in_records(parts):
            transport.write(piece)
    else:
        transport.writelines(parts)


def _attempt(connection: KafkaConnection, phase: str, error: Exception) -> Attempt:
    """Describe why opening failed, with a hint at the likely cause."""
    address, is_tls = connection.address, connection.is_tls
    cause = str(error).removeprefix(f"{address}: ")
    if phase == "connect" and isinstance(error, OSError):
        if is_refusal(error):
            return Attempt(address, HANDSHAKE, reason_of(error))
        # getaddrinfo's errors are OSErrors too; only they have these numbers below zero.
        if (error.errno or 0) < 0:
            phase = "resolve"
        elif is_tls and error.errno is None:
            cause = "closed in the TLS handshake; is it a broker's port for TLS?"
    if phase == "negotiate" and cause == CLOSED:
        hint = "does the broker ask for another certificate? Its log says why"
        if not is_tls:
            hint = "is it a broker's port for plain text, not for TLS?"
        cause = f"closed without an answer; {hint}"
    return Attempt(address, phase, cause)


def _attempted_login(connection: KafkaConnection, error: SaslError | NoToken) -> Attempt:
    phase = LOG_IN if isinstance(error, SaslError) else GET_TOKEN
    return Attempt(connection.address, phase, str(error))


def _misplaced(frame: memoryview, due: int) -> str:
    """Describe a frame whose correlation id is not `due`, the id of the oldest request."""
    if len(frame) and frame[0] == CONTROL_FRAME_BEGIN:
        return "it is a controller: clients need a broker's address"
    return f"answer {int.from_bytes(frame[:4], 'big', signed=True)} came where {due} was due"


def body_position(cls: type, version: int, frame: memoryview) -> int:
    """Return the offset of a response's body in its frame: after correlation id and header tags.

    Raise RemoteProtocolError if the header is malformed.
    """
    if not codec.is_flexible(cls, version) or shape_of(cls).api_key == ApiKey.API_VERSIONS:
        return 4
    try:
        count, pos = read_uvarint(frame, 4)
        for _ in range(count):
            _, pos = read_uvarint(frame, pos)
            size, pos = read_uvarint(frame, pos)
            pos += size
    except (IndexError, ValueError) as error:
        raise RemoteProtocolError(f"{cls.__name__} v{version} header: {error}") from error
    if pos > len(frame):
        raise RemoteProtocolError(f"{cls.__name__} v{version} header: tags do not fit the frame")
    return pos


def _decoded(pending: _Pending, frame: memoryview, reader: FrameReader) -> Any:
    if pending.key == ApiKey.FETCH:
        # Its records are views of the frame, which must outlive the receive buffer's next use.
        frame = reader.keep(frame)
    if pending.key == ApiKey.API_VERSIONS and frame[4:6] == UNSUPPORTED_VERSION_BYTES:
        return _refused_api_versions(frame)
    position = body_position(pending.cls, pending.version, frame)
    try:
        decode = codec.decoder_of(pending.cls, pending.version)
        # Bytes after the message are no error, because some brokers send them.
        return decode(frame, position, len(frame))[0]
    except codec.BAD_BYTES as error:
        what = f"{pending.cls.__name__} v{pending.version}"
        raise RemoteProtocolError(f"{what}: {error}") from error


def _refused_api_versions(frame: memoryview) -> ApiVersionsResponse:
    try:
        return codec.decode_response_frame(ApiVersionsResponse, 0, frame)[1]
    except RemoteProtocolError:
        # Some servers send only the error; then only version 0 can be tried.
        refused = int(ErrorCode.UNSUPPORTED_VERSION)
        return ApiVersionsResponse(error_code=refused, api_keys=[])
