"""What a stranger on the network hears: all that is sent to controllers."""

from collections import deque
from typing import TYPE_CHECKING

from minikafka.protocol.control.heartbeat import decode_heartbeat

if TYPE_CHECKING:
    from .tcp import Endpoint

THIEF = "stranger"
"""The name of the stranger's machine."""
CONTROL_PORT = 9093
HEARD_DATAGRAMS = 300
HEARD_SESSIONS = 12
HEARD_BYTES = 20_000
"""The bytes of each session that the stranger remembers, from its beginning."""


class Ear:
    """Remembers what went to controllers, in the order in which it was sent."""

    def __init__(self) -> None:
        self.datagrams: deque[bytes] = deque(maxlen=HEARD_DATAGRAMS)
        self.sessions: dict[Endpoint, bytearray] = {}
        self.true: dict[tuple[bytes, bytes], None] = {}
        """Content and tag of all datagrams that brokers have sent."""

    def on_datagram(self, source: str, data: bytes) -> None:
        if source.startswith("broker-"):
            sent = decode_heartbeat(data)
            self.true[sent.content, sent.tag] = None
            self.datagrams.append(data)

    def on_segment(self, source: "Endpoint", data: bytes) -> None:
        peer = source.get_extra_info("peername")
        if peer[1] != CONTROL_PORT or source.host.name == THIEF:
            return
        heard = self.sessions.setdefault(source, bytearray())
        if len(heard) < HEARD_BYTES:
            heard += data
        if len(self.sessions) > HEARD_SESSIONS:
            del self.sessions[next(iter(self.sessions))]
