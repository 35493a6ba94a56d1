"""One TCP connection of the control protocol: frames, their seals, handshake, calls with deadlines.

`ControlStream` is used at both ends, `ControlConnection` by the end that opens the connection. The
owner of the connection reconnects, finds the active controller and repeats requests.
"""

import asyncio
import logging
import ssl
from collections.abc import Callable
from typing import Any, Final, TypeVar, cast

from ...protocol.control.frames import (
    FRAME_BYTES_MAX,
    Frame,
    KafkaRequest,
    decode_frame,
    encode_body,
    with_size,
)
from ...protocol.control.messages import (
    ANSWERS,
    ROLE_CONTROLLER,
    Endpoint,
    Hello,
    HelloAnswer,
    Refused,
    Request,
)
from ...protocol.control.packing import ITEM_COUNT_MAX
from ...protocol.errors import ApiError, ErrorCode, RemoteProtocolError
from ...protocol.framing import FrameReader
from ...security.control_identity import is_controller, name_of_node
from ...security.control_keys import ControlKeys
from ...security.control_proof import ControlProof
from ...security.control_seal import TAG_BYTES, Seal
from ...security.control_tls import ControlTls
from ...security.tls import reason_of

A = TypeVar("A")

CLOSE_MS: Final = 1_000
"""Milliseconds that a controller may take to answer the close_notify that ends TLS."""
CALLS_IN_FLIGHT_MAX: Final = 256
UNSENT_BYTES_MAX: Final = 2 * FRAME_BYTES_MAX
"""The most bytes that may wait for a peer to read them; beyond it the connection is closed."""

log = logging.getLogger(__name__)


class ControlStream(asyncio.BufferedProtocol):
    """Sends and receives frames. Frames and errors are passed to callbacks; nothing is raised."""

    def __init__(
        self,
        on_frame: Callable[[Frame], None],
        on_closed: Callable[[str], None],
        on_resized: Callable[[], None] = lambda: None,
        say_refused: Callable[[str, str], None] | None = None,
    ) -> None:
        """`on_closed` is called once, with the reason; `on_resized` when `held_bytes` changes.

        `say_refused(peer, why)` logs that a peer's bytes could not be read; by default a warning is
        logged each time.
        """
        self._on_frame = on_frame
        self._on_closed: Callable[[str], None] | None = on_closed
        self._say_refused = say_refused or _say_refused
        self._reader = FrameReader(FRAME_BYTES_MAX + TAG_BYTES, on_resized)
        self._items_max = ITEM_COUNT_MAX
        self._transport: asyncio.Transport | None = None
        self.seal: Seal | None = None
        """The seal of all frames from now on, in both directions; None while there is none."""
        self._reason = "closed by the peer"
        self._is_unwanted = False
        self.peer = "?"
        """The address of the other end, for logs."""

    @property
    def held_bytes(self) -> int:
        """The bytes of the receive buffer, which grows for large frames."""
        return self._reader.capacity

    def limit_frames(self, size: int, items_max: int) -> None:
        """From now on refuse frames of more than `size` bytes, or with an array of more items.

        The tag of a sealed frame does not count towards `size`.
        """
        self._reader.max_frame = size + TAG_BYTES
        self._items_max = items_max

    @property
    def tls_end(self) -> ssl.SSLObject | None:
        """This end of TLS; None if the connection has no TLS."""
        transport = self._transport
        return None if transport is None else transport.get_extra_info("ssl_object")

    @property
    def is_open(self) -> bool:
        """True while frames can be sent."""
        return self._transport is not None and not self._transport.is_closing()

    def send(self, correlation_id: int, message: object) -> None:
        """Queue one frame to be sent; drop the frame if the connection is closing."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        body = encode_body(correlation_id, message)
        transport.write(with_size(body if self.seal is None else self.seal.close(body)))
        if transport.get_write_buffer_size() > UNSENT_BYTES_MAX:
            self.abort(f"the peer left {UNSENT_BYTES_MAX} bytes unread")

    def close(self, reason: str = "closed here") -> None:
        """Send the queued frames, then close."""
        if self._transport is None:
            self.abort(reason)
        elif not self._transport.is_closing():
            self._reason = reason
            self._transport.close()

    def abort(self, reason: str) -> None:
        """Close immediately and drop queued frames; a connection being made is closed when made."""
        self._reason = reason
        self._is_unwanted = True
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport that the loop made."""
        self._transport = cast(asyncio.Transport, transport)
        address = transport.get_extra_info("peername")
        self.peer = f"{address[0]}:{address[1]}" if address else "?"
        if self._is_unwanted:
            self._transport.abort()

    def get_buffer(self, sizehint: int) -> Any:
        """Return memory for the bytes that arrive next; the loop calls this."""
        return self._reader.get_buffer(sizehint)

    def buffer_updated(self, nbytes: int) -> None:
        """Decode the whole frames that have arrived, and call `on_frame` with each."""
        try:
            for body in self._reader.feed(nbytes):
                # A frame may bring the seal of those after it in the same read.
                body = body if self.seal is None else self.seal.open(body)
                frame = decode_frame(body, self._items_max)
                if self.is_open:
                    self._on_frame(frame)
        except RemoteProtocolError as error:
            self._say_refused(self.peer, str(error))
            if isinstance(error, KafkaRequest):
                # minikafka's own clients recognise this control frame, and report it.
                self.send(0, Refused(ErrorCode.INVALID_REQUEST, str(error)))
                self.close(str(error))
            else:
                self.abort(str(error))

    def eof_received(self) -> bool:
        """Let the transport close the connection, because the peer has closed its side."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Call `on_closed`, once, with the reason."""
        self._reader = FrameReader(0)  # Its buffer is freed at once.
        if self._on_closed is not None:
            on_closed, self._on_closed = self._on_closed, None
            on_closed(self._reason if exc is None else _said(exc))


