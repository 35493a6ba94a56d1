"""A request as its handler sees it, and an answer that is not ready when the handler returns.

Values and one small contract between `Connection` and the modules of `api/`; no I/O here.
"""

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ...protocol.codec import frame_response, is_flexible
from ...protocol.types import Buffer
from ..edge import Edge
from .timing import COUNTED_ELSEWHERE

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

    def rest_on_lease(self) -> None:
        """Let the answer leave only while no other broker may lead: it is true only then."""
        if self.edge.lease.is_required:
            self.connection.rest_on_lease()

    def frame(self, message: object) -> list[Buffer]:
        """Encode the response to this request."""
        times = self.connection.times
        if times is not None and message.__class__ not in COUNTED_ELSEWHERE:
            times.note_errors(message)
        return frame_response(message, self.version, self.correlation_id)

    def frame_encoded(self, cls: type, body: bytes) -> list[Buffer]:
        """Frame the response of a class whose body is already encoded."""
        if is_flexible(cls, self.version):
            return [_FLEXIBLE.pack(len(body) + 5, self.correlation_id, 0), body]
        return [_FIXED.pack(len(body) + 4, self.correlation_id), body]


class Answer:
    """An answer given later.

    The connection polls it in request order and cancels it if it dies. When it is ready, the
    connection's `wake()` is called; a callback writes nothing.
    """

    __slots__ = ()

    @property
    def overlaps(self) -> bool:
        """True if the next request may start before this one is answered: only among Produce."""
        return False

    def begin(self) -> None:
        """Wait for the rest: what the request staged has been written."""

    def poll(self) -> list[Buffer] | None:
        """Return the frame in parts; empty for no answer at all; None while it is not ready."""
        raise NotImplementedError

    def hurry(self) -> None:
        """Be quick: another request waits for this answer; it is polled right after."""

    def cancel(self) -> None:
        """Leave nothing behind: nobody will read the answer."""
        raise NotImplementedError


class CallAnswer(Answer):
    """An answer that keeps the call it is for."""

    __slots__ = ("call",)

    def __init__(self, call: Call) -> None:
        self.call = call


class Repeats(Protocol):
    """Requests of one connection that need not be decoded, because an earlier one was."""

    def answer(self, connection: "Connection", frame: memoryview) -> Answer | None:
        """Handle the request, None if it repeats nothing."""

    def learn(self, frame: memoryview, version: int, request: Any) -> None:
        """Remember a request that was decoded and handled."""


class Api(NamedTuple):
    """A row of the dispatch table: the versions spoken and the handler."""

    request: type
    first_version: int
    last_version: int
    handle: Callable[[Call, Any], object]
    """Gives the response message, a frame ready to be sent, or an `Answer` where it must wait."""
    refuse_version: Callable[[], object] | None = None
    """Answers, in version 0, a version that is not spoken; None: the connection closes."""
    repeats: Callable[[], Repeats] | None = None
    """Makes what a connection keeps of its requests to this API. Only for Produce."""
