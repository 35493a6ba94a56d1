"""The loop that async tests run on, their order and distribution over workers, second runs."""

import asyncio
import gc
import os
from collections.abc import Callable, Generator
from typing import Any

import pytest
import uvloop
from hypothesis import settings

from minikafka.runtime import fs

from .support import deadline, forks, moves, second_run
from .support.by_folder import COMPUTING, ByFolder, folder_of

# The machine is shared with real processes: how long one example took says nothing.
settings.register_profile("minikafka", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("minikafka")

# A machine under load may drop pages that were just written. In a test, whoever reads them waits;
# `Cold` comes where a test makes it.
fs._RWF_NOWAIT = 0


def pytest_configure(config: pytest.Config) -> None:
    """Register the plugins of support/: second runs, deadlines, no forks, metrics that move.

    See the modules there.
    """
    config.pluginmanager.register(moves)
    config.pluginmanager.register(second_run)
    config.pluginmanager.register(deadline)
    config.pluginmanager.register(forks)


def pytest_asyncio_loop_factories(config: Any, item: Any) -> dict[str, Callable[[], Any]]:
    """Run async tests on the daemons' event loop, except for those marked `plain_loop`.

    uvloop 0.23 hangs in close() over a datagram socket whose opening was cancelled. Daemons avoid
    that (runtime/datagrams.py) and are guarded (runtime/daemon.py), but a test run is not.
    """
    if item.get_closest_marker("plain_loop"):
        return {"asyncio": asyncio.new_event_loop}
    return {"uvloop": uvloop.new_event_loop}


def pytest_addoption(parser: Any) -> None:
    """Add `--rewrite`, with which `pytest tests/golden` writes the transcripts anew."""
    parser.addoption("--rewrite", action="store_true", help="write golden transcripts anew")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order the tests so that two workers end together: Spark's take longest and come first.

    Tests that only compute come last, in small portions (support/by_folder.py).
    """
    for item in items:
        if folder_of(item.nodeid) in ("scenarios", "simulation"):
            # Each is quick; hundreds of them are not.
            item.add_marker(pytest.mark.slow)
    items.sort(key=lambda item: _turn(folder_of(item.nodeid)))


def _turn(folder: str) -> int:
    if folder == "spark":
        return 0
    return 2 if folder in COMPUTING else 1


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    """Distribute the tests by folder if `--dist loadscope` is given."""
    return ByFolder(config, log) if config.getvalue("dist") == "loadscope" else None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the garbage collector from scanning the collected tests, which live to the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()
