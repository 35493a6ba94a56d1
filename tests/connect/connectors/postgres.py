"""A PostgreSQL server of the tests' own: installed if need be, on a free port."""

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

INSTALL_TIMEOUT_S, START_TIMEOUT_S = 300, 60


def _programs() -> Path | None:
    """The folder with initdb and pg_ctl, or None."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if found:
        return found[-1].parent
    program = shutil.which("initdb")
    return Path(program).resolve().parent if program else None


def _installed() -> Path:
    programs = _programs()
    if programs is None and os.geteuid() == 0 and shutil.which("apt-get"):
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for command in (["update"], ["install", "-y", "--no-install-recommends", "postgresql"]):
            subprocess.run(
                ["apt-get", "-q", *command],
                env=environment,
                capture_output=True,
                timeout=INSTALL_TIMEOUT_S,
                check=False,
            )
        programs = _programs()
    if programs is None:
        pytest.skip("PostgreSQL is not installed, and cannot be: it needs root and apt-get")
    return programs


def _run(command: list[str], folder: Path) -> None:
    """Run a program as the user postgres, since PostgreSQL refuses root."""
    user = "postgres" if os.geteuid() == 0 else None
    done = subprocess.run(
        command, cwd=folder, user=user, capture_output=True, timeout=START_TIMEOUT_S, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{command[0]} failed: {done.stdout!r} {done.stderr!r}")


@contextlib.contextmanager
def server() -> Iterator[str]:
    """Run a server with logical replication; its address as SQLAlchemy writes it."""
    programs = _installed()
    # pytest's own folders are closed to the user postgres.
    with tempfile.TemporaryDirectory(prefix="minikafka-postgres-") as name:
        if os.geteuid() == 0:
            shutil.chown(name, "postgres")
        with _running(programs, Path(name)) as url:
            yield url


@contextlib.contextmanager
def _running(programs: Path, folder: Path) -> Iterator[str]:
    data = folder / "data"
    initdb = [str(programs / "initdb"), "-D", str(data), "-U", "postgres", "-A", "trust", "-N"]
    _run([*initdb, "-E", "UTF8", "--locale", "C"], folder)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = (
        f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c fsync=off "
        "-c wal_level=logical -c max_wal_senders=10 -c max_replication_slots=10"
    )
    control = [str(programs / "pg_ctl"), "-D", str(data), "-w"]
    # pg_ctl's output is not captured by a pipe that the server would keep open.
    _run([*control, "-l", str(folder / "log"), "-o", options, "start"], folder)
    try:
        yield f"postgresql+psycopg://postgres@127.0.0.1:{port}/postgres"
    finally:
        _run([*control, "-m", "immediate", "stop"], folder)
