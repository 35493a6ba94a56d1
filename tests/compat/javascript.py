"""The JavaScript clients: installed once from the committed lock, outside the repository."""

import atexit
import hashlib
import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent / "node"
LOCKED = ("package.json", "package-lock.json")
NEEDS = (20, 19)
"""Node from this version on."""
ZSTD_FROM = (22, 15)
"""Node has zstd from here on; @platformatic/kafka takes it from there."""
INSTALL_WITHIN_S = 240


class NotInstalled(AssertionError):
    """npm could not install what the lock names."""


@cache
def missing() -> str | None:
    """Say why the JavaScript clients cannot be run here; None if they can."""
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            return f"{program} is not installed"
    if node() < NEEDS:
        return f"node is older than {NEEDS[0]}.{NEEDS[1]}"
    return None


@cache
def node() -> tuple[int, ...]:
    """Give the version of Node."""
    done = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True)
    return tuple(map(int, done.stdout.strip().removeprefix("v").split(".")[:2]))


def skip_if_missing() -> None:
    """Skip the test where there is no Node."""
    if why := missing():
        pytest.skip(why)


def skip_if_older(than: tuple[int, ...]) -> None:
    """Skip what an older Node has not got."""
    if node() < than:
        pytest.skip(f"node is older than {'.'.join(map(str, than))}")


@cache
def installed() -> Path:
    """Install what the lock names, once for every content of the lock."""
    content = b"".join((SOURCE / name).read_bytes() for name in LOCKED)
    cache_home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    place = cache_home / "minikafka-compat" / hashlib.sha256(content).hexdigest()[:16]
    if not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(dir=place.parent))
        for name in LOCKED:
            shutil.copy(SOURCE / name, made)
        command = ["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"]
        done = subprocess.run(
            command, cwd=made, capture_output=True, text=True, timeout=INSTALL_WITHIN_S
        )
        if done.returncode != 0:
            shutil.rmtree(made)
            raise NotInstalled(f"{' '.join(command)}:\n{done.stderr[-2000:]}")
        try:
            made.rename(place)
        except OSError:
            # Another run was quicker.
            shutil.rmtree(made)
    return place


@cache
def _scripts() -> Path:
    """Where the agents' scripts lie beside the modules: imports look for them upwards."""
    place = installed()
    made = Path(tempfile.mkdtemp(prefix="agents-", dir=place))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    for script in SOURCE.glob("*.mjs"):
        shutil.copy(script, made)
    return made


def command(client: str) -> list[str]:
    """Give the command that runs a client's agent."""
    return ["node", "--no-warnings", str(_scripts() / f"{client}.mjs")]
