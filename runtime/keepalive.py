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


def keep_alive(transport: asyncio.BaseTransport) -> None:
    """Make the connection end about LOST_AFTER_S after its peer was last heard of, busy or idle."""
    found = transport.get_extra_info("socket")
    if found is not None:
        end_when_silent(found, LOST_AFTER_S)


def end_when_silent(one: socket.socket, lost_after_s: int) -> None:
    """Make a connection end that long after its peer was last heard of, or has taken anything.

    What a listening socket accepts inherits this.
    """
    # By name, because not every system has all of them.
    options = {
        "TCP_KEEPIDLE": IDLE_S,
        "TCP_KEEPINTVL": PROBE_EVERY_S,
        "TCP_KEEPCNT": (lost_after_s - IDLE_S) // PROBE_EVERY_S,
        # The time limit for data that is sent and not acknowledged: no probes are sent then, and
        # TCP alone waits for a quarter of an hour (RFC 5482).
        "TCP_USER_TIMEOUT": lost_after_s * 1000,
    }
    # Some systems refuse options for a connection that was already reset; it ends by itself.
    with contextlib.suppress(OSError):
        one.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in options.items():
            option = getattr(socket, name, None)
            if option is not None:
                one.setsockopt(socket.IPPROTO_TCP, option, value)
