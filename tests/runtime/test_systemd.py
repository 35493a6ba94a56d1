"""What systemd is told of a daemon, on a socket of the test's own."""

import asyncio
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from minikafka.runtime.systemd import Systemd


@pytest.fixture(params=["path", "abstract"])
def systemd(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[socket.socket]:
    """The end of the socket that systemd reads."""
    name = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as end:
        end.bind(name if request.param == "path" else f"\0{name}")
        end.settimeout(10)
        yield end


def environment(end: socket.socket, **more: str) -> dict[str, str]:
    name = end.getsockname()
    address = name if isinstance(name, str) else f"@{name[1:].decode()}"
    return {"NOTIFY_SOCKET": address, **more}


async def test_ready_alive_and_stopping(systemd: socket.socket) -> None:
    environ = environment(systemd, WATCHDOG_USEC="30000", WATCHDOG_PID=str(os.getpid()), HOME="/")
    reports = Systemd.from_environment(environ)
    assert environ == {"HOME": "/"}, "a child must not report in this process's name"
    assert reports is not None
    reports.ready('{"node_id": 1}\nREADY=0')
    assert systemd.recv(999) == b'READY=1\nSTATUS={"node_id": 1} READY=0'
    for _ in range(3):
        assert await asyncio.to_thread(systemd.recv, 999) == b"WATCHDOG=1"
    reports.stopping("SIGTERM")
    while (report := systemd.recv(999)) == b"WATCHDOG=1":
        pass
    assert report == b"STOPPING=1\nSTATUS=stopping: SIGTERM"


@pytest.mark.parametrize(
    "watchdog", [{}, {"WATCHDOG_USEC": "0"}, {"WATCHDOG_USEC": "30000", "WATCHDOG_PID": "1"}]
)
async def test_without_a_watchdog_of_its_own_no_sign_of_life(
    systemd: socket.socket, watchdog: dict[str, str]
) -> None:
    reports = Systemd.from_environment(environment(systemd, **watchdog))
    assert reports is not None
    reports.ready("up")
    reports.stopping("asked")
    assert systemd.recv(999) == b"READY=1\nSTATUS=up"
    assert systemd.recv(999) == b"STOPPING=1\nSTATUS=stopping: asked"


@pytest.mark.parametrize("address", [None, "", "relative", "/nobody/listens"])
def test_nobody_to_report_to_is_no_failure(address: str | None) -> None:
    environ = {} if address is None else {"NOTIFY_SOCKET": address}
    reports = Systemd.from_environment(environ)
    if reports is not None:
        reports.stopping("asked")
    assert environ == {}
