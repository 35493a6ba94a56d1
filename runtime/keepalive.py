"""Has the kernel end a connection whose peer is gone, although an answer may take minutes.

A member that joins a group waits for all others, up to their max.poll.interval.ms. If the broker's
host loses power during that wait, or a firewall drops the connection, no packet ends the wait
before the deadline of the request, minutes later. The socket options set here end it after about
LOST_AFTER_S.
"""

import asyncio
import contextlib
import socket
from typing import Final

LOST_AFTER_S: Final = 30
"""Seconds after which a silent connection is considered lost: the default of request.timeout.ms."""
IDLE_S: Final = 10
PROBE_EVERY_S: Final = 5

_PROBES: Final = {
    "TCP_KEEPIDLE": IDLE_S,
    "TCP_KEEPINTVL": PROBE_EVERY_S,
    "TCP_KEEPCNT": (LOST_AFTER_S - IDLE_S) // PROBE_EVERY_S,
    # The time limit for data that is sent and not acknowledged: no probes are sent then, and TCP
    # alone waits for a quarter of an hour (RFC 5482).
    "TCP_USER_TIMEOUT": LOST_AFTER_S * 1000,
}
"""The socket options by name, because not every system has all of them."""


def keep_alive(transport: asyncio.BaseTransport) -> None:
    """Make the connection end about LOST_AFTER_S after its peer was last heard of, busy or idle."""
    found = transport.get_extra_info("socket")
    if found is None:
        return
    # Some systems refuse options for a connection that was already reset; it ends by itself.
    with contextlib.suppress(OSError):
        found.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _PROBES.items():
            option = getattr(socket, name, None)
            if option is not None:
                found.setsockopt(socket.IPPROTO_TCP, option, value)
