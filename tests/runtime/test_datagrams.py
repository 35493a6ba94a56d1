"""Datagram sockets whose opening is cancelled."""

import asyncio
import gc
from collections.abc import Callable, Coroutine
from typing import Any

import asyncio_dgram
import pytest
from asyncio_dgram.aio import Protocol

from minikafka.runtime.datagrams import opened

NOBODY = ("127.0.0.1", 9)
HERE = ("127.0.0.1", 0)


@pytest.mark.parametrize(("opening", "address"), [("connect", NOBODY), ("bind", HERE)])
async def test_a_cancelled_opening_leaves_no_socket(
    opening: str, address: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    transports: list[Any] = []
    made = Protocol.connection_made

    def made_and_cancelled(self: Any, transport: Any) -> None:
        made(self, transport)
        transports.append(transport)
        task.cancel()

    monkeypatch.setattr(Protocol, "connection_made", made_and_cancelled)
    function: Callable[..., Coroutine[Any, Any, Any]] = getattr(asyncio_dgram, opening)
    task = asyncio.ensure_future(opened(function(address)))
    await asyncio.wait([task])
    assert task.cancelled()
    assert [transport.is_closing() for transport in transports] == [True]
    transports.clear()
    await asyncio.sleep(0)
    gc.collect()  # a socket left open would be named here


async def test_an_error_of_the_opening_is_raised() -> None:
    async def refused() -> Any:
        raise OSError("no buffer space available")

    with pytest.raises(OSError, match="no buffer space"):
        await opened(refused())
