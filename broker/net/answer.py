"""A request as its handler gets it, and an answer that is not ready when the handler returns.

These are the values and the contract between `Connection` and the modules of `api/`; no I/O here.
"""

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ...protocol.acls import CLUSTER_NAME, Operation, Resource
from ...protocol.codec import decode, frame_response, is_flexible
from ...protocol.control.image import MetadataImage
from ...protocol.types import Buffer
from ...security.audit import Denial
from ...security.authorizer import Rights
from ...security.principal import Origin, Principal
from ..edge import Edge
from .charging import Charging

if TYPE_CHECKING:
    from .connection import Connection


_FIXED = struct.Struct(">ii")
_FLEXIBLE = struct.Struct(">iib")


class Call:
    """One request: its client, its version, and its connection."""

    __slots__ = ("client_id", "connection", "correlation_id", "edge", "version")

    def __init__(
        self,
        edge: Edge,
        connection: "Connection",
        version: int,
        correlation_id: int,
        client_id: str | None,
    ) -> None:
        self.edge = edge
        self.connection = connection
        self.version = version
        self.correlation_id = correlation_id
        self.client_id = client_id

    @property
    def principal(self) -> Principal:
        """The principal of the client that sent the request."""
        return self.connection.session.principal

    @property
    def origin(self) -> Origin:
        """The client and its listener, as they are sent to the controller with a request."""
        connection = self.connection
        host, listener = connection.host, connection.listener.name
        return Origin(self.principal, host, listener, self.client_id or "")

    @property
    def rights(self) -> Rights | None:
        """The rights of the client; None without an authorizer, when everything is allowed."""
        authorizer, connection = self.edge.authorizer, self.connection
        if authorizer is None:
            return None
        return connection.session.rights_by(authorizer, connection.host)

    def demand(
        self, api_key: int, operation: Operation, resource: Resource, name: str = CLUSTER_NAME
    ) -> bool:
        """True if the client has the right to `operation` on the resource; a denial is logged."""
        rights = self.rights
        if rights is None or rights.may(operation, resource, name):
            return True
        self.edge.audit.note(rights, Denial(operation, resource, name, api_key))
        return False

    @property
    def image(self) -> MetadataImage:
        """The metadata as this broker has replayed it."""
        return self.edge.image

    def rest_on_lease(self) -> None:
        """Have the answer sent only while the leader's lease is held, as it is valid only then."""
        if self.edge.lease.is_required:
            self.connection.rest_on_lease()

    def throttle(self, quota: str, wait_ms: int) -> None:
        """Mute the connection for a time in ms, because of a quota that the controller enforces."""
        connection = self.connection
        if connection.charging is None:
            connection.charging = Charging(connection)
        connection.charging.mute(quota, wait_ms)

    def frame(self, message: object) -> list[Buffer]:
        """Encode the response to this request, and count its errors."""
        times = self.connection.times
        if times is not None:
            times.note_errors(message)
        return self.frame_counted(message)

    def frame_counted(self, message: object) -> list[Buffer]:
        """Encode the response to this request, whose errors were counted when it was built."""
        charging = self.connection.charging
        if charging is not None:
            message = charging.told(message)
        return frame_response(message, self.version, self.correlation_id)

    def frame_encoded(self, cls: type, body: bytes) -> list[Buffer]:
        """Frame an encoded response body; `cls` is the class of the response."""
        charging = self.connection.charging
        if charging is not None and charging.owes():
            return self.frame_counted(decode(cls, self.version, body))
        if is_flexible(cls, self.version):
            return [_FLEXIBLE.pack(len(body) + 5, self.correlation_id, 0), body]
        return [_FIXED.pack(len(body) + 4, self.correlation_id), body]


class Answer:
    """An answer that is ready only later.

    The connection polls its answers in request order, and cancels them when the connection is lost.
    An answer that becomes ready calls the connection's `wake()`, and writes nothing itself.
    """

    __slots__ = ()

    @property
    def overlaps(self) -> bool:
        """True if the next request may start before this one is answered; only for Produce."""
        return False

    def begin(self) -> None:
        """Begin to wait; called after the batches that the request staged are written."""

    def poll(self) -> list[Buffer] | None:
        """Return the parts of the frame; [] if there is no response, None while not ready."""
        raise NotImplementedError

    def hurry(self) -> None:
        """Become ready soon if possible, because another request waits; `poll` follows."""

    def cancel(self) -> None:
        """Release everything, because the connection is gone and the answer cannot be sent."""
        raise NotImplementedError


class CallAnswer(Answer):
    """An answer that keeps the `Call` to which it belongs."""

    __slots__ = ("call",)

    def __init__(self, call: Call) -> None:
        self.call = call


class Repeats(Protocol):
    """Answers requests of one connection that repeat an earlier one, without decoding them."""

    def answer(self, connection: "Connection", frame: memoryview) -> Answer | None:
        """Handle the request if it repeats an earlier one; else return None."""

    def learn(self, frame: memoryview, version: int, request: Any) -> None:
        """Remember a request that was decoded and handled."""


class Api(NamedTuple):
    """A row of the dispatch table: the supported versions of an API and its handler."""

    request: type
    first_version: int
    last_version: int
    handle: Callable[[Call, Any], object]
    """Returns the response message, a frame ready to be sent, or an `Answer` if it must wait."""
    refuse_version: Callable[[], object] | None = None
    """Returns the answer to an unsupported version, encoded in version 0. If it is None, the
    connection is closed."""
    repeats: Callable[[], Repeats] | None = None
    """Makes the object that recognises a connection's repeated requests. Only for Produce."""
