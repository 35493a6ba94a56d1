"""One connection to the controller: its handshake, its requests and their answers.

The first request must be Hello, in a sealed frame if this controller requires a seal; SealOffer may
come before it. A connection counts as a broker's once it has named that broker's
present epoch (`bind`); from then on everything that arrives shows that the broker is alive. The
requests of one connection begin in their order and may be answered out of order.
"""

import asyncio
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from ...client.net.control import ControlStream
from ...protocol.control.frames import FRAME_BYTES_MAX, Frame
from ...protocol.control.messages import (
    ROLE_BROKER,
    ROLE_TOOL,
    Hello,
    HelloAnswer,
    Refused,
    SealOffer,
)
from ...protocol.control.packing import ITEM_COUNT_MAX
from ...protocol.errors import ApiError, ErrorCode, RemoteProtocolError
from ...security.control_identity import why_no_greeting, why_not_for
from ...security.control_tls import DATAGRAM_KEY_BYTES
from . import hello
from .authorizing import Authorizing
from .table import APIS, AT_ANY_CONTROLLER, why_not

if TYPE_CHECKING:
    from ..server import ControllerServer

REQUESTS_IN_FLIGHT_MAX: Final = 512
SETTLED_WITHIN_MS: Final = 800
"""Milliseconds that a request waits for an election that is under way."""
HELLO_BYTES_MAX: Final = 64 << 10
"""Bytes that a connection may hold before its Hello."""
HELLO_ITEMS_MAX: Final = 64
"""The longest array in a frame before Hello."""
HELLO_WITHIN_MS: Final = 10_000
"""Milliseconds within which the Hello must come, so that a silent connection does not hold a
descriptor for ever."""
NOT_PROVED: Final = ErrorCode.CLUSTER_AUTHORIZATION_FAILED

log = logging.getLogger(__name__)