def _said(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return f"TLS failed, {reason_of(error)}"
    return str(error)


def _say_refused(peer: str, why: str) -> None:
    log.warning("control connection with %s closed: %s", peer, why)


class ControlConnection:
    """The opening end of a control connection. Every failure is an ApiError:

    NETWORK_EXCEPTION if the connection is lost, REQUEST_TIMED_OUT at a deadline (the outcome is
    then unknown), CLUSTER_AUTHORIZATION_FAILED if a seal is required here and the controller holds
    no key of ours, or the code with which the controller refused.
    """

    def __init__(self) -> None:
        """Make a connection that is not open; callers use `open`."""
        self._stream = ControlStream(self._on_frame, self._on_closed)
        self._calls: dict[int, tuple[type[Any], asyncio.Future[Any]]] = {}
        self._next_id = 0
        self._closed_because: str | None = None
        self._closed = asyncio.Event()
        self.address = ""
        self.redirect: Endpoint | None = None
        """The endpoint of the active controller, as NOT_CONTROLLER named it."""
        self.on_closed: Callable[[], None] | None = None
        """Called when the connection is lost; None if the owner need not be notified."""
        self.peer = HelloAnswer(error=ErrorCode.NONE)
        """The controller's answer in the handshake."""

    @classmethod
    async def open(
        cls,
        host: str,
        port: int,
        hello: Hello,
        *,
        timeout_ms: int,
        keys: ControlProof | None = None,
    ) -> "ControlConnection":
        """Connect and exchange Hello, within `timeout_ms` for both together.

        With `keys`, the connection is sealed, or the certificates are checked, before Hello is
        sent. Raise ApiError: REQUEST_TIMED_OUT, NETWORK_EXCEPTION, or the code with which the peer
        refuses.
        """
        connection = cls()
        connection.address = f"{host}:{port}"
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await connection._connect(host, port, keys)
                if isinstance(keys, ControlKeys):
                    await connection._seal_with(keys, timeout_ms)
                connection.peer = await connection.call(hello, timeout_ms=timeout_ms)
        except TimeoutError as error:
            connection.abort("the handshake took too long")
            detail = f"{host}:{port} did not answer within {timeout_ms} ms"
            raise ApiError(ErrorCode.REQUEST_TIMED_OUT, detail) from error
        except ssl.SSLError as error:
            detail = f"TLS with {host}:{port} failed, {reason_of(error)}"
            raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, detail) from error
        except OSError as error:
            detail = f"no connection to {host}:{port}: {error}"
            raise ApiError(ErrorCode.NETWORK_EXCEPTION, detail) from error
        except ApiError as error:
            connection.abort("the handshake failed")
            if isinstance(keys, ControlTls) and error.code is ErrorCode.NETWORK_EXCEPTION:
                # What a controller says of our certificate may be lost as it closes (TLS 1.3).
                detail = f"{error.detail}: if it does not accept our certificate, its log says why"
                raise ApiError(error.code, detail) from error
            raise
        except BaseException:
            connection.abort("the handshake failed")
            raise
        if connection.peer.error:
            connection.close()
            raise ApiError(ErrorCode(connection.peer.error), connection.peer.message)
        if isinstance(keys, ControlTls):
            connection._check_name(keys, name_of_node(ROLE_CONTROLLER, connection.peer.node_id))
        return connection

    async def _connect(self, host: str, port: int, keys: ControlProof | None) -> None:
        loop = asyncio.get_running_loop()
        if not isinstance(keys, ControlTls):
            await loop.create_connection(lambda: self._stream, host, port)
            return
        await loop.create_connection(
            lambda: self._stream,
            host,
            port,
            ssl=keys.client_context,
            server_hostname=host,
            ssl_shutdown_timeout=CLOSE_MS / 1000,
        )
        self._check_name(keys)

    def _check_name(self, tls: ControlTls, due: str | None = None) -> None:
        """Raise ApiError unless the certificate has the name `due`, or without it a controller's.

        Before the first check nothing that the peer sends is trusted, not even a refusal.
        """
        end = self._stream.tls_end
        name = (None if end is None else tls.name_of(end)) or ""
        if name != due if due else not is_controller(name):
            self.abort("its certificate is that of another")
            who = repr(due) if due else "no controller"
            detail = f"{self.address} is {who}, but its certificate is that of {name!r}"
            raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, detail)

    @property
    def datagram_key(self) -> bytes | None:
        """The key that authenticates heartbeats beside this connection, or None."""
        seal = self._stream.seal
        return (self.peer.datagram_key or None) if seal is None else seal.datagram_key

    @property
    def is_open(self) -> bool:
        """True until the connection is known to be lost; a silent peer is not detected here."""
        return self._closed_because is None and self._stream.is_open

    async def call(self, request: Request[A], *, timeout_ms: int) -> A:
        """Send a request and wait for its answer, whose `error` the caller must check.

        Raise ApiError: REQUEST_TIMED_OUT after `timeout_ms`, NETWORK_EXCEPTION if the connection is
        lost, THROTTLING_QUOTA_EXCEEDED if too many calls are unanswered.
        """
        if not self.is_open:
            raise self._lost()
        if len(self._calls) >= CALLS_IN_FLIGHT_MAX:
            detail = f"{CALLS_IN_FLIGHT_MAX} calls to {self.address} are unanswered"
            raise ApiError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, detail)
        correlation_id, self._next_id = self._next_id, self._next_id + 1
        future: asyncio.Future[A] = asyncio.get_running_loop().create_future()
        self._calls[correlation_id] = (type(request), future)
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                self._stream.send(correlation_id, request)
                return await future
        except TimeoutError as error:
            detail = f"{self.address}: no {type(request).__name__} answer in {timeout_ms} ms"
            raise ApiError(ErrorCode.REQUEST_TIMED_OUT, detail) from error
        finally:
            self._calls.pop(correlation_id, None)

    async def _seal_with(self, keys: ControlKeys, timeout_ms: int) -> None:
        """Agree on a seal; continue without one if the peer has no key and none is required.

        Raise ApiError: CLUSTER_AUTHORIZATION_FAILED if the peer has no key that is accepted.
        """
        offering = keys.offering()
        try:
            accepted = await self.call(offering.offer, timeout_ms=timeout_ms)
        except ApiError as error:
            if error.code in (ErrorCode.NETWORK_EXCEPTION, ErrorCode.REQUEST_TIMED_OUT):
                raise
            if keys.is_required:
                # The refusal is not sealed: nothing else in it is believed.
                detail = f"{self.address} cannot prove that it is of this cluster: {error.detail}"
                raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, detail) from error
            return
        try:
            self._stream.seal = offering.on_accepted(accepted)
        except RemoteProtocolError as error:
            raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, str(error)) from error

    def close(self) -> None:
        """Close after the queued frames are sent; unanswered calls fail."""
        self._stream.close()

    def abort(self, reason: str) -> None:
        """Close immediately, without sending queued frames; used if a peer does not answer."""
        self._stream.abort(reason)

    async def wait_until_closed(self) -> str:
        """Wait until the connection is lost, and return the reason."""
        await self._closed.wait()
        return self._closed_because or "closed"

    def _lost(self) -> ApiError:
        why = self._closed_because or "not connected"
        return ApiError(ErrorCode.NETWORK_EXCEPTION, f"connection to {self.address} lost: {why}")

    def _on_frame(self, frame: Frame) -> None:
        waiting = self._calls.get(frame.correlation_id)
        if waiting is None:
            if frame.correlation_id >= self._next_id:
                raise RemoteProtocolError(f"an answer to nothing: {type(frame.message).__name__}")
            return
        cls, future = waiting
        if future.done():
            return
        message = frame.message
        if isinstance(message, Refused):
            self.redirect = message.active_controller or self.redirect
            future.set_exception(ApiError(ErrorCode(message.error), message.message))
        elif isinstance(message, ANSWERS[cls]):
            future.set_result(message)
        else:
            answer = type(message).__name__
            raise RemoteProtocolError(f"{cls.__name__} was answered by {answer}")

    def _on_closed(self, reason: str) -> None:
        self._closed_because = reason
        self._closed.set()
        for _, future in self._calls.values():
            if not future.done():
                future.set_exception(self._lost())
        if self.on_closed is not None:
            self.on_closed()
