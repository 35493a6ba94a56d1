"""The heartbeat datagram, by which an incarnation of a broker shows that it is alive.

It is sent to the UDP port with the same number as the controller's TCP listener. It only refreshes
liveness; every change of state is requested over TCP.

    plain   ["mk-heartbeat", fields]
    sealed  ["mk-sealed", the bytes of a plain datagram, their tag]
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from ..errors import RemoteProtocolError
from ..types import Buffer
from .packing import NodeId, Offset, dumps, from_plain, loads, packed, to_plain

DATAGRAM_BYTES_MAX: Final = 512
"""The most bytes of a heartbeat; a usual one has 100 to 130. A larger datagram is refused."""

_MARK: Final = "mk-heartbeat"
_SEALED_MARK: Final = "mk-sealed"


@packed
class Heartbeat:
    """One report that an incarnation of a broker is alive.

    The sequence number grows with each datagram of one incarnation, so that a late one is ignored.
    """

    cluster_id: str
    broker_id: NodeId
    broker_epoch: Offset
    incarnation_id: bytes
    sequence: Offset


class Datagram(NamedTuple):
    """One datagram as it was read; its tag is not checked yet."""

    heartbeat: Heartbeat
    content: bytes
    """The bytes that the tag authenticates."""
    tag: bytes
    """The tag; empty if the datagram is not sealed."""


def encode_heartbeat(heartbeat: Heartbeat, tag_of: Callable[[bytes], bytes] | None = None) -> bytes:
    """Encode one datagram; if `tag_of` is given, seal it with the tag that `tag_of` returns."""
    content = dumps([_MARK, to_plain(heartbeat)])
    return content if tag_of is None else dumps([_SEALED_MARK, content, tag_of(content)])


def decode_heartbeat(datagram: Buffer) -> Datagram:
    """Read one datagram without checking its tag; raise RemoteProtocolError for other bytes."""
    if len(datagram) > DATAGRAM_BYTES_MAX:
        raise RemoteProtocolError(f"a datagram of {len(datagram)} bytes is not a heartbeat")
    plain = loads(datagram)
    if type(plain) is not list or len(plain) < 2:
        raise RemoteProtocolError("not a heartbeat")
    content, tag = bytes(datagram), b""
    if plain[0] == _SEALED_MARK:
        content, tag = plain[1], plain[2] if len(plain) > 2 else b""
        if type(content) is not bytes or type(tag) is not bytes or not tag:
            raise RemoteProtocolError("a sealed heartbeat has its bytes and a tag")
        plain = loads(content)
        if type(plain) is not list or len(plain) < 2:
            raise RemoteProtocolError("not a heartbeat")
    if plain[0] != _MARK:
        raise RemoteProtocolError("not a heartbeat")
    heartbeat, _ = from_plain(Heartbeat, plain[1])
    return Datagram(heartbeat, content, tag)
