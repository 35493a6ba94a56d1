"""Has the kernel notice a peer that went away without a word, while an answer may take minutes.

A member that joins a group waits for all others, as long as each may take between two polls. Where
the broker's host lost its power meanwhile, or a firewall forgot the connection, nothing would ever
arrive to end that wait: the deadline of the request is minutes away.
"""

import asyncio
import contextlib
import socket
from typing import Final

LOST_AFTER_S: Final = 30
"""The time after which a silent connection is lost: the default of request.timeout.ms."""
IDLE_S: Final = 10
PROBE_EVERY_S: Final = 5

_PROBES: Final = {
    "TCP_KEEPIDLE": IDLE_S,
    "TCP_KEEPINTVL": PROBE_EVERY_S,
    "TCP_KEEPCNT": (LOST_AFTER_S - IDLE_S) // PROBE_EVERY_S,
    # The limit for data that was sent and not acknowledged: no probes go out then, and TCP alone
    # takes a quarter of an hour (RFC 5482).
    "TCP_USER_TIMEOUT": LOST_AFTER_S * 1000,
}
"""The options by name: not every system has each of them."""


def keep_alive(transport: asyncio.BaseTransport) -> None:
    """End the connection about LOST_AFTER_S after its peer was last heard of, busy or idle."""
    found = transport.get_extra_info("socket")
    if found is None:
        return
    # Some systems refuse options to a connection that was reset already: it ends by itself.
    with contextlib.suppress(OSError):
        found.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _PROBES.items():
            option = getattr(socket, name, None)
            if option is not None:
                found.setsockopt(socket.IPPROTO_TCP, option, value)
