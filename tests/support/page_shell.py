"""Runs the commands that a page of docs shows, block by block, as somebody would who reads it.

    with PageShell(tmp_path) as shell:
        for block in blocks(page, "Three brokers, step by step"):
            shell.run(block)

All blocks run in one bash, so that jobs, variables and the working directory last. Whatever a block
leaves running ends with the shell, and the shell with the test process.
"""

import contextlib
import itertools
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Self

_HEADING_OR_BLOCK: Final = re.compile(r"(?m)^#+ ([^\n]*)$|^```sh\n([\s\S]*?)^```$")


def sections(page: str) -> list[tuple[str, list[str]]]:
    """Return each heading of the page in order, with its blocks of commands."""
    found: list[tuple[str, list[str]]] = []
    for match in _HEADING_OR_BLOCK.finditer(page):
        if match[1] is not None:
            found.append((match[1], []))
        else:
            found[-1][1].append(match[2])
    return found


def commands(block: str) -> list[str]:
    """Return the lines of a block; one that ends in a backslash is joined with the next."""
    return [line for line in block.replace("\\\n", "").splitlines() if line]


class PageShell:
    """A bash that ends at the first command that fails."""

    def __init__(
        self,
        directory: Path,
        *,
        environment: Mapping[str, str] | None = None,
        prefix: tuple[str, ...] = (),
    ) -> None:
        """The shell starts in `directory`; `prefix` runs it, such as nsenter, and must exec."""
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        self._process = subprocess.Popen(
            [*prefix, "bash", "--noprofile", "--norc"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=directory,
            env={**os.environ, "PATH": path, **(environment or {})},
            start_new_session=True,
        )
        self._numbers = itertools.count()
        # The shell's input ends with this process; then its jobs end too.
        self.run("trap 'kill -KILL 0' EXIT; set -e -o pipefail")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Kill the shell and all that it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate(timeout=20)

    def run(self, block: str, within_s: float = 60.0) -> str:
        """Run a block and return its output.

        Raise AssertionError if it fails, or does not end in time.

        The input of its commands is empty.
        """
        mark = f"-- end of block {next(self._numbers)} --"
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(f"{{ :\n{block}\n}} </dev/null\necho '{mark}'\n".encode())
            self._process.stdin.flush()
        output, deadline = "", time.monotonic() + within_s
        while not output.endswith(f"{mark}\n"):
            fresh = self._read(deadline)
            assert fresh, f"{self._why(within_s)}:\n{block}\n{output}"
            output += fresh
        return output.removesuffix(f"{mark}\n")

    def _read(self, deadline: float) -> str:
        """Return more output; nothing if the shell has ended or the time is over."""
        assert self._process.stdout is not None
        pipe = self._process.stdout.fileno()
        left = max(0.0, deadline - time.monotonic())
        is_readable, _, _ = select.select([pipe], [], [], left)
        return os.read(pipe, 1 << 16).decode(errors="replace") if is_readable else ""

    def _why(self, within_s: float) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(0.5)
        return f"did not end within {within_s:g} s" if self._process.poll() is None else "failed"
