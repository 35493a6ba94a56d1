"""The heartbeat datagram, which shows that one start of a broker was alive a moment ago.

It is sent to the UDP port with the number of the controller's TCP listener. It only refreshes
liveness; every change of state goes over TCP.
"""

from typing import Final

from ..errors import RemoteProtocolError
from ..types import Buffer
from .packing import NodeId, Offset, dumps, from_plain, loads, packed, to_plain

DATAGRAM_BYTES_MAX: Final = 512
"""The most bytes of a heartbeat; a usual one has about 90. A larger datagram is refused."""

_MARK: Final = "mk-heartbeat"


@packed
class Heartbeat:
    """One sign of life.

    The sequence grows with each datagram of one incarnation, so that one arriving late is ignored.
    """

    cluster_id: str
    broker_id: NodeId
    broker_epoch: Offset
    incarnation_id: bytes
    sequence: Offset


def encode_heartbeat(heartbeat: Heartbeat) -> bytes:
    """Encode one datagram."""
    return dumps([_MARK, to_plain(heartbeat)])


def decode_heartbeat(datagram: Buffer) -> Heartbeat:
    """Read one datagram; raise RemoteProtocolError when it is not a heartbeat."""
    if len(datagram) > DATAGRAM_BYTES_MAX:
        raise RemoteProtocolError(f"a datagram of {len(datagram)} bytes is not a heartbeat")
    plain = loads(datagram)
    if type(plain) is not list or len(plain) < 2 or plain[0] != _MARK:
        raise RemoteProtocolError("not a heartbeat")
    heartbeat, _ = from_plain(Heartbeat, plain[1])
    return heartbeat