class Session:
    """One connection: the peer's Hello, and the requests that are not answered yet."""

    def __init__(self, server: "ControllerServer", proved: str | None = None) -> None:
        """`proved` is the name that the peer's certificate proves; None if it has shown none."""
        self.server = server
        self._proved = proved
        self._datagram_key = b""
        self.stream = ControlStream(
            self._on_frame, self._on_closed, self._on_resized, self._say_refused
        )
        self.stream.limit_frames(HELLO_BYTES_MAX, HELLO_ITEMS_MAX)
        self._has_offered = False
        self.greeting: Hello | None = None
        self.broker: tuple[int, int] | None = None
        """Id and epoch of the broker that this connection is bound to; None for other peers."""
        self._tasks: dict[asyncio.Task[None], None] = {}
        loop = asyncio.get_running_loop()
        self._silence = loop.call_later(HELLO_WITHIN_MS / 1000, self._on_silence)

    @property
    def authorizing(self) -> Authorizing | None:
        """The authorization of requests that this peer forwards; None if they are not checked.

        Those of a tool are not checked, because it proves the same as a node and has no principal.
        """
        is_tool = self.greeting is not None and self.greeting.role == ROLE_TOOL
        return None if is_tool else self.server.authorizing

    def bind(self, broker_id: int, broker_epoch: int) -> None:
        """Bind the connection to this start of the broker.

        The peer has proved that it is the broker by the epoch, which only this start was given.
        """
        if self.broker == (broker_id, broker_epoch):
            return
        self._unbind()
        self.broker = (broker_id, broker_epoch)
        seal = self.stream.seal
        key = self._datagram_key if seal is None else seal.datagram_key
        self.server.guards.on_session(broker_id, key or None)
        leases, runtime = self.server.controller.leases, self.server.runtime
        leases.on_connection_opened(broker_id, broker_epoch, runtime.monotonic_ms())
        self.server.liveness.set_timer()

    def _unbind(self) -> None:
        if self.broker is not None:
            broker, self.broker = self.broker, None
            effects = self.server.controller.leases.on_connection_lost(*broker)
            self.server.liveness.carry_out(effects)

    def close(self) -> None:
        """Close the connection because the controller stops."""
        self.stream.close("the controller stops")

    def _on_resized(self) -> None:
        self.server.sessions.note(self, self.stream.held_bytes)

    def _say_refused(self, who: str, why: str) -> None:
        self.server.refusals.close(who, why, self.server.runtime.monotonic_ms())

    def _on_silence(self) -> None:
        if self.greeting is None:
            self.stream.abort(f"no Hello within {HELLO_WITHIN_MS} ms")

    def _on_frame(self, frame: Frame) -> None:
        message = frame.message
        if self.broker is not None:
            now_ms = self.server.runtime.monotonic_ms()
            self.server.controller.leases.on_control_contact(*self.broker, now_ms)
        if self.greeting is None:
            self._begin(frame.correlation_id, message)
            return
        if type(message) not in APIS:
            raise RemoteProtocolError(f"{type(message).__name__} is not a request to a controller")
        if len(self._tasks) >= REQUESTS_IN_FLIGHT_MAX:
            raise RemoteProtocolError(f"more than {REQUESTS_IN_FLIGHT_MAX} requests unanswered")
        task = self.server.runtime.spawn(
            self._carry_out(frame.correlation_id, message), f"{type(message).__name__}"
        )
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)

    def _begin(self, correlation_id: int, message: Any) -> None:
        """Answer a message of the handshake.

        Raise RemoteProtocolError if the message does not belong to a handshake.
        """
        if isinstance(message, SealOffer) and not self._has_offered:
            self._has_offered = True  # Once, because each offer costs a look at the key file.
            self._seal(correlation_id, message)
        elif not isinstance(message, Hello):
            raise RemoteProtocolError(f"{type(message).__name__} before Hello")
        elif self.stream.seal is None and self._requires_seal:
            why = "this controller speaks to nobody who does not prove to hold its cluster's key"
            why = f"{why}: set control.psk.file there"
            self.server.sessions.unproved_count += 1
            self._refuse(correlation_id, message, HelloAnswer(NOT_PROVED, why))
        else:
            self._greet(correlation_id, message)

    @property
    def _requires_seal(self) -> bool:
        return self._proved is None and self.server.ground.proofs.are_required

    @property
    def is_sealed(self) -> bool:
        """True if nobody can change what is sent on this connection unnoticed."""
        return self.stream.seal is not None or self._proved is not None

    def _seal(self, correlation_id: int, offer: SealOffer) -> None:
        keys = self.server.ground.proofs.keys
        accepted = None if keys is None else keys.accept(offer)
        if accepted is not None:
            answer, seal = accepted
            self.stream.send(correlation_id, answer)
            self.stream.seal = seal
            return
        # The peer may go on without a seal, where none is required.
        why = "it has no control.psk.file"
        if keys is not None:
            why = "no key of our control.psk.file is in its own"
            log.info("no key of %s is in control.psk.file: no seal", self.stream.peer)
            self.server.sessions.unproved_count += self._requires_seal
        self.stream.send(correlation_id, Refused(NOT_PROVED, why))

    def _greet(self, correlation_id: int, greeting: Hello) -> None:
        controller = self.server.controller
        if controller.cluster_id is None and greeting.role == ROLE_BROKER:
            # Its registration will name the cluster, which the first leader is about to make.
            self.stream.abort("there is no cluster yet")
            return
        answer = self._proven(greeting) or hello.answer(self.server, greeting)
        if answer.error:
            self._refuse(correlation_id, greeting, answer)
        else:
            if self._proved is not None:
                self._datagram_key = self.server.runtime.rng.randbytes(DATAGRAM_KEY_BYTES)
                answer = replace(answer, datagram_key=self._datagram_key)
            self.stream.send(correlation_id, answer)
            self.greeting = greeting
            self.stream.limit_frames(FRAME_BYTES_MAX, ITEM_COUNT_MAX)

    def _proven(self, greeting: Hello) -> HelloAnswer | None:
        """Return the refusal of a peer whose certificate names another node; else None."""
        if self._proved is None:
            return None
        super_users = self.server.config.authorizer.super_principals
        why = why_no_greeting(self._proved, greeting, super_users)
        if why is None:
            return None
        self.server.sessions.unproved_count += 1
        return HelloAnswer(NOT_PROVED, why)

    def _refuse(self, correlation_id: int, greeting: Hello, answer: HelloAnswer) -> None:
        self.stream.send(correlation_id, answer)
        self._say_refused(f"node {greeting.node_id} at {self.stream.peer}", answer.message)
        self.stream.close("refused")

    async def _carry_out(self, correlation_id: int, message: Any) -> None:
        controller = self.server.controller
        try:
            assert self.greeting is not None
            why = why_not(self.greeting.role, message)
            if why is None and self._proved is not None:
                why = why_not_for(self.greeting.node_id, message)
            if why is not None:
                raise ApiError(NOT_PROVED, why)
            if type(message) not in AT_ANY_CONTROLLER:
                # Between two leaders a request waits until a new one is known.
                await controller.wait_until_settled(SETTLED_WITHIN_MS)
            answer = await APIS[type(message)](self, message)
        except ApiError as error:
            is_elsewhere = error.code is ErrorCode.NOT_CONTROLLER
            hint = controller.quorum.leader_endpoint() if is_elsewhere else None
            answer = Refused(error.code, error.detail, hint)
        self.stream.send(correlation_id, answer)

    def _on_closed(self, reason: str) -> None:
        self.server.sessions.remove(self)
        self._silence.cancel()
        if self.broker is not None:
            log.info("control connection of broker %d lost: %s", self.broker[0], reason)
        for task in self._tasks:
            task.cancel()
        self._unbind()
