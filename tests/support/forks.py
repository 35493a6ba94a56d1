"""Refuses a fork of the test run itself.

A child that is forked holds the pipe by which its worker speaks with pytest-xdist. If the worker
dies while such a child lives, nobody learns of it, and the run waits for ever. The child also
inherits the libraries of earlier tests without their threads, and may wait for those. A child that
executes a program of its own (subprocess, the methods spawn and forkserver of multiprocessing)
inherits neither.
"""

import sys
from typing import Any


def pytest_configure() -> None:
    """Refuse from now on; an audit hook stays to the end of the process."""
    sys.addaudithook(_refuse)


def _refuse(event: str, arguments: tuple[Any, ...]) -> None:
    if event in ("os.fork", "os.forkpty"):
        raise RuntimeError("a test must not fork the test run: start a process by subprocess")
