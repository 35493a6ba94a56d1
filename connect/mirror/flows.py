"""Runs flows: a worker for each, at home in the target, with MM2's connectors on it."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

from ..herding import Conflict, Herder, HerderError, NotLeader
from ..states import State
from .mm2_config import Flow, Mm2Config

log = logging.getLogger(__name__)

RESTART_S = 15
"""Seconds between two looks for connectors that failed."""
TRIES = 30
"""How often a worker is asked to take a configuration while its group settles, 1 s apart."""


class Running(Protocol):
    """A worker that runs."""

    @property
    def herder(self) -> Herder:
        """The herder of the worker."""

    def ready(self) -> Mapping[str, object]:
        """Return its id and its addresses."""

    async def stop(self) -> None:
        """Stop connectors and tasks, and commit their offsets."""


StartWorker = Callable[[dict[str, str]], Awaitable[Running]]
"""Starts a worker with these properties."""


class Mirroring:
    """The flows that this process runs."""

    def __init__(self, config: Mm2Config, flows: Sequence[Flow], start_worker: StartWorker) -> None:
        self._config = config
        self._flows = flows
        self._start_worker = start_worker
        self._workers: dict[Flow, Running] = {}
        self._watching: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start the workers, and their connectors. Raise HerderError if one is refused."""
        for flow in self._flows:
            worker = await self._start_worker(self._config.worker_props(flow))
            self._workers[flow] = worker
            await self._configure(flow, worker.herder)
        self._watching = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(RESTART_S)
            await self.restart_failed()

    async def restart_failed(self) -> None:
        """Start connectors again that failed, as when a cluster was not there yet."""
        for flow, worker in self._workers.items():
            for name in self._config.connectors(flow):
                try:
                    status = await worker.herder.status(name)
                    if status["connector"]["state"] == State.FAILED.value:
                        log.info("%s: %s is started again", flow, name)
                        await worker.herder.restart_connector(name)
                except HerderError as error:
                    log.debug("%s: %s: %s", flow, name, error)

    async def _configure(self, flow: Flow, herder: Herder) -> None:
        """Give a flow's connectors their configuration, and delete those that it has no more.

        In a group of workers only the leader does that, with the configuration that it has.
        """
        for left in reversed(range(TRIES)):
            try:
                await self._put(flow, herder)
                return
            except NotLeader:
                log.warning("%s: another worker leads the flow, and has its configuration", flow)
                return
            except Conflict:
                if not left:
                    raise
            await asyncio.sleep(1)

    async def _put(self, flow: Flow, herder: Herder) -> None:
        wanted = self._config.connectors(flow)
        for name in await herder.connectors():
            if name not in wanted:
                await herder.delete(name)
        for name in wanted:
            await herder.put_config(name, self._config.connector_props(flow, name))
        log.info("%s: %s", flow, ", ".join(wanted))

    def ready(self) -> Mapping[str, object]:
        """Return what each flow's worker says of itself."""
        return {"flows": {str(flow): worker.ready() for flow, worker in self._workers.items()}}

    async def stop(self) -> None:
        """Stop all workers, at once."""
        if self._watching is not None:
            self._watching.cancel()
        workers = list(self._workers.values())
        await asyncio.gather(*(worker.stop() for worker in workers))
